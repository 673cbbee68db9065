"""A repair fitted from a stored run is the repair of the layer it was measured on."""

import numpy as np
import pytest

import isoscope
from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from isoscope.repair import Centre, Whiten
from isoscope.sources import open_source
from tests.models.brute_layers import choose, hidden_states, sequences_of


def test_whitening_from_a_run(small_models, texts, tmp_path):
    folder = str(small_models("gpt2"))
    run = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True)
    loaded = load_model(resolve_model(folder))
    sequences = sequences_of(loaded, open_source(str(texts)), 64)
    states = hidden_states(loaded, sequences)
    points, _ = choose(states["decoder", "hidden", 2], sequences, "body")
    centred = Centre.from_run(isoscope.open(run.path), layer=2, policy="body").transform(points)
    assert np.abs(centred.mean(0)).max() < 1e-5
    white = Whiten.from_run(run, layer=2, policy="body").transform(points)
    np.testing.assert_allclose(np.cov(white.T), np.eye(32), atol=1e-4)
    final, _ = choose(states["decoder", "final", 4], sequences, "all")
    centred = Centre.from_run(run, layer=4, kind="final").transform(final)
    assert np.abs(centred.mean(0)).max() < 1e-5
    with pytest.raises(isoscope.IsoscopeError, match="does not hold"):
        Centre.from_run(run, model="nothing", layer=2)
