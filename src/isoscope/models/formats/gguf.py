"""The header of a GGUF file, walked through before a library reads it.

The library maps the file and believes its counts: a list that claims 2⁶³ entries keeps it busy for ever, because what lies beyond the
end of the file reads as nothing and not as an error. Here every count and length is held against the bytes that are left.

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
WHOLE = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 7: "?", 10: "Q", 11: "q"}
"""How a whole number, or yes and no, is read, by its type."""
BLOCKS = b".block_count"
"""The end of the name of a field that says how many blocks a model has."""
LONGEST_NAME = 1 << 16
MOST_ENTRIES = 1 << 22
"""Entries of a list, over all lists; the largest vocabularies have 300,000 tokens, a score and a type each, and as many merges."""
MOST_FIELDS, MOST_TENSORS = 1 << 12, 1 << 17
MOST_AXES = 8
TOKENIZER = b"tokenizer.ggml."
FLAGS = ("add_bos_token", "add_eos_token", "bos_token_id", "eos_token_id")
"""The fields of a tokenizer that say which special tokens are put around a sequence."""
WORDS = ("model", "pre")
"""The fields that say which kind of tokenizer it is, and how it splits words."""
BOS_BY_DEFAULT = (
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
    "tekken",
    "chameleon",
)
"""The ways of splitting words with which llama.cpp adds a BOS token where the file has no `add_bos_token`."""


class Header:
    """Reads on through a header; whatever does not fit into the file is refused."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size, self.order, self.entries = file, size, "<", 0
        self.flags: dict[str, int] = {}
        self.words: dict[str, str] = {}
        self.tokens = 0

    def left(self) -> int:
        """Bytes between here and the end."""
        return self.size - self.file.tell()

    def number(self, kind: str) -> int:
        """One number."""
        raw = self.file.read(struct.calcsize(kind))
        try:
            return int(struct.unpack(self.order + kind, raw)[0])
        except struct.error as error:
            raise ValueError("it ends within its header") from error

    def skip(self, size: int, what: str) -> None:
        """Pass over so many bytes."""
        if size > self.left():
            raise ValueError(f"{what} claims {size:,} bytes, and {self.left():,} are left")
        self.file.seek(size, 1)

    def string(self) -> None:
        """Pass over a string."""
        self.skip(self.number("Q"), "a string")

    def name(self) -> bytes:
        """A name."""
        length = self.number("Q")
        if length > min(LONGEST_NAME, self.left()):
            raise ValueError(f"a name claims {length:,} bytes")
        return self.file.read(length)

    def value(self, kind: int, *, within: bool = False) -> None:
        """Pass over a value."""
        if kind in SCALARS:
            self.skip(SCALARS[kind], "a value")
        elif kind == STRING:
            self.string()
        elif kind == LIST and not within:
            inner, count = self.number("I"), self.number("Q")
            self.entries += count
            if self.entries > MOST_ENTRIES:
                raise ValueError(f"its lists claim {self.entries:,} entries, and {MOST_ENTRIES:,} is the most that is read")
            if inner in SCALARS:
                self.skip(count * SCALARS[inner], "a list")
            else:
                for _ in range(count):
                    self.value(inner, within=True)
        else:
            raise ValueError(f"it has a value of type {kind}{' within a list' if within else ''}, which is not known")

    def tokenizer_field(self, name: str, kind: int) -> None:
        """Read a field about special tokens, and pass over any other."""
        if name in FLAGS:
            if kind not in WHOLE:
                raise ValueError(f"its {name} is of type {kind}, which is neither a whole number nor true or false")
            self.flags[name] = self.number(WHOLE[kind])
        elif name in WORDS and kind == STRING:
            self.words[name] = self.name().decode("utf-8", "replace")
        else:
            before = self.entries
            self.value(kind)
            if name == "tokens":
                self.tokens = self.entries - before


def check_gguf(path: Path) -> Header:
    """Read the header of a GGUF file; one that claims more than the file holds is refused."""
    try:
        with path.open("rb") as file:
            header = Header(file, path.stat().st_size)
            _walk(header)
    except ValueError as error:
        raise IsoscopeError(f"{path} cannot be read as a GGUF file: {error}; copy or download it again.") from error
    return header


def special_tokens(path: Path) -> tuple[int | None, int | None]:
    """The ids of the tokens that a GGUF file wants before and after each sequence; None where it wants none.

    Where the file does not say, the default is that of llama.cpp, which defines the format.
    """
    header = check_gguf(path)
    model, pre = header.words.get("model"), header.words.get("pre")
    default = {"bos": model == "llama" or pre in BOS_BY_DEFAULT, "eos": model == "t5"}
    found: list[int | None] = []
    for name, unsaid in default.items():
        token = header.flags.get(f"{name}_token_id", -1)
        if not header.flags.get(f"add_{name}_token", unsaid):
            found.append(None)
        elif 0 <= token < header.tokens:
            found.append(token)
        else:
            given = f"{name}_token_id is {token}, and it has {header.tokens:,} tokens" if token >= 0 else f"it has no {name}_token_id"
            raise IsoscopeError(
                f"{path} wants a token {'before' if name == 'bos' else 'after'} each sequence (add_{name}_token), but {given}; give it "
                f"the id with `gguf-new-metadata --special-token-by-id {name} ID {path.name} NEW.gguf`, and measure NEW.gguf."
            )
    return found[0], found[1]


def _walk(header: Header) -> None:
    if header.file.read(4) != b"GGUF":
        raise ValueError("it does not begin as one")
    version = header.number("I")
    if version & 0xFFFF == 0:
        header.order, version = ">", version >> 24
    if version not in (2, 3):
        raise ValueError(f"its version is {version}, and 2 and 3 are known")
    tensors, fields = header.number("Q"), header.number("Q")
    if tensors > MOST_TENSORS or fields > MOST_FIELDS:
        raise ValueError(f"it claims {tensors:,} tensors and {fields:,} fields")
    for _ in range(fields):
        name, kind = header.name(), header.number("I")
        if name.endswith(BLOCKS) and kind in WHOLE:
            blocks = header.number(WHOLE[kind])
            if not 0 <= blocks <= tensors:  # the library makes a list of names for each before it looks for one
                raise ValueError(f"it claims {blocks:,} blocks and holds {tensors:,} tensors")
        elif name.startswith(TOKENIZER):
            header.tokenizer_field(name.removeprefix(TOKENIZER).decode("utf-8", "replace"), kind)
        else:
            header.value(kind)
    sizes = [_tensor(header) for _ in range(tensors)]
    needed = sum(size for _, size in sizes)
    if needed > header.left() or any(offset + size > header.left() for offset, size in sizes):
        raise ValueError(f"its tensors claim {needed:,} bytes, and {header.left():,} are left")


def _tensor(header: Header) -> tuple[int, int]:
    """The place and the size of a tensor's values."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    header.name()
    axes = header.number("I")
    if not 1 <= axes <= MOST_AXES:
        raise ValueError(f"a tensor claims {axes:,} axes")
    count = math.prod(header.number("Q") for _ in range(axes))
    kind, offset = header.number("I"), header.number("Q")
    if kind not in {one.value for one in GGMLQuantizationType}:
        raise ValueError(f"a tensor is of type {kind}, which is not known")
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    return offset, -(-count // block) * size
