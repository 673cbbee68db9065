"""Speech encoders that read the wave: wav2vec 2.0 and its kin."""

from __future__ import annotations

from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.speech import WaveReader, load_feature_extractor

TYPES = ("wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat", "data2vec-audio", "sew")

wav2vec2 = Family(
    name="wav2vec2",
    modality="speech",
    about="speech encoders over the wave",
    covers={"wav2vec 2.0": RANDOM, "HuBERT": RANDOM, "WavLM": RANDOM},
    matches=model_types(*TYPES),
    stacks=lambda model: {"encoder": Stack(model.encoder, "layers.*")},
    processor=load_feature_extractor,
    reader=WaveReader,
)
