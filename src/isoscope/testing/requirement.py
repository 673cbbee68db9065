"""How a check fails."""

from __future__ import annotations


def require(holds: bool, sentence: str) -> None:
    """Raise `AssertionError` with the sentence unless it holds. A plain `assert` would vanish under `python -O`."""
    if not holds:
        raise AssertionError(sentence)
