"""Small, exact, mergeable summaries of a stream of vectors. All state of a measurement lives here."""
