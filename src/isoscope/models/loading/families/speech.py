"""Models that read speech: encoders over the wave, and recognisers, whose decoder is fed the model's own transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.speech import MoonshineReader, WaveReader, WhisperReader, load_feature_extractor

WAVE_TYPES = ("wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat", "data2vec-audio", "sew")


def _load_whisper_extractor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from transformers import WhisperFeatureExtractor

    if (Path(folder) / "preprocessor_config.json").is_file():
        return WhisperFeatureExtractor.from_pretrained(folder, **source)
    return WhisperFeatureExtractor(feature_size=config.num_mel_bins)


wav2vec2 = Family(
    name="wav2vec2",
    modality="speech",
    about="speech encoders over the wave",
    covers={"wav2vec 2.0": RANDOM, "HuBERT": RANDOM, "WavLM": RANDOM},
    matches=model_types(*WAVE_TYPES),
    stacks=lambda model: {"encoder": Stack(model.encoder, "layers.*")},
    processor=load_feature_extractor,
    reader=WaveReader,
)
whisper = Family(
    name="whisper",
    modality="speech",
    about="speech recognisers: encoder and decoder",
    covers={"Whisper": "Whisper tiny.en"},
    matches=model_types("whisper"),
    stacks=lambda model: {"encoder": Stack(model.encoder, "layers.*"), "decoder": Stack(model.decoder, "layers.*")},
    processor=_load_whisper_extractor,
    reader=WhisperReader,
    loads=("folder", "hub", ".pt"),
)
moonshine = Family(
    name="moonshine",
    modality="speech",
    about="speech recognisers over the wave: encoder and decoder",
    covers={"Moonshine": "Moonshine tiny"},
    matches=model_types("moonshine"),
    stacks=lambda model: {"encoder": Stack(model.encoder, "layers.*"), "decoder": Stack(model.decoder, "layers.*")},
    processor=load_feature_extractor,
    reader=MoonshineReader,
)
