"""isoscope embeddings: numbers that agree with numpy, as JSON and as a table."""

import re

import numpy as np
import pytest

from tests.cli.calling import isoscope, read_strict_json


def test_one_matrix(tmp_path):
    x = np.random.default_rng(0).standard_normal((200, 6)) + 1
    np.save(tmp_path / "x.npy", x)
    answer = isoscope("embeddings", tmp_path / "x.npy", "--json", "-q").worked()
    found = read_strict_json(answer.out)
    eigenvalues = np.linalg.eigvalsh(np.cov(x.T))
    assert answer.err == ""
    assert found["participation_ratio"]["value"] == pytest.approx(eigenvalues.sum() ** 2 / np.square(eigenvalues).sum(), rel=1e-9)
    assert found["drift_norm"]["value"] == pytest.approx((x @ x.T)[~np.eye(200, dtype=bool)].mean() ** 0.5, rel=1e-9)
    assert (found["drift_norm"]["n"], found["drift_norm"]["d"]) == (200, 6)
    shown = isoscope("embeddings", tmp_path / "x.npy", "-q").worked()
    assert shown.out.startswith(f"{tmp_path / 'x.npy'}: 200 points in 6 dimensions\n")
    assert all(
        re.search(rf"^ *{name} +[-0-9.e]+ +[-0-9.e]+ to [-0-9.e]+ ", shown.out, re.MULTILINE)
        for name in ("mean_cosine", "isoscore", "effective_rank")
    )
