"""Networks of text that `isoscope train` made: encoders and decoders over characters or subwords."""

from __future__ import annotations

from isoscope.models.family import RANDOM, Family, Stack
from isoscope.models.readers.text import TextReader
from isoscope.models.readers.tokenizer import tokenizer

trained_text = Family(
    name="trained_text",
    modality="text",
    about="networks of text made by `isoscope train`",
    covers={"isoscope text, causal": RANDOM, "isoscope text, masked": RANDOM},
    matches=lambda config: 3 * (config.model_type == "isoscope" and config.modality == "text"),
    stacks=lambda model: {"decoder" if model.config.causal else "encoder": Stack(model, "blocks.*")},
    processor=tokenizer,
    reader=TextReader,
)
