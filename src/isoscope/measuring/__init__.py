"""From an experiment to finished cells, and from cells to tables."""
