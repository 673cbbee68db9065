"""The options of a measurement, checked before anything is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.site import ATTENTION_KINDS, INNER_KINDS, Site
from isoscope.core.user_input import MAX_COUNT, MAX_SAMPLE, MAX_SEED, MAX_THREADS, check_count, check_word
from isoscope.runs.stored_cell import KEEP_LEVELS
from isoscope.statistics.site_statistics import VERSION

SECOND_UP_TO = 2048
"""Second moments are kept by default up to this dimension."""
SPLITS = ("sink", "frequency", "position")
CHANNELS = ("first", "last")
MAPS = ("per-position", "per-image", "both")
TAPS = ("hidden", "attention")
POOLS = ("mean", "cls", "last", "own")
POOLED = ("hidden", "map", "final")
"""The kinds of sites whose layers `--pool-layers` may name."""
OF_ATTENTION = ("query_rows", "attention_median", "after_rotary", "ablate_queries")
"""The options that need tapped attention."""
OF_A_MODULE = ("layers", "second_moments", "cosine_sd", "sample", "image_maps", "channels", "seed", "store", "taps", *OF_ATTENTION)
"""The options that apply to a module, whose batches the user makes."""
DEFAULT_BATCH, TEXT_BATCH_ON_CPU = 8, 2
"""Sequences of full length, or images, per batch."""
SAMPLE_UP_TO = 8192
"""Wider points are not sampled: they are maps flattened to one vector per image."""
NAMES = {"final": "final", "input_embedding": "input", "output_embedding": "output"}
"""The kinds of sites that `--layers` asks for by name."""
Word = int | str | tuple[int, int]
"""One part of `--layers`: a number, a name, or a range with both ends."""


@dataclass(frozen=True)
class Options:
    """Every option of `isoscope measure` except the models, the source and the folder."""

    layers: str = "all"
    second_moments: str = ""
    split_body: tuple[str, ...] = ()
    cosine_sd: bool = False
    sample: int = 4096
    max_tokens: int | None = None
    max_items: int | None = None
    image_maps: str = "per-position"
    channels: str | None = None
    """For a module: whether the channels of its maps come `first` or `last`; None takes this from the layers that read and make them."""
    pool: str | None = None
    """How the states of an item become one vector, which is measured too; None: it is not."""
    pool_layers: str = ""
    """The layers whose states are pooled; empty: the last one."""
    taps: tuple[str, ...] = ("hidden",)
    query_rows: int | None = None
    attention_median: bool = False
    after_rotary: bool = False
    ablate_queries: bool = False
    seq_len: int | None = None
    batch_size: int | None = None
    """Sequences of full length, or images, per batch; None: `DEFAULT_BATCH`, or fewer of text on a CPU."""
    dtype: str = "float32"
    device: str = "auto"
    device_map: str | None = None
    threads: int | None = None
    seed: int = 0
    shard: tuple[int, int] = (0, 1)
    store: str = "all"
    tokenizer: str | None = None
    """The folder of a tokenizer or processor; None: that of the model."""
    trust_remote_code: bool | tuple[str, ...] = False
    """The names of the models whose own code may run; True allows all of them."""
    allow_partial: bool = False
    save_every: float = 120.0

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_tokens", "max_items", "seq_len", "threads", "query_rows"):
            check_count(name, getattr(self, name), most=MAX_THREADS if name == "threads" else MAX_COUNT)
        check_count("sample", self.sample, least=0, most=MAX_SAMPLE)
        check_count("seed", self.seed, least=0, most=MAX_SEED)
        check_word("--store must be one of", self.store, KEEP_LEVELS)
        check_word("--image-maps must be one of", self.image_maps, MAPS)
        if self.channels is not None:
            check_word("channels must be", self.channels, CHANNELS, joined=" or ")
        if self.pool is not None:
            check_word("--pool must be one of", self.pool, POOLS)
        elif self.pool_layers:
            raise IsoscopeError("--pool-layers says which layers are pooled; add --pool mean, cls or last.")
        for split in self.split_body:
            check_word("--split-body takes", split, SPLITS)
        self._check_taps()
        i, k = self.shard
        if not 0 <= i < k:
            raise IsoscopeError(f"--shard i/k needs 1 ≤ i ≤ k, as in 1/4; got {i + 1}/{k}.")
        parse_layers(self.layers)
        parse_layers(self.second_moments)
        parse_layers(self.pool_layers)

    def _check_taps(self) -> None:
        """Refuse taps that do not exist, and options of attention if attention is not tapped."""
        for tap in self.taps:
            check_word("--taps takes", tap, TAPS)
        if not self.taps:
            raise IsoscopeError(f"--taps takes {' or '.join(TAPS)}, or both; got neither.")
        if not self.attention and (idle := [name for name in OF_ATTENTION if getattr(self, name)]):
            raise IsoscopeError(f"--{idle[0].replace('_', '-')} is about attention, which is not tapped; add --taps hidden,attention.")

    def identity(self) -> dict[str, Any]:
        """The options that determine the statistics; batch size, threads, device and storage do not."""
        always = (
            "layers",
            "second_moments",
            "split_body",
            "cosine_sd",
            "sample",
            "max_tokens",
            "max_items",
            "image_maps",
            "seq_len",
            "dtype",
            "seed",
        )
        # Options that have no effect here stay out of the identity, so that adding an option does not change the keys of older cells.
        sometimes = (("taps", *OF_ATTENTION) if self.attention else ()) + (("channels",) if self.channels else ())
        sometimes += ("pool", "pool_layers") if self.pool else ()
        return {name: getattr(self, name) for name in (*always, *sometimes)} | {"statistics": VERSION}

    @property
    def attention(self) -> bool:
        """Whether queries, keys and attention are tapped."""
        return "attention" in self.taps

    def wants(self, site: Site, depth: int) -> bool:
        """Whether a site of a stack of this depth is to be measured."""
        return site.kind == "pooled" or (self._taps(site) and _is_chosen(self.layers, site, depth))

    def _taps(self, site: Site) -> bool:
        return "hidden" in self.taps or site.kind in ATTENTION_KINDS

    def check_layers(self, sites: Collection[Site], depths: Mapping[str, int], model: str) -> None:
        """Refuse layers that the model lacks; `sites` are all of its sites, `depths` the number of blocks that each stack calls."""
        if tapped := [site for site in sites if self._taps(site)]:
            _check_layers("--layers", self.layers, tapped, depths, model)
            _check_layers("--second-moments", self.second_moments, tapped, depths, model)
        # Whatever is tapped, the states of blocks and final norms are pooled, and nothing else is.
        _check_layers("--pool-layers", self.pool_layers, [site for site in sites if site.kind in POOLED], depths, model)

    def wants_pooled(self, site: Site, depth: int, last: int) -> bool:
        """Whether a state of a stack of this depth is pooled; `last` is the number of its last layer, that of a final norm included."""
        return self.pool is not None and (_is_chosen(self.pool_layers, site, depth) if self.pool_layers else site.layer == last)

    def wants_second(self, site: Site, depth: int, d: int) -> bool:
        """Whether second moments are kept for it."""
        return (d <= SECOND_UP_TO and site.kind not in INNER_KINDS) or _is_chosen(self.second_moments, site, depth)

    def sample_at(self, site: Site, d: int) -> int:
        """How many of its points are sampled."""
        return self.sample if d <= SAMPLE_UP_TO and site.kind not in INNER_KINDS else 0


def parse_shard(text: str) -> tuple[int, int]:
    """Parse `2/4`, the second of four shards, as (1, 4).

    >>> parse_shard("2/4")
    (1, 4)
    """
    i, slash, k = text.partition("/")
    if not (slash and i.isdecimal() and k.isdecimal()):
        raise IsoscopeError(f"--shard i/k needs two numbers, as in 1/4; got {text!r}.")
    return int(i) - 1, int(k)


def parse_taps(text: str) -> tuple[str, ...]:
    """Parse `hidden,attention` as a tuple, always in the same order.

    >>> parse_taps("attention, hidden")
    ('hidden', 'attention')
    """
    words = dict.fromkeys(filter(None, (word.strip() for word in text.split(","))))
    return tuple(sorted(words, key=lambda word: TAPS.index(word) if word in TAPS else len(TAPS)))


def parse_layers(text: str) -> list[Word] | None:
    """Parse `0,3,6-8,-1,final` as numbers, ranges and names; None for `all`.

    >>> parse_layers("0,3,6-8,-1,final")
    [0, 3, (6, 8), -1, 'final']
    """
    if text == "all":
        return None
    words: list[Word] = []
    names = list(NAMES.values())
    for word in filter(None, (word.strip() for word in text.split(","))):
        low, dash, high = word.partition("-")
        if word in names:
            words.append(word)
        elif word.removeprefix("-").isdecimal():
            words.append(int(word))
        elif dash and low.isdecimal() and high.isdecimal():
            if int(low) > int(high):
                raise IsoscopeError(f"A range of layers goes from the lower to the higher, as in 8-12; got {word!r}.")
            words.append((int(low), int(high)))
        else:
            raise IsoscopeError(
                f"Layers are numbers, ranges and {', '.join(names)} (0,4,8-12,-1,final); got {word!r}{nearest(word, names) or '.'}"
            )
    return words


def _is_chosen(text: str, site: Site, depth: int) -> bool:
    words = parse_layers(text)
    return words is None or any(_names(word, site, depth) for word in words)


def _names(word: Word, site: Site, depth: int) -> bool:
    """Whether one word of `--layers` means this site of a stack of `depth` blocks. Negative numbers count back from the last block."""
    if isinstance(word, str) or site.layer is None:
        return word == NAMES.get(site.kind)
    if isinstance(word, tuple):
        return word[0] <= site.layer <= word[1]
    return site.layer == (word if word >= 0 else depth + 1 + word)


def _check_layers(option: str, text: str, sites: Collection[Site], depths: Mapping[str, int], model: str) -> None:
    """Refuse the first word that means none of these sites, and a range that ends beyond them."""
    last = max((site.layer for site in sites if site.layer is not None), default=0)
    for word in parse_layers(text) or []:
        beyond = isinstance(word, tuple) and word[1] > last
        if beyond or not any(_names(word, site, depths.get(site.stack, 0)) for site in sites):
            first = min(site.layer for site in sites if site.layer is not None)  # attention has no layer 0
            there = [f"{f'{stack} ' if len(depths) > 1 else ''}{first} to {depth}" for stack, depth in depths.items()]
            there += [name for kind, name in NAMES.items() if any(site.kind == kind for site in sites)]
            got = f"{word[0]}-{word[1]}" if isinstance(word, tuple) else word
            raise IsoscopeError(f"{option} must name layers that {model} has ({', '.join(there)}); got {got}: correct it or leave it out.")


def options_from(given: dict[str, Any]) -> Options:
    """Make options from their names; the error for an unknown name suggests the nearest one."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name in given:
        if name not in known:
            raise IsoscopeError(f"There is no option {name!r}{nearest(name, known) or '.'}")
    if isinstance(given.get("shard"), str):
        given = given | {"shard": parse_shard(given["shard"])}
    if isinstance(given.get("taps"), str):
        given = given | {"taps": parse_taps(given["taps"])}
    return Options(**given)
