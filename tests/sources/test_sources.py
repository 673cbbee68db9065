"""open_source finds the kind that takes a spec, or says in one sentence why none does."""

import subprocess
import sys

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources import open_source, sources


def test_the_registry_lists_kinds_and_not_the_data():
    assert {"arrays", "hub", "images", "speech", "text"} <= set(sources.names())
    assert "data" not in sources.names()
    assert [kind.name for kind in sources] == sources.names()


def test_importing_and_opening_needs_no_heavy_package():
    code = (
        "import sys; from isoscope.sources import open_source; next(open_source('embedded').items());"
        "print([m for m in ('torch', 'transformers', 'pyarrow', 'pandas', 'datasets', 'scipy', 'soundfile', 'PIL') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_missing_path_is_named_with_what_is_accepted(tmp_path):
    with pytest.raises(
        IsoscopeError, match=r"no file or folder called '.*nowhere\.txt'; a source of text is hf:NAME.*, or `embedded`, a \.txt"
    ):
        open_source(str(tmp_path / "nowhere.txt"))


def test_a_pattern_without_a_match(tmp_path):
    with pytest.raises(IsoscopeError, match=r"The pattern .*/\*\.txt matches no file that a source can read as text; a source of text is"):
        open_source(str(tmp_path / "*.txt"))


def test_an_unknown_suffix(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(IsoscopeError, match=r"No source reads .*notes\.md, a file that ends in '\.md'; a source of text is"):
        open_source(str(tmp_path / "notes.md"))


@pytest.mark.parametrize(("modality", "accepted"), [("text", r"`embedded`, a \.txt"), ("speech", r"a \.wav"), ("images", r"a \.png")])
def test_a_folder_without_what_is_wanted_says_what_it_has_instead(tmp_path, modality, accepted):
    with pytest.raises(IsoscopeError, match=rf"The folder .* holds no file that a source can read as {modality}; .*, or .*{accepted}"):
        open_source(str(tmp_path), modality=modality)
    (tmp_path / "deep").mkdir()
    for name in ("a.md", "deep/b.md", "deep/c"):
        (tmp_path / name).write_text("x")
    with pytest.raises(
        IsoscopeError, match=rf"can read as {modality} \(it has 2 of \.md, 1 of no suffix\); a source of {modality} is hf:NAME"
    ):
        open_source(str(tmp_path), modality=modality)
    with pytest.raises(IsoscopeError, match=rf"The pattern .* matches no file that a source can read as {modality} \(it has 1 of \.md\)"):
        open_source(str(tmp_path / "*.md"), modality=modality)


def test_each_modality_has_an_embedded_default():
    opened = {modality: open_source("embedded", None, modality) for modality in ("text", "speech", "images")}
    assert all(source.modality == modality for modality, source in opened.items())
    assert len({source.fingerprint for source in opened.values()}) == 3


def test_a_file_is_what_its_ending_says_whatever_the_modality(tmp_path):
    (tmp_path / "a.txt").write_text("words")
    assert open_source(str(tmp_path / "a.txt"), modality="speech").modality == "text"
    assert open_source(str(tmp_path / "*.txt"), modality="images").modality == "text"


def test_an_unknown_or_unsuitable_modality_is_refused(tmp_path):
    with pytest.raises(IsoscopeError, match=r"The modality must be one of text, speech, images; it is 'sound'"):
        open_source("embedded", modality="sound")
    with pytest.raises(IsoscopeError, match=r"Standard input is read as text, and the model reads speech; name a file or a folder"):
        open_source("-", modality="speech")


def test_a_matrix_is_sent_to_the_command_that_reads_it(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(IsoscopeError, match=r"x\.npy is a matrix.*isoscope embeddings .*x\.npy"):
        open_source(str(tmp_path / "x.npy"))
