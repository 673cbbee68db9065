"""Models larger than one device: accelerate spreads their layers over devices, memory and disk."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError, import_optional, nearest
from isoscope.trust.safe_io import parse_json

MAPS = ("auto", "balanced", "balanced_low_0", "sequential")


def device_map_options(text: str) -> dict[str, Any]:
    """The options of `from_pretrained` for a map: a name that accelerate knows, or a JSON object with the device of each module.

    >>> device_map_options('{"model.embed_tokens": 0, "model.layers": "cpu"}')["device_map"]
    {'model.embed_tokens': 0, 'model.layers': 'cpu'}
    """
    import_optional("accelerate", "--device-map")
    if not text.startswith("{"):
        if text not in MAPS:
            raise IsoscopeError(
                f"--device-map takes {', '.join(MAPS)} or an object in JSON; got {text!r}{nearest(text, list(MAPS)) or '.'}"
            )
        return {"device_map": text, "offload_folder": _make_offload_folder()}
    try:
        devices = parse_json(text)
    except ValueError as error:
        raise IsoscopeError(f"--device-map is not an object in JSON ({error}).") from error
    return {"device_map": devices, **({"offload_folder": _make_offload_folder()} if "disk" in devices.values() else {})}


def _make_offload_folder() -> str:
    """Make a folder for layers that fit neither on devices nor in memory; it goes with the process' other temporary files."""
    return tempfile.mkdtemp(prefix="isoscope-offload-")


def input_device(model: Any) -> torch.device:
    """The device on which a spread model expects its input."""
    # accelerate lists modules in the order of the model, so the first device is that of the embeddings.
    places = [place for place in getattr(model, "hf_device_map", {}).values() if place != "disk"]
    return torch.device(places[0] if places else "cpu")


def weight_of(module: Any) -> Tensor:
    """A module's weight, even if accelerate keeps it on disk until it is needed."""
    weight: Tensor = module.weight
    on_disk = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
    return on_disk["weight"] if weight.is_meta and on_disk is not None else weight
