"""The catalogue: every archive has a version and a sum, and every entry is documented."""

import re
from pathlib import Path

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.packages.catalogue import DATA, ENTRIES, MODELS, find_entry

PAGE = Path(__file__).parents[2] / "docs" / "real-models.md"


def test_every_archive_has_a_version_a_sum_and_a_size():
    archives = {part.archive for entry in ENTRIES.values() for part in entry.parts}
    assert all(re.search(r"[=@]\d", archive.name) for archive in archives)
    assert all(re.fullmatch(r"[0-9a-f]{64}", archive.sha256) for archive in archives)
    assert len({archive.sha256 for archive in archives}) == len(archives)
    assert all(archive.size > 1_000_000 for archive in archives)


def test_every_entry_is_documented_with_its_package_and_licence():
    page = PAGE.read_text("utf-8")
    for name, entry in ENTRIES.items():
        assert f"| `{name}` |" in page
        assert all(re.split(r"(?<=.)[=@]", part.archive.name)[0] in page for part in entry.parts)


def test_a_model_names_data_that_exist():
    assert {model.data for model in MODELS} <= {"embedded", *(f"package:{data.folder}" for data in DATA)}
    assert all(model.kind == "models" for model in MODELS)
    assert all(data.kind == "data" for data in DATA)


def test_a_name_is_found_with_its_prefix_and_in_any_case():
    assert find_entry("package:all-MiniLM-L6-v2") is find_entry("all-minilm-l6-v2") is ENTRIES["all-minilm-l6-v2"]


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(IsoscopeError, match=r"called 'dinov2-smal', did you mean dinov2-small\? `isoscope fetch --list` lists them all\."):
        find_entry("package:dinov2-smal")
