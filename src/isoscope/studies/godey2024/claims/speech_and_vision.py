"""Statement 2: speech models are anisotropic in every layer, almost all vision Transformers in some layer."""

from __future__ import annotations

from isoscope.claims.claim import Section
from isoscope.claims.deciding import most_models
from isoscope.claims.evidence import least_layer
from isoscope.studies.godey2024.claims._layer_cosine import decide_by_cosine

section = Section("godey2024", 2)

section.add_claim(
    "speech_is_anisotropic_in_every_layer",
    statement="Speech models are anisotropic in every layer: their cosine is 0.2 or above throughout.",
    refuted_by="a speech model with a layer whose cosine lies surely below 0.2",
    needs="the hidden states of three speech models or more: `isoscope measure WAV2VEC HUBERT WHISPER --data CLIPS --out RUN`",
    decide=decide_by_cosine(least_layer, groups=["speech"], threshold=0.2, unit="speech model", measure="the least cosine over the layers"),
)
section.add_claim(
    "most_vision_models_have_an_anisotropic_layer",
    statement="Almost all vision Transformers have an anisotropic layer.",
    refuted_by="surely fewer than half of the vision Transformers having one",
    needs="the hidden states of six vision Transformers or more: `isoscope measure VIT BEIT DEIT MIT … --data IMAGES --out RUN`",
    decide=decide_by_cosine(groups=["vision"], quantifier=most_models, unit="vision Transformer"),
)
section.add_claim(
    "mit_is_isotropic",
    statement="MiT (SegFormer's encoder) is isotropic in every layer.",
    refuted_by="a MiT with a layer whose cosine lies surely above the threshold",
    needs="a MiT: `isoscope measure nvidia/mit-b0 --data IMAGES --out RUN`",
    decide=decide_by_cosine(groups=["vision"], names=("MiT",), above=False),
)
section.add_claim(
    "vit_is_low",
    statement="ViT's cosine is low throughout: below 0.2 in every layer.",
    refuted_by="a ViT with a layer whose cosine lies surely above 0.2",
    needs="a ViT: `isoscope measure google/vit-base-patch16-224 --data IMAGES --out RUN`",
    decide=decide_by_cosine(groups=["vision"], names=("ViT",), threshold=0.2, above=False),
)
