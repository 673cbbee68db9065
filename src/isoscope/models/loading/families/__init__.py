"""One file per family. The longer readers are in `readers/`."""
