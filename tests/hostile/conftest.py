"""What the tests of this folder share."""

import pytest

from tests.hostile.seeds import write_seeds


@pytest.fixture(scope="session")
def seeds(tmp_path_factory):
    """Valid small files of everything that is parsed; not to be written to."""
    folder = tmp_path_factory.mktemp("seeds") / "seeds"
    write_seeds(folder)
    return folder
