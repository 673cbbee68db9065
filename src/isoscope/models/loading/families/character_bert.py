"""CharacterBERT: words in, each made from its characters."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.words import WordReader


def _load_tokenizer(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from isoscope.models.loading.architectures.character_bert import CharacterTokenizer

    return CharacterTokenizer.from_folder(folder)


character_bert = Family(
    name="character_bert",
    modality="characters",
    about="BERT over words that are made from their characters; written here",
    covers={"CharacterBERT": RANDOM},
    matches=model_types("character_bert"),
    stacks=lambda model: {"encoder": Stack(model.encoder)},
    processor=_load_tokenizer,
    reader=WordReader,
)
