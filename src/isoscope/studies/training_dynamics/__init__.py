"""What changes over the checkpoints of a training, by how much, and what comes first."""
