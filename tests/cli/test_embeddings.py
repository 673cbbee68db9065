"""isoscope embeddings: numbers that agree with numpy, as JSON and as a table."""

import re

import numpy as np
import pytest

from tests.cli.calling import isoscope, read_strict_json


def test_one_matrix(tmp_path):
    x = np.random.default_rng(0).standard_normal((200, 6)) + 1
    np.save(tmp_path / "x.npy", x)
    answer = isoscope("embeddings", tmp_path / "x.npy", "--json", "-q").worked()
    found = read_strict_json(answer.out)["numbers"]
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
    assert max(map(len, shown.out.splitlines()[1:])) <= 80
    questions = ["Do vectors point the same way?", "How much of that is a common mean?", "How many dimensions are in use?"]
    assert [line for line in shown.out.splitlines() if line in questions] == questions


def test_the_verdict_says_what_is_wrong_how_sure_it_is_and_what_to_try(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 24)) + 1.5
    x[:, 5] *= 9
    x[3] = 0
    np.save(tmp_path / "x y.npy", x)
    answer = isoscope("embeddings", tmp_path / "x y.npy").worked()
    assert answer.out.splitlines()[2] == "Not healthy: zero rows, drift and dominant coordinates."
    assert "- 1 row is zero: no direction, so no cosine." in answer.out
    assert re.search(r"- Coordinate 5 decides \d\d % of the mean squared cosine, more than the other 23\s+together", answer.out)
    assert re.search(r"^ *dominant coordinates +FAULT +0\.\d+ \[0\.\d+, 0\.\d+\] +0\.500", answer.out, re.MULTILINE)
    tried = answer.err.partition("Next:\n")[2].splitlines()[0].strip()
    assert tried == f"isoscope embeddings '{tmp_path / 'x y.npy'}' --repair 'Centre()' --repair 'Standardise()'"


def test_a_repair_is_tried_on_rows_that_it_was_not_fitted_to(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((600, 16)) + 2)
    answer = read_strict_json(isoscope("embeddings", tmp_path / "x.npy", "--repair", "centre", "--json").worked().out)
    before, after = answer["as it is"], answer["Centre()"]
    assert (before["diagnosis"]["healthy"], after["diagnosis"]["healthy"]) == (False, True)
    x = np.load(tmp_path / "x.npy")
    held_out = x[1::2] - x[::2].mean(0)
    u = held_out / np.linalg.norm(held_out, axis=1, keepdims=True)
    n = len(u)
    assert after["numbers"]["mean_cosine"]["value"] == pytest.approx((np.square(u.sum(0)).sum() - n) / (n * (n - 1)), abs=1e-9)
    shown = isoscope("embeddings", tmp_path / "x.npy", "--repair", "Centre()", "--repair", "AllButTheTop(k=2)").worked()
    assert max(map(len, shown.out.splitlines()[1:])) <= 80
    assert re.search(r"^ *drift +0\.\d+ ! +-?[\d.e-]+ +-?[\d.e-]+ *$", shown.out, re.MULTILINE)


def test_a_repair_takes_any_matrix_whose_halves_have_two_rows(tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 25))
    np.save(tmp_path / "x.npy", x)
    shown = isoscope("embeddings", tmp_path / "x.npy", "--repair", "centre").worked()
    assert "20 points in 25 dimensions" in shown.out
    np.save(tmp_path / "wide.npy", x.T)
    isoscope("embeddings", tmp_path / "wide.npy", "--repair", "centre").refused("more dimensions than points")
    np.save(tmp_path / "three.npy", x[:3, :2])
    isoscope("embeddings", tmp_path / "three.npy", "--repair", "centre").refused("has 3, and 4 are needed.")


def test_a_convention_has_its_own_numbers(tmp_path):
    x = np.random.default_rng(0).standard_normal((200, 6)) + 1
    np.save(tmp_path / "x.npy", x)
    shown = isoscope("embeddings", tmp_path / "x.npy", "--convention", "godey2024", "-q").worked().out
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = (np.square(u.sum(0)).sum() - 200) / (200 * 199)
    assert float(re.search(r"^mean_cosine@godey2024 +(\S+) ", shown, re.MULTILINE)[1]) == pytest.approx(cosine, abs=5e-4)
    assert re.search(r"^drift@godey2024 +\d", shown, re.MULTILINE)


def test_the_next_step_names_the_array_and_that_it_is_wide(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.random.default_rng(0).standard_normal((30, 60)), b=np.eye(3))
    said = isoscope("embeddings", tmp_path / "x.npz", "--key", "a", "--allow-wide").worked().err
    command = said.partition("Next:\n")[2].splitlines()[0].split()
    assert command[3:6] == ["--key", "a", "--allow-wide"]
    isoscope(*command[1:6]).worked()


def test_a_repair_that_cannot_be_made_is_one_sentence(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((60, 4)))
    for words, message in {
        "centr": "did you mean centre?",
        "Centre(": "cannot be read",
        "AllButTheTop(j=2)": "unexpected keyword",
        "__import__('os')": "There is no repair called '__import__'",
        "Whiten(kind=open('x'))": "cannot be read",
    }.items():
        isoscope("embeddings", tmp_path / "x.npy", "--repair", words).refused(message)


def test_every_format_gives_the_same_verdict(tmp_path):
    import pandas as pd
    import torch
    from safetensors.numpy import save_file

    x = np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32) + 1
    np.save(tmp_path / "a.npy", x)
    np.savez(tmp_path / "a.npz", x)
    save_file({"x": x}, tmp_path / "a.safetensors")
    pd.DataFrame({"x": list(x)}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame(x.astype(np.float64)).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame(x.astype(np.float64)).to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    torch.save(torch.from_numpy(x), tmp_path / "a.pt")
    seen = {}
    for path in sorted(tmp_path.iterdir()):
        told = read_strict_json(isoscope("embeddings", path, "--json", "-q").worked().out)
        seen[path.suffix] = told["diagnosis"]["headline"], round(told["numbers"]["mean_cosine"]["value"], 9)
    assert len(seen) == 7
    assert len(set(seen.values())) == 1, seen
