"""The vocabulary of sources."""

import dataclasses

import pytest

from isoscope.core.source import Item, SourceKind, source_modality


@pytest.mark.parametrize(("modality", "read"), [("text", "text"), ("characters", "text"), ("speech", "speech"), ("images", "images")])
def test_models_of_characters_read_text(modality, read):
    assert source_modality(modality) == read


def test_items_and_kinds_cannot_be_changed():
    """Ids decide which points are sampled, so an item must stay what it was when it was read."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Item("a", "text").id = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        SourceKind("text", "text", "a file", lambda *_: None).open = None
