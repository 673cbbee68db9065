"""Write a model's folder: weights, and settings as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def write_weights(weights: Mapping[str, np.ndarray], folder: Path) -> None:
    """Write model.safetensors."""
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, folder / "model.safetensors", {"format": "pt"})


def write_settings(settings: Mapping[str, Any], path: Path) -> None:
    """Write a file of settings."""
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False), "utf-8")
