"""Tokenizers whose tokens are single symbols."""

import json

from transformers import AutoTokenizer

from isoscope.packages.convert.symbol_models import RESIDUES, SMILES, rxnfp_pretrained, write_tokenizer

VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nC\nCl\nBr\nc\n>>\n[nH]\n(\n)\n1\n%10\nA\n"


def tokens(folder, text):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids)


def test_atoms_of_two_letters_and_brackets_are_one_token(tmp_path):
    (tmp_path / "vocab.txt").write_text(VOCABULARY)
    write_tokenizer(tmp_path / "vocab.txt", SMILES, tmp_path, 64)
    assert tokens(tmp_path, "CCl(Br)>>c1[nH]%10") == ["[CLS]", "C", "Cl", "(", "Br", ")", ">>", "c", "1", "[nH]", "%10", "[SEP]"]


def test_residues_are_read_with_and_without_spaces(tmp_path):
    (tmp_path / "vocab.txt").write_text(VOCABULARY)
    write_tokenizer(tmp_path / "vocab.txt", RESIDUES, tmp_path, 64)
    assert tokens(tmp_path, "CAC") == tokens(tmp_path, "C A C") == ["[CLS]", "C", "A", "C", "[SEP]"]
    assert tokens(tmp_path, "CX") == ["[CLS]", "C", "[UNK]", "[SEP]"]


def test_a_checkpoint_gets_its_head_and_type(tmp_path):
    source, folder = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    folder.mkdir()
    (source / "config.json").write_text(json.dumps({"max_position_embeddings": 64, "_name_or_path": "x"}))
    (source / "pytorch_model.bin").write_bytes(b"weights")
    (source / "vocab.txt").write_text(VOCABULARY)
    rxnfp_pretrained(source, folder)
    assert json.loads((folder / "config.json").read_text()) == {
        "max_position_embeddings": 64,
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
    }
    assert (folder / "pytorch_model.bin").read_bytes() == b"weights"
    assert json.loads((folder / "tokenizer_config.json").read_text())["model_max_length"] == 64
