"""Batches for a training: each is a pure function of the seed and the step, so that a resumed training sees the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Item, Source
from isoscope.sources.speech import FRAME_RATE, mel_frames, resample
from isoscope.training.network import SmallConfig
from isoscope.training.recipe import Recipe

HELD_OUT = 20
"""Every so manieth item is not trained on."""
OFTEN = 20
"""A character that occurs less often is unknown."""
SUBWORDS = 2048
SPAN = 8
"""Frames of speech are hidden in runs of this length, or their neighbours would tell them."""
PAD, UNKNOWN, MASK = "[PAD]", "[UNK]", "[MASK]"

Batch = tuple[dict[str, Tensor], Callable[[Tensor], Tensor]]
"""What the network is fed, and the loss of its scores."""


class Data(Protocol):
    """What a network is trained on."""

    config: dict[str, Any]
    """What of the network's configuration the data decides."""

    def batch(self, rng: np.random.Generator, *, held_out: bool = False) -> Batch:
        """Draw a batch."""

    def save(self, folder: Path) -> None:
        """Write what is needed to feed the network again beside its weights."""


def data_for(recipe: Recipe, source: Source, progress: Callable[[], None] = lambda: None) -> Data:
    """The data of a recipe, read once and held: these are small."""

    def items() -> Iterator[Item]:
        for item in source.items():
            progress()
            yield item

    kinds: dict[str, Callable[[Recipe, Iterator[Item]], Data]] = {"text": Text, "images": Images, "speech": Speech}
    return kinds[recipe.modality](recipe, items())


def _hidden(recipe: Recipe, rng: np.random.Generator, shape: tuple[int, int], run: int = 1) -> np.ndarray:
    """Which positions are hidden: runs that begin at random, at least one a sequence."""
    begins = rng.random(shape) < recipe.masked / run
    begins[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    found = begins.copy()
    for shift in range(1, run):
        found[:, shift:] |= begins[:, :-shift]
    return found


class Windows:
    """Rows of long arrays, of which windows are drawn; those of every twentieth item are held out."""

    def __init__(self, parts: list[np.ndarray], length: int, what: str) -> None:
        trained = [part for i, part in enumerate(parts) if i % HELD_OUT]
        self.rows = {False: np.concatenate(trained or parts), True: np.concatenate(parts[::HELD_OUT])}
        self.length = length
        if min(len(rows) for rows in self.rows.values()) <= length:
            raise IsoscopeError(f"The data holds too little {what} for windows of {length}; give more, or a smaller --length.")

    def draw(self, rng: np.random.Generator, count: int, held_out: bool) -> np.ndarray:
        """(count, length, …) windows."""
        rows = self.rows[held_out]
        starts = rng.integers(len(rows) - self.length, size=count)
        return np.asarray(rows[starts[:, None] + np.arange(self.length)])


class Text:
    """Windows of a text's symbols."""

    def __init__(self, recipe: Recipe, items: Iterator[Item]) -> None:
        self.recipe = recipe
        texts = [str(item.content) + "\n" for item in items]
        self.tokenizer = (characters if recipe.level == "characters" else subwords)(texts, recipe.length)
        ids = [np.asarray(found, np.int64) for found in self.tokenizer(texts, verbose=False)["input_ids"]]
        self.windows = Windows(ids, recipe.length, "text")
        count = len(self.tokenizer)
        self.config = {"vocab_size": count, "outputs": count, "max_position_embeddings": recipe.length, "pad_token_id": 0}

    def batch(self, rng: np.random.Generator, *, held_out: bool = False) -> Batch:
        """Windows of symbols; of the hidden ones four in five are masked, of the rest half are drawn at random, as BERT has it."""
        ids = self.windows.draw(rng, self.recipe.batch, held_out)
        if self.recipe.objective == "next":
            wanted = torch.from_numpy(ids[:, 1:])
            return {"input_ids": torch.from_numpy(ids)}, lambda scores: functional.cross_entropy(
                scores[:, :-1].flatten(0, 1), wanted.flatten()
            )
        hidden, how = _hidden(self.recipe, rng, ids.shape), rng.random(ids.shape)
        shown = np.where(hidden & (how < 0.8), self.tokenizer.mask_token_id, ids)
        shown = np.where(hidden & (how >= 0.9), rng.integers(3, len(self.tokenizer), ids.shape), shown)
        where, asked = torch.from_numpy(hidden), torch.from_numpy(ids[hidden])
        return {"input_ids": torch.from_numpy(shown)}, lambda scores: functional.cross_entropy(scores[where], asked)

    def save(self, folder: Path) -> None:
        """The tokenizer."""
        self.tokenizer.save_pretrained(folder)


class Images:
    """Crops of images; their class is the folder they lie in, or, where there is only one, the image itself."""

    def __init__(self, recipe: Recipe, items: Iterator[Item]) -> None:
        self.recipe, self.side = recipe, SmallConfig.image_size
        found = [(item.id, np.asarray(item.content)) for item in items if min(item.content.size) >= self.side]
        folders = [Path(name).parent.as_posix() for name, _ in found]
        named = folders if len(set(folders)) > 1 else [name for name, _ in found]
        classes = sorted(set(named))
        if len(classes) < 2:
            raise IsoscopeError(f"Images of at least two classes are needed, each at least {self.side} pixels wide and high.")
        self.labels, self.images = np.array([classes.index(name) for name in named]), [image for _, image in found]
        own = [i for i in range(len(found)) if i % HELD_OUT] if len(found) > len(classes) else list(range(len(found)))
        self.of = {False: np.array(own), True: np.array(sorted(set(range(len(found))) - set(own)) or own)}
        self.config = {"outputs": len(classes), "max_position_embeddings": (self.side // SmallConfig.patch) ** 2}

    def batch(self, rng: np.random.Generator, *, held_out: bool = False) -> Batch:
        """Crops, half of them mirrored."""
        chosen = rng.choice(self.of[held_out], self.recipe.batch)
        pixels = torch.from_numpy(np.stack([self._crop(self.images[i], rng) for i in chosen]))
        labels = torch.from_numpy(self.labels[chosen])
        return {"pixel_values": pixels}, lambda scores: functional.cross_entropy(scores.mean(1), labels)

    def _crop(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        top, left = (int(rng.integers(size - self.side + 1)) for size in image.shape[:2])
        crop = image[top : top + self.side, left : left + self.side, :: rng.choice([-1, 1])]
        return np.ascontiguousarray((crop.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1))

    def save(self, folder: Path) -> None:
        """Nothing: pixels are scaled to [-1, 1]."""


class Speech:
    """Windows of frames, each band scaled to mean 0 and standard deviation 1 over the data."""

    def __init__(self, recipe: Recipe, items: Iterator[Item]) -> None:
        self.recipe = recipe
        clips = (mel_frames(resample(item.content.samples, item.content.rate, FRAME_RATE), SmallConfig.bands) for item in items)
        parts = [clip for clip in clips if len(clip)]
        if not parts:
            raise IsoscopeError("The data holds no speech: every clip is shorter than a frame.")
        every = np.concatenate(parts)
        mean, sd = every.mean(0, dtype=np.float64), every.std(0, dtype=np.float64) + 1e-3
        self.windows = Windows([((part - mean) / sd).astype(np.float32) for part in parts], recipe.length, "speech")
        scale = {"band_mean": [round(float(x), 6) for x in mean], "band_sd": [round(float(x), 6) for x in sd]}
        self.config = {"outputs": SmallConfig.bands, "max_position_embeddings": recipe.length, **scale}

    def batch(self, rng: np.random.Generator, *, held_out: bool = False) -> Batch:
        """Windows of which runs of frames are hidden; what they were is to be said, by the mean absolute difference."""
        shown = self.windows.draw(rng, self.recipe.batch, held_out)
        hidden = torch.from_numpy(_hidden(self.recipe, rng, shown.shape[:2], SPAN))
        features = torch.from_numpy(shown)
        return {"input_features": features, "masked": hidden}, lambda scores: (scores - features)[hidden].abs().mean()

    def save(self, folder: Path) -> None:
        """Nothing: the scale of the bands is part of the configuration."""


def characters(texts: list[str], longest: int) -> Any:
    """A tokenizer of single characters: those that occur often, the most frequent first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    counts = Counter(character for text in texts for character in text)
    known = sorted((c for c, n in counts.items() if n >= OFTEN), key=lambda c: (-counts[c], c))
    tokens = {token: i for i, token in enumerate([PAD, UNKNOWN, MASK, *known])}
    made = Tokenizer(models.WordLevel(tokens, unk_token=UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    made.decoder = decoders.Fuse()
    return _wrapped(made, longest)


def subwords(texts: list[str], longest: int) -> Any:
    """A tokenizer of byte pairs, learned from the text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(unk_token=UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=SUBWORDS, special_tokens=[PAD, UNKNOWN, MASK], show_progress=False)
    made.train_from_iterator(texts, trainer)
    return _wrapped(made, longest)


def _wrapped(made: Any, longest: int) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        unk_token=UNKNOWN,
        mask_token=MASK,
        model_max_length=longest,
        clean_up_tokenization_spaces=False,
    )
