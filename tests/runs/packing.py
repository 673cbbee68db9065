"""Statistics as named arrays, all at once: small ones only."""

from isoscope.runs.cell import packed


def pack(sites, *, sample=True):
    """The arrays of all sites by name."""
    return dict(packed(sites, sample=sample))
