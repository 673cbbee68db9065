"""Images as pixels: the plain preparation in closed form, and which positions come before the patches."""

import numpy as np
import pytest
import torch
from PIL import Image

from isoscope.models.loading.load import load_model
from isoscope.models.loading.readers.images import MEAN, SD, PlainProcessor, past_the_square
from isoscope.models.naming.model_name import resolve_model
from tests.models.zoo import ZOO, build

BY_TITLE = {small.title: small for small in ZOO}


def reader_of(title, folder):
    model = load_model(resolve_model(str(build(BY_TITLE[title], folder))), device="cpu")
    return model.family.reader(model, None)


def test_one_colour_becomes_its_distance_from_the_mean():
    pixels = PlainProcessor(8)(Image.new("RGB", (20, 10), (255, 0, 51)))["pixel_values"]
    assert pixels.shape == (1, 3, 8, 8)
    for channel, value in enumerate((1.0, 0.0, 0.2)):
        assert pixels[0, channel] == pytest.approx((value - MEAN[channel]) / SD[channel], rel=1e-5)


def test_the_centre_is_cut_out_along_the_longer_side():
    """Red, a square of green, red: only the green is left, whichever side is the longer one."""
    wide = np.zeros((16, 48, 3), np.uint8)
    wide[:, :, 0], wide[:, 15:33] = 255, (0, 255, 0)
    for image in (wide, wide.transpose(1, 0, 2)):
        pixels = PlainProcessor(16, (0.0,) * 3, (1.0,) * 3)(Image.fromarray(image))["pixel_values"][0]
        assert pixels[1].min() == 1
        assert pixels[0].max() == 0


@pytest.mark.parametrize("size", [(8, 1000), (999, 7), (8, 8)])
def test_every_shape_has_the_side_of_the_model(size):
    assert PlainProcessor(8)(Image.new("RGB", size))["pixel_values"].shape == (1, 3, 8, 8)


def test_positions_past_the_square():
    assert [past_the_square(t) for t in (1, 2, 4, 5, 8, 9, 10)] == [0, 1, 0, 1, 4, 0, 1]


@pytest.mark.parametrize(("title", "special"), [("ViT", 1), ("DeiT", 2), ("ResNet", 0)])
def test_special_positions_come_before_the_patches(title, special, tmp_path):
    reader = reader_of(title, tmp_path / "model")
    fed = reader.feed(reader.probe(2, 1))
    (first, second) = fed.positions("encoder", 17)
    assert first.special.tolist() == second.special.tolist() == [True] * special + [False] * (17 - special)
    assert not first.ordered
    assert fed.arguments["pixel_values"].shape[0] == 2
    assert torch.equal(fed.arguments["pixel_values"][0], fed.arguments["pixel_values"][1])
