"""Architectures that transformers lacks, written here: VAN, CharacterBERT, MANTa-LM, and the network of `isoscope train`."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def register_architectures() -> dict[str, Any]:
    """Register the architectures with the Auto classes of transformers; return the model classes by their name in a config.json.

    These classes are preferred to code that a checkpoint brings, so no such code needs to run.

    >>> sorted(register_architectures())[:2]
    ['CharacterBertForPreTraining', 'CharacterBertModel']
    """
    import transformers

    from isoscope.models.loading.architectures import character_bert, manta_lm, van
    from isoscope.training.network import SmallTransformer

    bases: list[Any] = [van.VanModel, character_bert.CharacterBertModel, manta_lm.MantaModel, SmallTransformer]
    heads: list[tuple[Any, Any]] = [
        (transformers.AutoModelForImageClassification, van.VanForImageClassification),
        (transformers.AutoModelForPreTraining, character_bert.CharacterBertForPreTraining),
        (transformers.AutoModelForSeq2SeqLM, manta_lm.MantaForConditionalGeneration),
    ]
    for model in bases:
        transformers.AutoConfig.register(model.config_class.model_type, model.config_class, exist_ok=True)
    for auto, model in [*((transformers.AutoModel, base) for base in bases), *heads]:
        auto.register(model.config_class, model, exist_ok=True)
    return {model.__name__: model for model in [*bases, *(head for _, head in heads)]}
