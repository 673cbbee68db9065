"""Models are recognised by their names."""

from __future__ import annotations

import pytest

from isoscope.claims.evidence import is_named


@pytest.mark.parametrize(
    ("model", "name", "wanted"),
    [
        ("openai-community/gpt2", "GPT-2", True),
        ("gpt2-medium", "GPT-2", True),
        ("google/vit-base-patch16-224", "ViT", True),
        ("vit_base_patch14_dinov2", "ViT", False),
        ("nvidia/mit-b0", "MiT", True),
        ("my-limit-b0", "MiT", False),
        ("google/byt5-small", "T5", False),
        ("google-t5/t5-base", "T5", True),
        ("almanach/manta-lm-base", "MANTa-base", True),
        ("google/canine-c", "CANINE-c", True),
        ("google/canine-s", "CANINE-c", False),
        ("facebook/hubert-base-ls960", "HuBERT", True),
        ("openai/whisper-base.en", "Whisper-base", True),
        ("microsoft/resnet-50", "ResNet-50", True),
        ("resnet-101", "ResNet-50", False),
        ("facebook/convnext-tiny-224", "ConvNeXt", True),
    ],
)
def test_models_are_recognised_by_their_names(model: str, name: str, wanted: bool) -> None:
    assert is_named(model, name) is wanted


def test_one_of_several_names_is_enough() -> None:
    assert is_named("google/byt5-small", "T5", "ByT5")
    assert not is_named("google/byt5-small")
