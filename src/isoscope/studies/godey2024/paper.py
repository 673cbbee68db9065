"""Godey, de la Clergerie and Sagot, "Anisotropy Is Inherent to Self-Attention in Transformers" (EACL 2024)."""

from __future__ import annotations

from isoscope.claims.paper import Experiment, Paper, PaperFigure

BIBTEX = """@inproceedings{godey-etal-2024-anisotropy,
  title = {Anisotropy Is Inherent to Self-Attention in Transformers},
  author = {Godey, Nathan and Clergerie, {\\'E}ric and Sagot, Beno{\\^\\i}t},
  editor = {Graham, Yvette and Purver, Matthew},
  booktitle = {Proceedings of the 18th Conference of the European Chapter of the Association for Computational Linguistics
               (Volume 1: Long Papers)},
  month = mar,
  year = {2024},
  address = {St. Julian's, Malta},
  publisher = {Association for Computational Linguistics},
  url = {https://aclanthology.org/2024.eacl-long.3},
  pages = {35--48}
}"""

WIKITEXT = "hf:Salesforce/wikitext?config=wikitext-103-raw-v1&split=validation"
COMMON_VOICE = "hf:mozilla-foundation/common_voice_11_0?config=en&split=validation"
IMAGENET = "hf:ILSVRC/imagenet-1k?split=validation"
SMALL = {"max_items": 32, "batch_size": 32, "query_rows": 32, "sample": 512}
ASK = "accept its terms at https://huggingface.co/datasets/{}, then `hf auth login`"

EXPERIMENTS = (
    Experiment(
        "token",
        "models",
        "token-level models over their layers",
        paper=("google-t5/t5-base", "google-bert/bert-base-uncased", "FacebookAI/roberta-base", "openai-community/gpt2"),
        data=WIKITEXT,
    ),
    Experiment(
        "character",
        "models",
        "character-level models over their layers",
        paper=("helboukkouri/character-bert", "google/canine-s", "google/canine-c", "almanach/manta-lm-base", "google/byt5-base"),
        embedded=("embedded:decoder", "embedded:encoder"),
        data=WIKITEXT,
        small=SMALL,
    ),
    Experiment(
        "speech",
        "models",
        "speech models over their layers",
        paper=("facebook/wav2vec2-base", "facebook/hubert-base-ls960", "openai/whisper-base"),
        data=COMMON_VOICE,
        gated=ASK.format("mozilla-foundation/common_voice_11_0"),
    ),
    Experiment(
        "vision",
        "models",
        "vision Transformers over their layers",
        paper=(
            "google/vit-base-patch16-224",
            "microsoft/beit-base-patch16-224",
            "nvidia/mit-b0",
            "facebook/deit-base-distilled-patch16-224",
        ),
        data=IMAGENET,
        gated=ASK.format("ILSVRC/imagenet-1k"),
    ),
    Experiment(
        "convolution",
        "models",
        "convolutional networks over their blocks",
        paper=(
            "microsoft/resnet-50",
            "google/efficientnet-b0",
            "microsoft/cvt-13",
            "facebook/convnext-tiny-224",
            "Visual-Attention-Network/van-base",
        ),
        data=IMAGENET,
        gated=ASK.format("ILSVRC/imagenet-1k"),
    ),
    Experiment("block", "untrained_block", "an untrained block of BERT-base, by the norm of a common bias"),
    Experiment(
        "training",
        "suite",
        "queries, keys and attention along a training",
        paper=("google/multiberts-seed_{seed}-step_{step}k",),
        embedded=("embedded:decoder", "embedded:encoder"),
        data=WIKITEXT,
        small=SMALL,
        options={"max_items": 128},
        steps="0,20-200:20,300-2000:100",
        seeds="0-4",
    ),
    Experiment("chance", "isotropic_null", "the cosine of isotropic vectors, in closed form"),
)

MODELS = ("token", "character", "speech", "vision", "convolution")
TRAINING = ("training",)
BLOCK = ("block",)

FIGURES = (
    PaperFigure("1", ("token_models",), ("token",), "mean cosine by layer, token-level models"),
    PaperFigure("2", ("character_models",), ("character",), "mean cosine by layer, character-level models"),
    PaperFigure("3", ("speech_models", "vision_models"), ("speech", "vision"), "mean cosine by layer, speech and vision"),
    PaperFigure("4", ("convolutional_models",), ("convolution",), "mean cosine by block, convolutional networks"),
    PaperFigure("5", ("drift_spearman",), MODELS, "Spearman's test of drift against cosine, by model"),
    PaperFigure("6a", ("block_cosine",), BLOCK, "cosine before and after an untrained block, by bias"),
    PaperFigure("6b", ("block_norm",), BLOCK, "norms before and after, and where they cross"),
    PaperFigure("7", ("block_scores",), BLOCK, "scores before the softmax, by bias"),
    PaperFigure("8a", ("block_query_key_cosine",), BLOCK, "cosine of queries and of keys, by bias"),
    PaperFigure("8b", ("block_query_key_norm",), BLOCK, "norms of queries and of keys, by bias"),
    PaperFigure("9", ("block_rows",), BLOCK, "largest, median and smallest weight of a row, by bias"),
    PaperFigure("10", ("block_extremes",), BLOCK, "extreme weights of whole sequences, by bias"),
    PaperFigure("11", ("training_clouds",), TRAINING, "queries and keys of two heads at several steps"),
    PaperFigure("12a", ("training_paths",), TRAINING, "path of the mean query and key, same direction"),
    PaperFigure("12b", ("training_paths",), TRAINING, "path of the mean query and key, opposite directions"),
    PaperFigure("13", ("training_cosine",), TRAINING, "cosine of the mean query and key, by head"),
    PaperFigure("14", ("training_dot",), TRAINING, "their scalar product, by head"),
    PaperFigure("15", ("training_entropy",), TRAINING, "entropy of attention, by layer"),
    PaperFigure("16", ("drift_pearson",), MODELS, "Pearson's test of drift against cosine, by model"),
    PaperFigure("17", ("cosine_density",), ("chance",), "density of the cosine of isotropic vectors"),
    PaperFigure("18", ("isotropic_level",), (*MODELS, "chance"), "its 95th percentile, and the models' own level"),
    PaperFigure("19", ("training_clouds_keys",), TRAINING, "as Figure 11, on the components of the keys"),
    PaperFigure("20", ("training_clouds_queries",), TRAINING, "as Figure 11, on the components of the queries"),
    PaperFigure("21", ("training_paths_keys",), TRAINING, "as Figure 12, on the components of the keys"),
    PaperFigure("22", ("training_paths_queries",), TRAINING, "as Figure 12, on the components of the queries"),
    PaperFigure("23", ("training_seeds",), TRAINING, "cosine of the mean query and key over all heads, by seed"),
)

godey2024 = Paper(
    "godey2024",
    "Anisotropy Is Inherent to Self-Attention in Transformers",
    "Godey, de la Clergerie and Sagot (EACL 2024)",
    BIBTEX,
    EXPERIMENTS,
    FIGURES,
)
