"""open_source finds the kind that takes a spec, or says in one sentence why none does."""

import subprocess
import sys

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources import open_source, sources


def test_the_registry_lists_kinds_and_not_the_data():
    assert {"arrays", "hub", "text"} <= set(sources.names())
    assert "data" not in sources.names()
    assert [kind.name for kind in sources] == sources.names()


def test_importing_and_opening_needs_no_heavy_package():
    code = (
        "import sys; from isoscope.sources import open_source; next(open_source('embedded').items());"
        "print([m for m in ('torch', 'transformers', 'pyarrow', 'pandas', 'datasets') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_missing_path_is_named_with_what_is_accepted(tmp_path):
    with pytest.raises(IsoscopeError, match=r"no file or folder called '.*nowhere\.txt'; a source is hf:NAME.*, or `embedded`, a \.txt"):
        open_source(str(tmp_path / "nowhere.txt"))


def test_a_pattern_without_a_match(tmp_path):
    with pytest.raises(IsoscopeError, match=r"The pattern .*/\*\.txt matches no file; a source is"):
        open_source(str(tmp_path / "*.txt"))


def test_an_unknown_suffix(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(IsoscopeError, match=r"No source reads .*notes\.md, a file that ends in '\.md'; a source is"):
        open_source(str(tmp_path / "notes.md"))


def test_a_folder_without_text(tmp_path):
    with pytest.raises(IsoscopeError, match=r"The folder .* holds no file that a source can read"):
        open_source(str(tmp_path))


def test_a_matrix_is_sent_to_the_command_that_reads_it(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(IsoscopeError, match=r"x\.npy is a matrix.*isoscope embeddings .*x\.npy"):
        open_source(str(tmp_path / "x.npy"))
