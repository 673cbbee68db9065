"""CharacterBERT (El Boukkouri et al. 2020): BERT whose word vectors are made from the bytes of a word by convolutions and highway layers.

Names and shapes are those of `helboukkouri/character-bert`.
"""

# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import BertConfig, BertModel, BertPreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.models.bert.modeling_bert import BertEncoder, BertForPreTrainingOutput, BertPooler, BertPreTrainingHeads

from isoscope.trust.safe_io import read_json

CHARACTERS = 263
"""Ids of characters: 0 for a word of padding, 1–256 the bytes, 257–262 the marks below."""
FIRST, LAST, BEGIN, END, FILL, MASK = 257, 258, 259, 260, 261, 262
"""Begin and end of the text; begin and end of a word; the filler up to the length of a word; a masked word."""


class CharacterTokenizer:
    """From text to words, and from words to character ids.

    >>> tokenizer = CharacterTokenizer()
    >>> tokenizer.words("Où est-il ?")
    ['ou', 'est', '-', 'il', '?']
    >>> tokenizer.ids(["[CLS]", "il", "[SEP]", "[PAD]"])[:, :5].tolist()
    [[259, 257, 260, 261, 261], [259, 106, 109, 260, 261], [259, 258, 260, 261, 261], [0, 0, 0, 0, 0]]
    """

    marks: ClassVar[dict[str, int]] = {"[CLS]": FIRST, "[SEP]": LAST, "[MASK]": MASK}
    pad = "[PAD]"

    def __init__(self, max_word_length: int = 50, lower_case: bool = True) -> None:
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer

        self.max_word_length = max_word_length
        self._clean = BertNormalizer(lowercase=lower_case)
        self._split = BertPreTokenizer()

    @classmethod
    def from_folder(cls, folder: str | Path) -> CharacterTokenizer:
        """The tokenizer of a checkpoint, as its tokenizer_config.json says; without one, that of the published models."""
        path = Path(folder) / "tokenizer_config.json"
        settings = read_json(path) if path.exists() else {}
        return cls(settings.get("max_word_length", 50), settings.get("do_lower_case", True))

    def words(self, text: str) -> list[str]:
        """The words and punctuation marks of a text, as BERT splits it before word pieces."""
        return [word for word, _ in self._split.pre_tokenize_str(self._clean.normalize_str(text))]

    def ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """(n, max_word_length) character ids: the bytes of a word + 1 between its begin and end; a longer word is cut.

        [CLS], [SEP] and [MASK] are words of one mark; [PAD] is a row of zeros.
        """
        rows = np.full((len(words), self.max_word_length), FILL, dtype=np.int64)
        for row, word in zip(rows, words, strict=True):
            if word == self.pad:
                row[:] = 0
                continue
            mark = self.marks.get(word)
            inside = [byte + 1 for byte in word.encode("utf-8", "ignore")[: self.max_word_length - 2]] if mark is None else [mark]
            row[: len(inside) + 2] = [BEGIN, *inside, END]
        return rows

    def special(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,) which rows of character ids are [CLS], [SEP], [MASK] or [PAD]."""
        mask: NDArray[np.bool_] = np.isin(ids[:, 1], list(self.marks.values())) | (ids[:, 0] == 0)
        return mask


class CharacterBertConfig(BertConfig):
    """Sizes of a CharacterBERT: those of BERT, and of the network that makes word vectors. The defaults are as published."""

    model_type = "character_bert"
    attribute_map: ClassVar[dict[str, str]] = {"vocab_size": "mlm_vocab_size"}

    character_embeddings_dim: int = 16
    cnn_activation: str = "relu"
    cnn_filters: list[list[int]] | tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    num_highway_layers: int = 2
    max_word_length: int = 50
    mlm_vocab_size: int = 100_000
    use_cache: bool = False
    tie_word_embeddings: bool = False


class Highway(nn.Module):
    """y = g·x + (1 − g)·relu(A x), with the gate g = sigmoid(B x); A and B lie one below the other in one matrix. Repeated."""

    def __init__(self, d: int, layers: int) -> None:
        super().__init__()
        self._layers = nn.ModuleList([nn.Linear(d, 2 * d) for _ in range(layers)])
        self._activation = nn.ReLU()
        self._gate = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """(…, d) to the same."""
        for layer in self._layers:
            fresh, gate = layer(x).chunk(2, dim=-1)
            gate = self._gate(gate)
            x = gate * x + (1 - gate) * self._activation(fresh)
        return x


class CharacterCnn(nn.Module):
    """A word vector from the characters of the word: each filter's largest answer anywhere in the word, highway layers, a projection."""

    def __init__(self, config: CharacterBertConfig) -> None:
        super().__init__()
        d = config.character_embeddings_dim
        self._char_embedding_weights = nn.Parameter(torch.zeros(CHARACTERS, d))
        self._names = [f"char_conv_{index}" for index in range(len(config.cnn_filters))]
        for name, (width, filters) in zip(self._names, config.cnn_filters, strict=True):
            self.add_module(name, nn.Conv1d(d, filters, width))
        self._activation = ACT2FN[config.cnn_activation]
        width = sum(filters for _, filters in config.cnn_filters)
        self._highways = Highway(width, config.num_highway_layers)
        self._projection = nn.Linear(width, config.hidden_size)

    def forward(self, ids: Tensor) -> Tensor:
        """(b, words, characters) ids to (b, words, hidden_size)."""
        characters = nn.functional.embedding(ids.flatten(0, 1), self._char_embedding_weights).transpose(1, 2)
        answers = [self._activation(self.get_submodule(name)(characters).amax(dim=-1)) for name in self._names]
        return self._projection(self._highways(torch.cat(answers, dim=-1))).unflatten(0, ids.shape[:2])


class CharacterBertEmbeddings(nn.Module):
    """Words, positions and segments, added and normed."""

    def __init__(self, config: CharacterBertConfig) -> None:
        super().__init__()
        self.word_embeddings = CharacterCnn(config)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None, **_: Any) -> Tensor:
        """(b, words, characters) ids to (b, words, hidden_size)."""
        segments = torch.zeros_like(input_ids[..., 0]) if token_type_ids is None else token_type_ids
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions) + self.token_type_embeddings(segments)
        return self.dropout(self.LayerNorm(x))


class CharacterBertPreTrainedModel(BertPreTrainedModel):
    """How weights are drawn and loaded."""

    config: CharacterBertConfig
    config_class = CharacterBertConfig
    base_model_prefix = "character_bert"
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [r"position_ids$"]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, CharacterCnn):
            weights = module._char_embedding_weights
            init.normal_(weights)
            if not getattr(weights, "_is_hf_initialized", False):  # weights from a checkpoint must stay as they are
                weights[[0, FILL]] = 0


class CharacterBertModel(CharacterBertPreTrainedModel, BertModel):
    """CharacterBERT without its heads: (b, words, characters) ids and the (b, words) mask of what is not padding, to a state per word."""

    def __init__(self, config: CharacterBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)  # not that of BertModel, which would make a table of words
        self.embeddings = CharacterBertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config)
        self.post_init()


class CharacterBertForPreTraining(CharacterBertPreTrainedModel):
    """CharacterBERT with the heads it was trained with: masked words, and whether one sentence follows another."""

    def __init__(self, config: CharacterBertConfig) -> None:
        super().__init__(config)
        self.character_bert = CharacterBertModel(config)
        self.cls = BertPreTrainingHeads(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The table that masked words are looked up in."""
        return self.cls.predictions.decoder

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None, **kwargs: Any
    ) -> BertForPreTrainingOutput:
        """(b, words, characters) ids to a score for each word of the output vocabulary at each word, and two for the pair."""
        outputs = self.character_bert(input_ids, attention_mask, token_type_ids, **kwargs)
        words, pair = self.cls(outputs.last_hidden_state, outputs.pooler_output)
        return BertForPreTrainingOutput(
            prediction_logits=words, seq_relationship_logits=pair, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )
