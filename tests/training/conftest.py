"""A corpus for small trainings."""

import pytest

TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. "


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join(f"{TEXT}{i}" for i in range(60)), "utf-8")
    return str(path)
