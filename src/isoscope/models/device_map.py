"""Models larger than one device: their layers spread over devices, memory and disk by accelerate."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import Tensor

from isoscope.core.bounded import parse_json
from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.extras import import_optional

MAPS = ("auto", "balanced", "balanced_low_0", "sequential")


def spread_over(text: str) -> dict[str, Any]:
    """What `from_pretrained` takes: a name that accelerate knows, or an object in JSON that says where each module lies.

    >>> spread_over('{"model.embed_tokens": 0, "model.layers": "cpu"}')["device_map"]
    {'model.embed_tokens': 0, 'model.layers': 'cpu'}
    """
    import_optional("accelerate", "--device-map")
    if not text.startswith("{"):
        if text not in MAPS:
            raise IsoscopeError(
                f"--device-map takes {', '.join(MAPS)} or an object in JSON; got {text!r}{nearest(text, list(MAPS)) or '.'}"
            )
        return {"device_map": text, "offload_folder": _offload()}
    try:
        found = parse_json(text)
    except ValueError as error:
        raise IsoscopeError(f"--device-map is not an object in JSON ({error}).") from error
    return {"device_map": found, **({"offload_folder": _offload()} if "disk" in found.values() else {})}


def _offload() -> str:
    """A folder for what neither devices nor memory have room for; it goes with the process' other temporary files."""
    return tempfile.mkdtemp(prefix="isoscope-offload-")


def entrance(model: Any) -> torch.device:
    """Where the input of a model that was spread belongs."""
    places = [place for place in getattr(model, "hf_device_map", {}).values() if place != "disk"]
    return torch.device(places[0] if places else "cpu")


def weight_of(module: Any) -> Tensor:
    """A module's weight, also where it lies on the disk until it is needed."""
    weight: Tensor = module.weight
    kept = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
    return kept["weight"] if weight.is_meta and kept is not None else weight
