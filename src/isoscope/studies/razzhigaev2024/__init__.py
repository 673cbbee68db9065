"""Paper 2: The Shape of Learning."""
