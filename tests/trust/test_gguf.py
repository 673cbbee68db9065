"""Headers of GGUF files are checked before a library reads them."""

import struct

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.trust.gguf import check_gguf, special_tokens


def test_more_blocks_than_tensors(tmp_path):

    def text(word):
        return struct.pack("<Q", len(word)) + word

    name = text(b"llama.block_count") + struct.pack("<II", 4, 1 << 30)
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + name)
    with pytest.raises(IsoscopeError, match="it claims 1,073,741,824 blocks and holds 0 tensors"):
        check_gguf(tmp_path / "x.gguf")


def text(word):
    return struct.pack("<Q", len(word)) + word


def field(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def tokenizer(**flags):
    """A header with four tokens and these fields: the ids are of type 4 (uint32), the truths of type 7."""
    fields = [
        field(b"tokenizer.ggml.model", 8, text(b"gpt2")),
        field(b"tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 4) + b"".join(map(text, (b"a", b"b", b"c", b"d")))),
    ]
    for name, value in flags.items():
        packed = struct.pack("<?", value) if isinstance(value, bool) else struct.pack("<I", value)
        fields.append(field(f"tokenizer.ggml.{name}".encode(), 7 if isinstance(value, bool) else 4, packed))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields)


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ({}, (None, None)),
        ({"add_bos_token": True, "bos_token_id": 3}, (3, None)),
        ({"add_bos_token": False, "bos_token_id": 3, "add_eos_token": True, "eos_token_id": 0}, (None, 0)),
    ],
)
def test_special_tokens_are_those_that_the_file_asks_for(tmp_path, flags, tokens):
    (tmp_path / "x.gguf").write_bytes(tokenizer(**flags))
    assert special_tokens(tmp_path / "x.gguf") == tokens
    assert check_gguf(tmp_path / "x.gguf").tokens == 4


def test_a_special_token_that_is_not_in_the_vocabulary_is_refused(tmp_path):
    (tmp_path / "x.gguf").write_bytes(tokenizer(add_eos_token=True, eos_token_id=4))
    with pytest.raises(IsoscopeError, match=r"after each sequence \(add_eos_token\), but eos_token_id is 4, and it has 4 tokens"):
        special_tokens(tmp_path / "x.gguf")
    (tmp_path / "x.gguf").write_bytes(tokenizer(add_bos_token=True))
    with pytest.raises(IsoscopeError, match=r"before each sequence \(add_bos_token\), but it has no bos_token_id"):
        special_tokens(tmp_path / "x.gguf")


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"GGML", "it does not begin as one"),
        (b"GGUF" + struct.pack("<I", 9), "its version is 9, and 2 and 3 are known"),
        (b"GGUF" + struct.pack("<IQ", 3, 0), "it ends within its header"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "it claims 1,099,511,627,776 tensors and 0 fields"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 30), "a name claims 1,073,741,824 bytes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field(b"a", 9, struct.pack("<IQ", 4, 1 << 50)), "its lists claim 1,125,899,906,842,624"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field(b"a", 8, struct.pack("<Q", 99)), "a string claims 99 bytes, and 0 are left"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field(b"a", 9, struct.pack("<IQ", 9, 1)), "type 9 within a list, which is not known"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(b"w") + struct.pack("<IQIQ", 1, 1000, 0, 0),
            "its tensors claim 4,000 bytes, and 0 are left",
        ),
    ],
)
def test_a_header_that_claims_more_than_the_file_holds_is_refused(tmp_path, raw, sentence):
    (tmp_path / "x.gguf").write_bytes(raw)
    with pytest.raises(IsoscopeError, match=f"cannot be read as a GGUF file: .*{sentence}"):
        check_gguf(tmp_path / "x.gguf")
