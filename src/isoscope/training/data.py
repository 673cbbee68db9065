"""Batches for a training: text, images, speech.

A batch is a pure function of the generator it is given, and the loop makes that of seed and step: a resumed training sees the same batches.
"""

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
"""One item in this many is not trained on."""
MIN_COUNT = 20
"""A character that occurs less often is unknown."""
SUBWORDS = 2048
SPAN = 8
"""Frames of speech are hidden in runs of this length; otherwise their neighbours would give them away."""
PAD, UNKNOWN, MASK = "[PAD]", "[UNK]", "[MASK]"

Batch = tuple[dict[str, Tensor], Callable[[Tensor], Tensor]]
"""The inputs of the network, and the loss as a function of its output."""


class Data(Protocol):
    """The data of a training."""

    config: dict[str, Any]
    """The part of the network's configuration that the data determines."""

    def batch(self, rng: np.random.Generator, *, held_out: bool = False) -> Batch:
        """Draw a batch."""

    def save(self, folder: Path) -> None:
        """Write the files, next to the weights, that are needed to feed the network again."""


def load_data(recipe: Recipe, source: Source, progress: Callable[[], None] = lambda: None) -> Data:
    """The data of a recipe. It is read once and held in memory, because it is small."""

    def items() -> Iterator[Item]:
        for item in source.items():
            progress()
            yield item

    kinds: dict[str, Callable[[Recipe, Iterator[Item]], Data]] = {"text": TextData, "images": ImageData, "speech": SpeechData}
    return kinds[recipe.modality](recipe, items())


def draw_hidden(recipe: Recipe, rng: np.random.Generator, shape: tuple[int, int], run: int = 1) -> np.ndarray:
    """(b, t) which positions are hidden: runs that start at random positions, at least one per sequence."""
    starts = rng.random(shape) < recipe.masked / run  # each start hides `run` positions
    starts[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    hidden = starts.copy()
    for shift in range(1, run):
        hidden[:, shift:] |= starts[:, :-shift]
    return hidden


class Windows:
    """Items joined to one long array, from which windows are drawn. Every twentieth item goes into a second array, which is held out."""

    def __init__(self, items: list[np.ndarray], length: int, content: str) -> None:
        trained = [item for i, item in enumerate(items) if i % HELD_OUT]
        self.rows = {False: np.concatenate(trained or items), True: np.concatenate(items[::HELD_OUT])}
        self.length = length
        if min(len(rows) for rows in self.rows.values()) <= length:
            raise IsoscopeError(f"The data holds too little {content} for windows of {length}; give more, or a smaller --length.")

    def draw(self, rng: np.random.Generator, count: int, held_out: bool) -> np.ndarray:
        """(count, length, …) windows."""
        rows = self.rows[held_out]
        starts = rng.integers(len(rows) - self.length, size=count)
        return np.asarray(rows[starts[:, None] + np.arange(self.length)])


class TextData:
    """Windows of characters or subwords."""

    def __init__(self, recipe: Recipe, items: Iterator[Item]) -> None:
        self.recipe = recipe
        texts = [str(item.content) + "\n" for item in items]
        self.tokenizer = (character_tokenizer if recipe.level == "characters" else subword_tokenizer)(texts, recipe.length)
        ids = [np.asarray(tokens, np.int64) for tokens in self.tokenizer(texts, verbose=False)["input_ids"]]
        self.windows = Windows(ids, recipe.length, "text")
        size = len(self.tokenizer)
        self.config = {"vocab_size": size, "outputs": size, "max_position_embeddings": recipe.length, "pad_token_id": 0}

    def batch(self, rng: np.random.Generator, *, held_out: bool = False) -> Batch:
        """Windows of tokens and, depending on the objective, the loss of the next tokens or of hidden ones."""
        # The windows are drawn first, so that recipes with different objectives see the same text.
        ids = self.windows.draw(rng, self.recipe.batch, held_out)
        if self.recipe.objective == "next":
            targets = torch.from_numpy(ids[:, 1:])
            return {"input_ids": torch.from_numpy(ids)}, lambda logits: functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), targets.flatten()
            )
        hidden, draw = draw_hidden(self.recipe, rng, ids.shape), rng.random(ids.shape)
        # As in BERT: of the hidden tokens 80 % are masked, 10 % are replaced by random ones, 10 % stay.
        shown = np.where(hidden & (draw < 0.8), self.tokenizer.mask_token_id, ids)
        shown = np.where(hidden & (draw >= 0.9), rng.integers(3, len(self.tokenizer), ids.shape), shown)
        where, targets = torch.from_numpy(hidden), torch.from_numpy(ids[hidden])
        return {"input_ids": torch.from_numpy(shown)}, lambda logits: functional.cross_entropy(logits[where], targets)

    def save(self, folder: Path) -> None:
        """Write the tokenizer."""
        self.tokenizer.save_pretrained(folder)


class ImageData:
    """Crops of images. The class of an image is its folder or, if there is only one folder, the image itself."""

    def __init__(self, recipe: Recipe, items: Iterator[Item]) -> None:
        self.recipe, self.side = recipe, SmallConfig.image_size
        named = [(item.id, np.asarray(item.content)) for item in items if min(item.content.size) >= self.side]
        self.images = [image for _, image in named]
        folders = [Path(name).parent.as_posix() for name, _ in named]
        labels = folders if len(set(folders)) > 1 else [name for name, _ in named]
        classes = sorted(set(labels))
        if len(classes) < 2:
            raise IsoscopeError(f"Images of at least two classes are needed, each at least {self.side} pixels wide and high.")
        self.labels = np.array([classes.index(label) for label in labels])
        everything = range(len(named))
        # With one image per class nothing can be held out: a class that is never seen cannot be recognised.
        trained = [i for i in everything if i % HELD_OUT] if len(named) > len(classes) else list(everything)
        self.indices = {False: np.array(trained), True: np.array(sorted(set(everything) - set(trained)) or trained)}
        self.config = {"outputs": len(classes), "max_position_embeddings": (self.side // SmallConfig.patch) ** 2}

    def batch(self, rng: np.random.Generator, *, held_out: bool = False) -> Batch:
        """Crops, half of them mirrored, and the loss of their classes."""
        # Every draw comes from `rng`, in a fixed order: images, then for each its place and whether it is mirrored.
        drawn = rng.choice(self.indices[held_out], self.recipe.batch)
        pixels = torch.from_numpy(np.stack([self._crop(self.images[i], rng) for i in drawn]))
        labels = torch.from_numpy(self.labels[drawn])
        return {"pixel_values": pixels}, lambda logits: functional.cross_entropy(logits.mean(1), labels)

    def _crop(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        top, left = (int(rng.integers(size - self.side + 1)) for size in image.shape[:2])
        crop = image[top : top + self.side, left : left + self.side, :: rng.choice([-1, 1])]
        return np.ascontiguousarray((crop.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1))

    def save(self, folder: Path) -> None:
        """Write nothing: pixels are always scaled to [-1, 1]."""


class SpeechData:
    """Windows of mel frames, each band scaled to mean 0 and standard deviation 1 over the data."""

    def __init__(self, recipe: Recipe, items: Iterator[Item]) -> None:
        self.recipe = recipe
        clips = (mel_frames(resample(item.content.samples, item.content.rate, FRAME_RATE), SmallConfig.bands) for item in items)
        frames = [clip for clip in clips if len(clip)]
        if not frames:
            raise IsoscopeError("The data holds no speech: every clip is shorter than a frame.")
        joined = np.concatenate(frames)
        # 1e-3 keeps a band without energy finite.
        mean, sd = joined.mean(0, dtype=np.float64), joined.std(0, dtype=np.float64) + 1e-3
        self.windows = Windows([((clip - mean) / sd).astype(np.float32) for clip in frames], recipe.length, "speech")
        scale = {"band_mean": [round(float(x), 6) for x in mean], "band_sd": [round(float(x), 6) for x in sd]}
        self.config = {"outputs": SmallConfig.bands, "max_position_embeddings": recipe.length, **scale}

    def batch(self, rng: np.random.Generator, *, held_out: bool = False) -> Batch:
        """Windows with hidden runs of frames, and the mean absolute error of the hidden frames."""
        frames = self.windows.draw(rng, self.recipe.batch, held_out)
        hidden = torch.from_numpy(draw_hidden(self.recipe, rng, frames.shape[:2], SPAN))
        features = torch.from_numpy(frames)
        return {"input_features": features, "masked": hidden}, lambda output: (output - features)[hidden].abs().mean()

    def save(self, folder: Path) -> None:
        """Write nothing: the scale of the bands is part of the configuration."""


def character_tokenizer(texts: list[str], length: int) -> Any:
    """A tokenizer of single characters: those that occur often, the most frequent first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    counts = Counter(character for text in texts for character in text)
    known = sorted((c for c, n in counts.items() if n >= MIN_COUNT), key=lambda c: (-counts[c], c))
    tokens = {token: i for i, token in enumerate([PAD, UNKNOWN, MASK, *known])}
    tokenizer = Tokenizer(models.WordLevel(tokens, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return _wrap_tokenizer(tokenizer, length)


def subword_tokenizer(texts: list[str], length: int) -> Any:
    """A tokenizer of byte pairs, learned from the texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=SUBWORDS, special_tokens=[PAD, UNKNOWN, MASK], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return _wrap_tokenizer(tokenizer, length)


def _wrap_tokenizer(tokenizer: Any, length: int) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        mask_token=MASK,
        model_max_length=length,
        clean_up_tokenization_spaces=False,
    )
