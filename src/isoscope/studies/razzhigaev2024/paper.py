"""Razzhigaev et al., "The Shape of Learning: Anisotropy and Intrinsic Dimensions in Transformer-Based Models" (EACL 2024)."""

from __future__ import annotations

from isoscope.claims.paper import Experiment, Paper, PaperFigure

BIBTEX = """@inproceedings{razzhigaev2024shape,
  title = {The Shape of Learning: Anisotropy and Intrinsic Dimensions in Transformer-Based Models},
  author = {Razzhigaev, Anton and Mikhalchuk, Matvey and Goncharova, Elizaveta and Oseledets, Ivan and Dimitrov, Denis and
            Kuznetsov, Andrey},
  booktitle = {Findings of the Association for Computational Linguistics: EACL 2024},
  year = {2024},
  eprint = {2311.05928},
  archivePrefix = {arXiv}
}"""

SMALL = {"max_items": 64, "batch_size": 32, "sample": 2048, "taps": ("hidden",)}
SINKS = {"split_body": ("sink",)}
"""The claims must also hold without sinks, the few tokens whose norm is far above that of the others."""
ENWIK8 = "hf:LTCB/enwik8?config=enwik8&split=train"

EXPERIMENTS = (
    Experiment(
        "decoders",
        "models",
        "decoders over their layers",
        paper=("facebook/opt-125m", "meta-llama/Llama-2-7b-hf", "openai-community/gpt2", "EleutherAI/gpt-j-6b", "tiiuae/falcon-7b"),
        embedded=("embedded:decoder",),
        data=ENWIK8,
        options=SINKS,
        small=SMALL,
    ),
    Experiment(
        "encoders",
        "models",
        "encoders over their layers",
        paper=("google-bert/bert-base-uncased", "FacebookAI/roberta-base", "albert/albert-base-v2"),
        embedded=("embedded:encoder",),
        data=ENWIK8,
        options=SINKS,
        small=SMALL,
    ),
    Experiment(
        "training",
        "suite",
        "anisotropy and intrinsic dimension along a training",
        paper=("EleutherAI/pythia-160m@step{step}",),
        embedded=("embedded:decoder", "embedded:encoder"),
        data=ENWIK8,
        options={"max_items": 128, "taps": ("hidden",), **SINKS},
        small=SMALL,
        steps="0,1-512:x2,1000-143000:10000",
    ),
)

MODELS = ("decoders", "encoders")
TRAINING = ("training",)

FIGURES = (
    PaperFigure("profiles", ("shape_of_anisotropy",), MODELS, "share of the largest direction by layer, decoders and encoders"),
    PaperFigure("dimension", ("intrinsic_dimension",), MODELS, "intrinsic dimension by layer"),
    PaperFigure("scales", ("dimension_scales",), MODELS, "intrinsic dimension by size of the neighbourhood", ("gride_scales",)),
    PaperFigure(
        "local",
        ("local_isotropy",),
        MODELS,
        "isotropy of neighbourhoods, compared with a Gaussian of the same covariance",
        ("local_share", "local_share_excess"),
    ),
    PaperFigure("training", ("training_dimension",), TRAINING, "intrinsic dimension along training"),
    PaperFigure("anisotropy-in-training", ("training_geometry", "training_map"), TRAINING, "anisotropy along training, by layer"),
)

razzhigaev2024 = Paper(
    "razzhigaev2024",
    "The Shape of Learning: Anisotropy and Intrinsic Dimensions in Transformer-Based Models",
    "Razzhigaev et al. (EACL 2024)",
    BIBTEX,
    EXPERIMENTS,
    FIGURES,
    also=("local_share_excess", "local_isoscore_excess"),
)
