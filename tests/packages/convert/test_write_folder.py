"""Files of a model's folder."""

import json

import numpy as np
from safetensors.numpy import load_file

from isoscope.packages.convert.write_folder import write_settings, write_weights


def test_a_transposed_view_is_written_in_its_own_order(tmp_path):
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_weights({"w": weight.T}, tmp_path)
    np.testing.assert_array_equal(load_file(tmp_path / "model.safetensors")["w"], weight.T)


def test_settings_are_json(tmp_path):
    write_settings({"pad_token": "▁", "size": 3}, tmp_path / "config.json")
    assert json.loads((tmp_path / "config.json").read_text("utf-8")) == {"pad_token": "▁", "size": 3}
