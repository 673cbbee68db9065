"""What is measured: matrices, texts, clips, images, random models and modules, the same on every machine.

Random numbers come from numpy and from Python's own generator, never from torch, whose vectorised draws differ in the last digit from one
kind of processor to another.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import re
import wave
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden import names

WORDS = "the of and to a in that is was it for with as his on be at by i this had not are but from or have an they which one you were"


def draw(name: str, *shape: int) -> np.ndarray:
    """Standard normal numbers that depend on a name only."""
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)


def isotropic_matrix() -> np.ndarray:
    return draw("isotropic", 300, 12)


def drifting_matrix() -> np.ndarray:
    """A common mean, and two coordinates that dominate."""
    return draw("drifting", 300, 12) * np.array([12.0, 6.0] + [1.0] * 10) + np.linspace(-1, 3, 12)


def folded_matrix() -> np.ndarray:
    """A surface of two dimensions in twelve, with every third point twice; no matrix product, whose digits depend on the machine."""
    u, v = draw("folded", 2, 240, 1)
    k = np.arange(1, 13)
    surface = np.sin(u * k / 4) + v * np.cos(k) + 0.01 * draw("thickness", 240, 12)
    return np.concatenate([surface, surface[::3]])


def write_text(path: Path, count: int = 24, longest: int = 45) -> Path:
    """Paragraphs of very different lengths."""
    chance, words = random.Random(0), WORDS.split()
    lengths = [3, 9, 20, longest]
    path.write_text("\n\n".join(" ".join(chance.choices(words, k=chance.choice(lengths))) for _ in range(count)), "utf-8")
    return path


def write_clips(folder: Path) -> Path:
    """Clips of several lengths, two of one length, in 16-bit samples."""
    folder.mkdir()
    for i, seconds in enumerate((0.5, 0.8, 0.8, 1.3, 0.31)):
        time = np.arange(int(16_000 * seconds)) / 16_000
        tone = np.sin(2 * np.pi * (300 + 400 * i) * time) * np.exp(-time) + 0.1 * draw(f"clip {i}", len(time))
        with wave.open(str(folder / f"{i}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16_000)
            file.writeframes((np.clip(tone, -2, 2) * 12_000).astype("<i2").tobytes())
    return folder


def write_images(folder: Path) -> Path:
    """Images of several sizes, without compression that loses anything."""
    from PIL import Image

    folder.mkdir()
    for i, (wide, high) in enumerate([(40, 40), (64, 48), (50, 90), (32, 32), (70, 70)]):
        coarse = np.clip(128 + 60 * draw(f"image {i}", 5, 5, 3), 0, 255).astype(np.uint8)
        Image.fromarray(coarse).resize((wide, high), Image.Resampling.NEAREST).save(folder / f"{i}.png")
    return folder


def write_model(title: str, folder: Path, **config: Any) -> Path:
    """A small model of an architecture, with weights that are drawn by their names."""
    with contextlib.redirect_stderr(io.StringIO()):
        names.build_model(title, folder, **config)
    redraw_weights(folder / "model.safetensors")
    grow_vocabulary(folder / "tokenizer.json", config.get("vocab_size", 0))
    return folder


def grow_vocabulary(path: Path, size: int) -> None:
    """Add words to a tokenizer until it has this many; none of them is in the text."""
    if size:
        tokenizer = json.loads(path.read_text("utf-8"))
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary |= {f"unheard{i}": i for i in range(len(vocabulary), size)}
        path.write_text(json.dumps(tokenizer), "utf-8")


def redraw_weights(path: Path) -> None:
    """Give every weight of a file other numbers: weights of norms are near 1, all others near 0; buffers stay as they are.

    Matrices and kernels keep the size of what they are applied to: a signal that dies out leaves nothing but rounding errors.
    """
    from safetensors import safe_open
    from safetensors.numpy import save_file

    with safe_open(path, "numpy") as file:
        weights, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    for name, value in weights.items():
        if value.dtype == np.float32 and np.ptp(value) > 0:
            centre = 1.0 if value.ndim == 1 and name.endswith("weight") and re.search(r"norm|ln_|\bbn|batch", name.lower()) else 0.0
            spread = 0.12 if value.ndim == 1 else (0.7 if value.ndim == 2 else 1.4) / math.sqrt(math.prod(value.shape[1:]))
            weights[name] = (centre + spread * draw(name, *value.shape)).astype(np.float32)
    save_file(weights, path, metadata)


def fill_module(module: Any, spread: float = 0.3) -> Any:
    """The module in float64, with weights that are drawn by their names."""
    import torch

    module.double()
    with torch.no_grad():
        for name, value in module.named_parameters():
            centre = 1.0 if value.ndim == 1 and "norm" in name and name.endswith("weight") else 0.0
            value.copy_(torch.from_numpy(centre + spread * draw(name, *value.shape)))
    return module


def encoder_module() -> Any:
    """Three blocks of torch's own encoder in float64, whose attention can be followed.

    Norms come first, and none comes last: a layer norm empties a direction, whose singular value would be the root of a rounding error.
    """
    from torch import nn

    layer = nn.TransformerEncoderLayer(12, 2, 20, dropout=0.0, batch_first=True, norm_first=True)
    return fill_module(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False))


def map_module() -> Any:
    """Two convolutions in float64 whose states are maps with channels first."""
    from torch import nn

    def block() -> nn.Module:
        return nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())

    return fill_module(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Sequential(*(block() for _ in range(3)))))


def tensors(name: str, count: int, *shape: int) -> list[Any]:
    """Batches in float64."""
    import torch

    return [torch.from_numpy(draw(f"{name} {i}", *shape)) for i in range(count)]
