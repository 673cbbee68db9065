"""What an archive holds, rewritten as a folder that transformers reads, or as plain files of data."""
