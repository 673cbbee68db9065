"""CharacterBERT: words in, each made from its characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.models.family import RANDOM, Family, Stack
from isoscope.models.model_errors import whole_number
from isoscope.models.piece import Fed, Piece, Positions

if TYPE_CHECKING:
    from isoscope.models.load import LoadedModel


def _tokenizer(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    from isoscope.models.architectures.character_bert import CharacterTokenizer

    return CharacterTokenizer.from_folder(folder)


class WordReader:
    """Sequences of words, each a row of character ids, with [CLS] before and [SEP] behind."""

    unit = "tokens"
    pads = True
    special_tokens = "[CLS] … [SEP]"

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, self.tokenizer = model, model.processor
        most = whole_number(model.config.max_position_embeddings, "max_position_embeddings", model.reference.spec)
        if seq_len is not None and not 3 <= seq_len <= most:
            raise IsoscopeError(f"{model.reference.name} takes 3 to {most} words a sequence; --seq-len was {seq_len}.")
        self.seq_len = seq_len or min(512, most)

    def pieces(self, content: Any) -> list[Piece]:
        """At most `seq_len` words a sequence, the two special ones included."""
        words, room, found, start = self.tokenizer.words(content), self.seq_len - 2, [], 0
        for i in range(0, len(words), room):
            ids = self.tokenizer.ids(["[CLS]", *words[i : i + room], "[SEP]"])
            found.append(Piece(ids, len(ids), start, self.tokenizer.special(ids)))
            start += len(ids)
        return found

    def probe(self, count: int, size: int) -> list[Piece]:
        """Sequences of one word, again and again."""
        n = min(size, self.seq_len)
        return [Piece(self.tokenizer.ids(["a"] * n), n, special=np.zeros(n, dtype=bool)) for _ in range(count)]

    def feed(self, pieces: list[Piece]) -> Fed:
        """Character ids (b, words, characters) and the mask of words, padded on the right."""
        width, length = max(piece.size for piece in pieces), pieces[0].data.shape[1]
        ids = torch.zeros((len(pieces), width, length), dtype=torch.long)
        mask = torch.zeros((len(pieces), width), dtype=torch.long)
        for row, piece in enumerate(pieces):
            ids[row, : piece.size] = torch.from_numpy(piece.data)
            mask[row, : piece.size] = 1
        places = [
            Positions(piece.special if piece.special is not None else np.zeros(piece.size, dtype=bool), start=piece.start)
            for piece in pieces
        ]
        device = self.model.device
        return Fed({"input_ids": ids.to(device), "attention_mask": mask.to(device)}, lambda stack, t: places)


character_bert = Family(
    name="character_bert",
    modality="characters",
    about="BERT over words that are made from their characters; written here",
    covers={"CharacterBERT": RANDOM},
    matches=lambda config: 2 * (config.model_type == "character_bert"),
    stacks=lambda model: {"encoder": Stack(model.encoder)},
    processor=_tokenizer,
    reader=WordReader,
)
