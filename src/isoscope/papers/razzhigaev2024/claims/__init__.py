"""The claims of "The Shape of Learning", one a file."""
