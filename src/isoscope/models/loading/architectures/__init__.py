"""Architectures that transformers lacks, written here: VAN, CharacterBERT, MANTa-LM, and the network of `isoscope train`."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

HERE = "isoscope.models.loading.architectures"
ARCHITECTURES: dict[str, tuple[str, dict[str, str]]] = {
    "van": (f"{HERE}.van", {"AutoModel": "VanModel", "AutoModelForImageClassification": "VanForImageClassification"}),
    "character_bert": (
        f"{HERE}.character_bert",
        {"AutoModel": "CharacterBertModel", "AutoModelForPreTraining": "CharacterBertForPreTraining"},
    ),
    "manta": (f"{HERE}.manta_lm", {"AutoModel": "MantaModel", "AutoModelForSeq2SeqLM": "MantaForConditionalGeneration"}),
    "isoscope": ("isoscope.training.network", {"AutoModel": "SmallTransformer"}),
}
"""By `model_type` in a config.json, the module of an architecture, and its classes by the Auto class that builds them."""


@cache
def register_architectures(model_type: str | None = None) -> dict[str, Any]:
    """Register the architectures with the Auto classes of transformers; return the model classes by their name in a config.json.

    These classes are preferred to code that a checkpoint brings, so no such code needs to run.

    Args:
        model_type: only the architecture of this type, if it is one of these: each imports models of transformers that it builds on.

    >>> sorted(register_architectures("character_bert")), register_architectures("gpt2")
    (['CharacterBertForPreTraining', 'CharacterBertModel'], {})
    """
    import transformers

    found = {}
    for own_type, (module, classes) in ARCHITECTURES.items():
        if model_type in (None, own_type):
            for auto, name in classes.items():
                model = getattr(importlib.import_module(module), name)
                transformers.AutoConfig.register(own_type, model.config_class, exist_ok=True)
                getattr(transformers, auto).register(model.config_class, model, exist_ok=True)
                found[name] = model
    return found
