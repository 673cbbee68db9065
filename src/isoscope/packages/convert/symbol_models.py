"""Models whose tokens are single symbols, with a tokenizer that AutoTokenizer reads in place of code of their own."""

from __future__ import annotations

import json
from pathlib import Path

from isoscope.packages.convert.write_folder import write_settings

SMILES = r"\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]"  # atoms, bonds, rings
RESIDUES = r"\S"
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


def write_tokenizer(vocabulary: Path, pattern: str, folder: Path, longest: int) -> None:
    """A tokenizer whose tokens are the matches of a pattern, between [CLS] and [SEP]; what does not match is left out."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

    words = {word: number for number, word in enumerate(vocabulary.read_text("utf-8").splitlines())}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    ends = [(word, words[word]) for word in ("[CLS]", "[SEP]")]
    single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ends)
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(SPECIAL.values()))
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest, "clean_up_tokenization_spaces": False}
    write_settings(settings | SPECIAL, folder / "tokenizer_config.json")


def _model(unpacked: Path, inside: str, vocabulary: Path, pattern: str, folder: Path, **changes: object) -> None:
    config = json.loads((unpacked / inside / "config.json").read_text("utf-8"))
    config.pop("_name_or_path", None)
    write_settings(config | changes, folder / "config.json")
    (unpacked / inside / "pytorch_model.bin").rename(folder / "pytorch_model.bin")
    write_tokenizer(vocabulary, pattern, folder, config["max_position_embeddings"])


def rxnfp_pretrained(unpacked: Path, folder: Path) -> None:
    """rxnfp's BERT over the symbols of reaction SMILES, which was trained to fill in hidden symbols."""
    _model(unpacked, "", unpacked / "vocab.txt", SMILES, folder, architectures=["BertForMaskedLM"], model_type="bert")


def rxnfp_tuned(unpacked: Path, folder: Path) -> None:
    """The same, fine-tuned to tell classes of reactions."""
    _model(unpacked, "", unpacked / "vocab.txt", SMILES, folder, architectures=["BertForSequenceClassification"], model_type="bert")


def rxnmapper(unpacked: Path, folder: Path) -> None:
    """RXNMapper's ALBERT over the atoms, bonds and rings of reaction SMILES."""
    inside = "albert_heads_8_uspto_all_1310k"
    _model(unpacked, inside, unpacked / inside / "vocab.txt", SMILES, folder)


def antiberty(unpacked: Path, folder: Path) -> None:
    """AntiBERTy's BERT over residues; its masked-residue head is BERT's, those of species, chain and graft stay unread."""
    _model(unpacked, "AntiBERTy_md_smooth", unpacked / "vocab.txt", RESIDUES, folder, architectures=["BertForMaskedLM"])
