"""Studies: each folder asks one question of the instrument's tables, and holds everything about it."""
