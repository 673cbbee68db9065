"""Conventions: each number is what the source's definition gives, written out here once more."""

import json

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import registry
from isoscope.runs.citation import bibtex
from isoscope.studies.definitions import analysis as conventions
from isoscope.studies.definitions.analysis import answers, conventions_rows, draw_cosines, of_matrix
from isoscope.studies.definitions.conventions import CONVENTIONS, QUESTIONS
from tests.measuring.made_runs import corpus, moved, site, write


def found(cloud, name):
    return {answer.reading.question: answer.number for answer in answers(cloud, [name])}


@pytest.fixture(scope="module")
def documents():
    """A cloud of 30 documents of unequal length, with their points and where they belong."""
    x, mask = corpus(np.random.default_rng(0), 30)
    x = moved(x, 0.8)
    return Cloud.of(site(x, mask), "body"), [x[i][mask[i]].astype(np.float32).astype(float) for i in range(30)]


def test_every_convention_is_whole():
    for name, one in CONVENTIONS.items():
        assert one.name == name
        assert bibtex(one.reference).startswith("@")
        for reading in one.readings:
            assert reading.question in QUESTIONS
            assert bool(reading.metric) != ((name, reading.question) in conventions.OWN)
            assert not reading.metric or reading.metric in registry
        assert len({reading.question for reading in one.readings}) == len(one.readings)


def test_words_of_different_documents(documents):
    """One word of each document, every word of a document as often as another."""
    cloud, _ = documents
    rng, unit = np.random.default_rng(1), cloud.require_sample().unit
    counts = np.zeros(len(unit))
    for _ in range(2000):
        chosen = conventions.draw_words(cloud.require_sample(), rng)
        assert len(chosen) == len(np.unique(unit[chosen])) == 30
        counts[chosen] += 1
    sizes = {u: (unit == u).sum() for u in unit}
    np.testing.assert_allclose(counts / 2000, [1 / sizes[u] for u in unit], atol=0.06)


def test_cosine_of_ethayarajh(documents):
    """Its expectation: documents alike whatever their length, a word meets itself once in as many pairs as there are words."""
    cloud, parts = documents
    means = np.array([(part / np.linalg.norm(part, axis=1, keepdims=True)).mean(0) for part in parts])
    between = (means @ means.T)[~np.eye(30, dtype=bool)].mean()
    expected = 1 / 30 + (1 - 1 / 30) * between
    drawn = draw_cosines(cloud, repeats=1500, seed=3)
    assert drawn.mean() == pytest.approx(expected, abs=4 * drawn.std() / 1500**0.5)
    number = found(cloud, "ethayarajh2019")["cosine"]
    assert number == draw_cosines(cloud, repeats=1)[0]
    assert number.low < expected < number.high
    assert number.n == 30


def test_many_documents_are_cut_to_a_thousand():
    x = np.random.default_rng(0).standard_normal((2500, 4)) + 0.5
    cloud = cloud_of(x, sample=4096)
    assert len(conventions.draw_words(cloud.require_sample(), np.random.default_rng(0))) == 1000
    assert found(cloud, "ethayarajh2019")["cosine"].n == 1000


def test_share_of_ethayarajh():
    """As a truncated singular value decomposition without centring reports its first ratio of variance."""
    from sklearn.decomposition import TruncatedSVD

    x = (np.random.default_rng(0).standard_normal((300, 8)) * np.linspace(3, 1, 8) + 1).astype(np.float32)
    number = found(cloud_of(x), "ethayarajh2019")["share"]
    truth = TruncatedSVD(n_components=3, algorithm="arpack").fit(x.astype(float)).explained_variance_ratio_[0]
    assert number == pytest.approx(truth, rel=1e-6)


def test_cosine_of_godey(documents):
    cloud, parts = documents
    u = np.concatenate(parts)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    brute = (u @ u.T)[~np.eye(len(u), dtype=bool)].mean()
    assert found(cloud, "godey2024")["cosine"] == pytest.approx(brute, abs=1e-7)
    assert found(cloud, "godey2024")["drift"] == pytest.approx(np.linalg.norm(np.concatenate(parts).mean(0)), rel=1e-6)


def test_share_and_dimension_of_razzhigaev(monkeypatch):
    """Batch by batch: centred, σ₁²/Σσ²; and the slope over the lowest fifth of μ, by all distances."""
    x = (np.random.default_rng(1).standard_normal((700, 6)) * np.linspace(2, 1, 6) + 3).astype(np.float32)
    cloud = cloud_of(x)
    centred = x.astype(float) - x.astype(float).mean(0)
    sigma = np.linalg.svd(centred, compute_uv=False)
    assert found(cloud, "razzhigaev2024")["share"] == pytest.approx(sigma[0] ** 2 / (sigma**2).sum(), rel=1e-9)
    distances = np.sort(np.linalg.norm(centred[:, None] - centred[None], axis=-1), axis=1)
    mu = np.sort(distances[:, 2] / distances[:, 1])[: len(x) // 5]
    log, height = np.log(mu), -np.log(1 - np.arange(1, len(mu) + 1) / len(x))
    # whether F begins at 0 or at 1/N moves the slope by a little
    assert found(cloud, "razzhigaev2024")["dimension"] == pytest.approx((log @ height) / (log @ log), rel=0.02)
    monkeypatch.setattr(conventions, "BATCH", 300)
    points = cloud.require_sample().points.astype(float)
    parts = [points[:300], points[300:600]]
    shares = [np.linalg.svd(part - part.mean(0), compute_uv=False) ** 2 for part in parts]
    two = found(cloud, "razzhigaev2024")["share"]
    assert two == pytest.approx(np.mean([values[0] / values.sum() for values in shares]), rel=1e-9)
    assert two.note.startswith("2 batches of 300")


def test_wide_batches():
    x = np.random.default_rng(2).standard_normal((12, 40)) + 1
    sigma = np.linalg.svd(x - x.mean(0), compute_uv=False)
    number = {answer.reading.question: answer.number for answer in of_matrix(x, ["razzhigaev2024"], allow_wide=True)}["share"]
    assert number == pytest.approx(sigma[0] ** 2 / (sigma**2).sum(), rel=1e-6)


def test_rank_of_rankme(documents):
    cloud, parts = documents
    sigma = np.linalg.svd(np.concatenate(parts), compute_uv=False)
    p = sigma / sigma.sum() + 1e-7
    assert found(cloud, "rankme")["rank"] == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-6)


def test_a_matrix_in_a_file_is_as_in_memory(tmp_path):
    x = np.random.default_rng(0).standard_normal((500, 8)) + 0.5
    np.save(tmp_path / "x.npy", x)
    one, other = of_matrix(x), of_matrix(tmp_path / "x.npy")
    assert len(one) == len(other) == sum(len(c.readings) for c in CONVENTIONS.values())
    for a, b in zip(one, other, strict=True):
        assert float(a.number) == pytest.approx(float(b.number), rel=1e-9)
        json.dumps(a.as_dict(), allow_nan=False)
    with pytest.raises(IsoscopeError, match="need a sample"):
        of_matrix(x, sample=0)
    with pytest.raises(IsoscopeError, match="did you mean godey2024"):
        of_matrix(x, ["godey2023"])


def test_a_run_layer_by_layer(tmp_path):
    """Each convention has its own tokens and its own last layer; what is a metric is what the table says."""
    x, mask = corpus(np.random.default_rng(0), 40)
    layers = [moved(x, 0.2), moved(x, 0.6), moved(x, 1.0)]
    run = write(tmp_path / "run", layers, mask, final=moved(x, 3.0))
    rows = conventions_rows(run)
    for name, one in CONVENTIONS.items():
        own = rows[rows["metric"].str.endswith(f"@{name}")]
        assert len(own) == 3 * len(one.readings)
        last = ("final", 3) if one.final else ("hidden", 2)
        assert set(zip(own["kind"], own["layer"], strict=True)) == {("hidden", 0), ("hidden", 1), last}
        assert set(own["policy"]) == {one.policy}
        assert {json.loads(spec)["convention"] for spec in own["spec"]} == {name}
    table = run.table("mean_cosine", "all")
    truth = table[(table["kind"] == "final") | (table["layer"] < 2)].sort_values("layer")["value"].tolist()
    assert rows[rows["metric"] == "mean_cosine@godey2024"].sort_values("layer")["value"].tolist() == truth
    cosine = rows[rows["metric"] == "cosine@ethayarajh2019"].sort_values("layer")["value"].to_numpy()
    assert cosine[2] == draw_cosines(Cloud.of(site(moved(x, 3.0), mask), "no-special"), repeats=1)[0]
    assert conventions_rows(run, ["rankme"])["metric"].unique().tolist() == ["rankme@rankme"]


def test_a_run_of_rows_answers_what_it_can(tmp_path):
    x, mask = corpus(np.random.default_rng(0), 40)
    run = write(tmp_path / "run", [x], mask, keep="rows")
    assert conventions_rows(run, ["rankme"])["value"].notna().all()
    with pytest.raises(IsoscopeError, match="ethayarajh2019 needs points, and the run kept none of net; measure it again with --store all"):
        conventions_rows(run, ["ethayarajh2019"])
