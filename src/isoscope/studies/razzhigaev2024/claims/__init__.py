"""The claims of "The Shape of Learning": one file per numbered statement."""
