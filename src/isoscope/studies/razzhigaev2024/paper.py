"""Razzhigaev et al., "The Shape of Learning: Anisotropy and Intrinsic Dimensions in Transformer-Based Models" (EACL 2024)."""

from __future__ import annotations

from isoscope.claims.paper import Experiment, Paper, PaperFigure, Stated

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
        "isotropy of neighbourhoods, beside a Gaussian of the same covariance",
        ("local_share", "local_share_excess"),
    ),
    PaperFigure("training", ("training_dimension",), TRAINING, "intrinsic dimension along training"),
    PaperFigure("anisotropy-in-training", ("training_geometry", "training_map"), TRAINING, "anisotropy along training, by layer"),
)

STATED = (
    Stated(
        "top_share of OPT-125m from layer 1 on, the authors' notebook",
        (0.98, 0.99, 0.997, 0.997, 0.997, 0.994, 0.992, 0.990, 0.985, 0.976, 0.962),
        "fig",
    ),
    Stated(
        "intrinsic dimension of OPT-125m from layer 1 on, the authors' notebook, first of two runs",
        (15.3, 15.8, 13.3, 13.3, 12.9, 12.5, 13.6, 12.6, 12.9, 11.3, 11.5),
        "fig",
    ),
    Stated("the second run", (14.7, 13.3, 14.1, 13.6, 12.0, 12.1, 11.9, 11.9, 10.6, 11.1, 11.0), "fig"),
)

razzhigaev2024 = Paper(
    "razzhigaev2024",
    "The Shape of Learning: Anisotropy and Intrinsic Dimensions in Transformer-Based Models",
    "Razzhigaev et al. (EACL 2024)",
    BIBTEX,
    EXPERIMENTS,
    FIGURES,
    also=("local_share_excess", "local_isoscore_excess"),
    stated=STATED,
)
