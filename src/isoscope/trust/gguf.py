"""The header of a GGUF file, checked before a library reads it.

The gguf library maps the file and trusts its counts. A list that claims 2⁶³ entries keeps it busy forever, because bytes beyond the end of
the file read as nothing and not as an error. Here every count and length is compared with the bytes that are left.

transformers builds the tokenizer of such a file without the special tokens that the file asks for. They are read here.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import BinaryIO

from isoscope.core.errors import IsoscopeError

SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type; 8 is a string and 9 a list."""
STRING, LIST = 8, 9
INTEGERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 7: "?", 10: "Q", 11: "q"}
"""The struct code of a whole number, or of true and false, by its type."""
BLOCK_COUNT = b".block_count"
"""The end of the name of the field with the number of blocks."""
LONGEST_NAME = 1 << 16
MAX_ENTRIES = 1 << 22
"""Entries of all lists together; the largest vocabularies have 300,000 tokens, each with a score and a type, and as many merges."""
MAX_FIELDS, MAX_TENSORS, MAX_AXES = 1 << 12, 1 << 17, 8
TOKENIZER = b"tokenizer.ggml."
FLAGS = ("add_bos_token", "add_eos_token", "bos_token_id", "eos_token_id")
"""The fields of a tokenizer that say which special tokens are put around a sequence."""
WORDS = ("model", "pre")
"""The fields that say which kind of tokenizer it is, and how it splits words."""
LLAMA_SPLITS = ("llama3", "llama-v3", "llama-bpe")
BOS_BY_DEFAULT = (*LLAMA_SPLITS, "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken", "chameleon")
"""The ways of splitting words for which llama.cpp adds a BOS token if the file has no `add_bos_token`."""


class Header:
    """Reads a header from front to back; raises a ValueError if anything does not fit into the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size, self.order, self.entries = file, size, "<", 0
        self.flags: dict[str, int] = {}
        self.words: dict[str, str] = {}
        self.tokens = 0

    def bytes_left(self) -> int:
        """The number of bytes from here to the end."""
        return self.size - self.file.tell()

    def read_number(self, code: str) -> int:
        """Read one number with this struct code."""
        raw = self.file.read(struct.calcsize(code))
        try:
            return int(struct.unpack(self.order + code, raw)[0])
        except struct.error as error:
            raise ValueError("it ends within its header") from error

    def read_name(self) -> bytes:
        """Read a name."""
        length = self.read_number("Q")
        if length > min(LONGEST_NAME, self.bytes_left()):
            raise ValueError(f"a name claims {length:,} bytes")
        return self.file.read(length)

    def skip_bytes(self, size: int, what: str) -> None:
        """Skip `size` bytes. A seek beyond the end would succeed, so the size is checked first."""
        if size > self.bytes_left():
            raise ValueError(f"{what} claims {size:,} bytes, and {self.bytes_left():,} are left")
        self.file.seek(size, 1)

    def skip_value(self, kind: int, *, within_list: bool = False) -> None:
        """Skip a value of this type."""
        if kind in SCALARS:
            self.skip_bytes(SCALARS[kind], "a value")
        elif kind == STRING:
            self.skip_bytes(self.read_number("Q"), "a string")
        elif kind == LIST and not within_list:
            inner, count = self.read_number("I"), self.read_number("Q")
            # Counted before they are read: the library makes a Python object of every entry.
            self.entries += count
            if self.entries > MAX_ENTRIES:
                raise ValueError(f"its lists claim {self.entries:,} entries, and {MAX_ENTRIES:,} is the most that is read")
            if inner in SCALARS:
                self.skip_bytes(count * SCALARS[inner], "a list")
            else:
                for _ in range(count):
                    self.skip_value(inner, within_list=True)
        else:
            raise ValueError(f"it has a value of type {kind}{' within a list' if within_list else ''}, which is not known")

    def read_tokenizer_field(self, name: str, kind: int) -> None:
        """Read a field about special tokens, and skip any other."""
        if name in FLAGS:
            if kind not in INTEGERS:
                raise ValueError(f"its {name} is of type {kind}, which is neither a whole number nor true or false")
            self.flags[name] = self.read_number(INTEGERS[kind])
        elif name in WORDS and kind == STRING:
            self.words[name] = self.read_name().decode("utf-8", "replace")
        else:
            before = self.entries
            self.skip_value(kind)
            if name == "tokens":
                self.tokens = self.entries - before


def check_gguf(path: Path) -> Header:
    """Read the header of a GGUF file; raise an `IsoscopeError` if it claims more than the file holds."""
    try:
        with path.open("rb") as file:
            header = Header(file, path.stat().st_size)
            _read_header(header)
    except ValueError as error:
        raise IsoscopeError(f"{path} cannot be read as a GGUF file: {error}; copy or download it again.") from error
    return header


def special_tokens(path: Path) -> tuple[int | None, int | None]:
    """The ids of the tokens that a GGUF file wants before and after each sequence; None for neither.

    If the file does not say, the default is that of llama.cpp, which defines the format.
    """
    header = check_gguf(path)
    model, pre = header.words.get("model"), header.words.get("pre")
    defaults = {"bos": model == "llama" or pre in BOS_BY_DEFAULT, "eos": model == "t5"}
    tokens: list[int | None] = []
    for name, default in defaults.items():
        token = header.flags.get(f"{name}_token_id", -1)
        if not header.flags.get(f"add_{name}_token", default):
            tokens.append(None)
        elif 0 <= token < header.tokens:
            tokens.append(token)
        else:
            given = f"{name}_token_id is {token}, and it has {header.tokens:,} tokens" if token >= 0 else f"it has no {name}_token_id"
            raise IsoscopeError(
                f"{path} wants a token {'before' if name == 'bos' else 'after'} each sequence (add_{name}_token), but {given}; give it "
                f"the id with `gguf-new-metadata --special-token-by-id {name} ID {path.name} NEW.gguf`, and measure NEW.gguf."
            )
    return tokens[0], tokens[1]


def _read_header(header: Header) -> None:
    if header.file.read(4) != b"GGUF":
        raise ValueError("it does not begin as one")
    version = header.read_number("I")
    if version & 0xFFFF == 0:  # a version of 1 to 9 in the last byte: the file is big-endian
        header.order, version = ">", version >> 24
    if version not in (2, 3):
        raise ValueError(f"its version is {version}, and 2 and 3 are known")
    tensors, fields = header.read_number("Q"), header.read_number("Q")
    if tensors > MAX_TENSORS or fields > MAX_FIELDS:
        raise ValueError(f"it claims {tensors:,} tensors and {fields:,} fields")
    for _ in range(fields):
        name, kind = header.read_name(), header.read_number("I")
        if name.endswith(BLOCK_COUNT) and kind in INTEGERS:
            blocks = header.read_number(INTEGERS[kind])
            if not 0 <= blocks <= tensors:  # the library makes a list of names for each block before it looks one up
                raise ValueError(f"it claims {blocks:,} blocks and holds {tensors:,} tensors")
        elif name.startswith(TOKENIZER):
            header.read_tokenizer_field(name.removeprefix(TOKENIZER).decode("utf-8", "replace"), kind)
        else:
            header.skip_value(kind)
    extents = [_read_tensor_extent(header) for _ in range(tensors)]
    # The values follow the header and are aligned, so that the bytes left are an upper bound on their room.
    needed = sum(size for _, size in extents)
    if needed > header.bytes_left() or any(offset + size > header.bytes_left() for offset, size in extents):
        raise ValueError(f"its tensors claim {needed:,} bytes, and {header.bytes_left():,} are left")


def _read_tensor_extent(header: Header) -> tuple[int, int]:
    """The offset and the size in bytes of a tensor's values."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    header.read_name()
    axes = header.read_number("I")
    if not 1 <= axes <= MAX_AXES:
        raise ValueError(f"a tensor claims {axes:,} axes")
    count = math.prod(header.read_number("Q") for _ in range(axes))
    kind, offset = header.read_number("I"), header.read_number("Q")
    if kind not in {known.value for known in GGMLQuantizationType}:
        raise ValueError(f"a tensor is of type {kind}, which is not known")
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    return offset, -(-count // block) * size
