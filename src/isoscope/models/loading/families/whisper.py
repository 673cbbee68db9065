"""Whisper: spectrograms of half a minute in, tokens out. The decoder is fed the model's own transcript, token by token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isoscope.models.loading.family import Family, Stack, model_types
from isoscope.models.loading.readers.whisper import WhisperReader


def _load_extractor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from transformers import WhisperFeatureExtractor

    if (Path(folder) / "preprocessor_config.json").is_file():
        return WhisperFeatureExtractor.from_pretrained(folder, **source)
    return WhisperFeatureExtractor(feature_size=config.num_mel_bins)


whisper = Family(
    name="whisper",
    modality="speech",
    about="speech recognisers: encoder and decoder",
    covers={"Whisper": "Whisper tiny.en"},
    matches=model_types("whisper"),
    stacks=lambda model: {"encoder": Stack(model.encoder, "layers.*"), "decoder": Stack(model.decoder, "layers.*")},
    processor=_load_extractor,
    reader=WhisperReader,
    loads=("folder", "hub", ".pt"),
)
