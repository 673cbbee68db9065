"""llama2.c's format: weights, rotary pairs and tokens."""

import struct

import numpy as np
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from isoscope.packages.convert.llama2_c import read_pieces, stories

D, HIDDEN, LAYERS, HEADS, KEY_HEADS, POSITIONS = 8, 12, 2, 2, 1, 16
WORDS = ["▁a", "▁b", "ab", "▁ab", "▁", "a", "b", "c"]


def write_model(path, rng, shared=True):
    """A random model in the order of llama2.c, its tokenizer behind it; returns the arrays by their names there."""
    vocabulary = 259 + len(WORDS)
    half = D // HEADS // 2
    shapes = {
        "embedding": (vocabulary, D),
        "rms_att": (LAYERS, D),
        "wq": (LAYERS, D, D),
        "wk": (LAYERS, D // 2, D),
        "wv": (LAYERS, D // 2, D),
        "wo": (LAYERS, D, D),
        "rms_ffn": (LAYERS, D),
        "w1": (LAYERS, HIDDEN, D),
        "w2": (LAYERS, D, HIDDEN),
        "w3": (LAYERS, HIDDEN, D),
        "rms_final": (D,),
        "cos": (POSITIONS, half),
        "sin": (POSITIONS, half),
    } | ({} if shared else {"classifier": (vocabulary, D)})
    arrays = {name: rng.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}
    header = struct.pack("<7i", D, HIDDEN, LAYERS, HEADS, KEY_HEADS, vocabulary if shared else -vocabulary, POSITIONS)
    pieces = ["<unk>", "<s>", "</s>", *map(chr, range(256)), *(word.replace("▁", " ") for word in WORDS)]
    scores = [0.0] * 259 + [-float(i) for i in range(len(WORDS))]
    tokens = b"".join(struct.pack("<fi", score, len(piece.encode())) + piece.encode() for piece, score in zip(pieces, scores, strict=True))
    path.write_bytes(header + b"".join(array.tobytes() for array in arrays.values()) + struct.pack("<i", 4) + tokens)
    return arrays


def llama2_c_logits(arrays, tokens):
    """The logits of llama2.c's own loop, in float64: heads whose neighbouring coordinates are rotated."""
    w = {name: array.astype(np.float64) for name, array in arrays.items()}
    head_dim = D // HEADS
    angles = np.arange(len(tokens))[:, None] / 10000.0 ** (np.arange(0, head_dim, 2) / head_dim)

    def norm(x, weight):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight

    def rotate(x):  # (t, heads, head_dim)
        even, odd, cos, sin = x[..., ::2], x[..., 1::2], np.cos(angles)[:, None], np.sin(angles)[:, None]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)

    x = w["embedding"][tokens]
    for i in range(LAYERS):
        h = norm(x, w["rms_att"][i])
        q = rotate((h @ w["wq"][i].T).reshape(len(tokens), HEADS, head_dim))
        k = rotate((h @ w["wk"][i].T).reshape(len(tokens), KEY_HEADS, head_dim)).repeat(HEADS // KEY_HEADS, 1)
        v = (h @ w["wv"][i].T).reshape(len(tokens), KEY_HEADS, head_dim).repeat(HEADS // KEY_HEADS, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(head_dim)
        scores[:, np.triu_indices(len(tokens), 1)[0], np.triu_indices(len(tokens), 1)[1]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", weights, v).reshape(len(tokens), D) @ w["wo"][i].T
        h = norm(x, w["rms_ffn"][i])
        gate = h @ w["w1"][i].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["w3"][i].T)) @ w["w2"][i].T
    return norm(x, w["rms_final"]) @ w.get("classifier", w["embedding"]).T


def convert(tmp_path, *, shared=True):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    arrays = write_model(tmp_path / "from" / "data", np.random.default_rng(0), shared=shared)
    stories(tmp_path / "from", tmp_path / "to")
    return arrays, tmp_path / "to"


def test_logits_are_those_of_llama2_c(tmp_path):
    for shared in (True, False):
        folder = tmp_path / str(shared)
        folder.mkdir()
        arrays, written = convert(folder, shared=shared)
        model, report = LlamaForCausalLM.from_pretrained(written, dtype=torch.float64, output_loading_info=True)
        assert not any(report.values())
        tokens = np.array([1, 260, 262, 5, 263])
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens)[None]).logits[0].numpy()
        np.testing.assert_allclose(logits, llama2_c_logits(arrays, tokens), rtol=1e-5, atol=1e-5)


def test_single_characters_are_the_later_piece_and_bytes_are_the_last_resort(tmp_path):
    _, folder = convert(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    number = {word: 259 + i for i, word in enumerate(WORDS)}
    assert tokenizer("ab").input_ids == [1, number["▁ab"]]
    assert tokenizer("ca").input_ids == [1, number["▁"], number["c"], number["a"]]
    assert tokenizer("ü").input_ids == [1, number["▁"], 3 + 0xC3, 3 + 0xBC]
    assert tokenizer.decode([1, number["▁"], 3 + 0xC3, 3 + 0xBC], skip_special_tokens=True) == "ü"


def test_pieces_are_read_with_their_scores():
    raw = struct.pack("<i", 9) + struct.pack("<fi", -1.5, 2) + b" t" + struct.pack("<fi", 0.0, 1) + b"x"
    assert read_pieces(raw, 2) == [(" t", -1.5), ("x", 0.0)]
