"""Statistics as named arrays, all at once: small ones only."""

from isoscope.runs.tensors import pack_statistics


def pack(sites, *, sample=True):
    """The arrays of all sites by name."""
    return dict(pack_statistics(sites, sample=sample))
