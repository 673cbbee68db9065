"""The options that every verb has which measures, written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer


def _options(
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="`embedded` (the default), files, folders or globs of text, clips or images, `-` for standard input, or hf:NAME?split=…. "
            "May be repeated: a model reads the first of its modality; NAME=SOURCE is for the model of that name."
        ),
    ] = None,
    out: Annotated[str, typer.Option(help="The run's folder. What it already holds is not computed again.")] = "isoscope-run",
    column: Annotated[str | None, typer.Option(help="The field of a .jsonl or .parquet that holds the text.")] = None,
    layers: Annotated[
        str,
        typer.Option(
            help="Which layers: numbers, ranges, negative numbers from the last block, and final, input, output (0,4,8-12,-1,final)."
        ),
    ] = "all",
    max_tokens: Annotated[
        int | None, typer.Option(help="Stop at the sequence that reaches so many tokens (of speech frames, of images images).")
    ] = None,
    max_items: Annotated[int | None, typer.Option(help="Stop after so many documents, clips or images.")] = None,
    maps: Annotated[
        str, typer.Option(help="Vectors of an image's map: per-position, per-image (the whole map is one vector) or both.")
    ] = "per-position",
    taps: Annotated[str, typer.Option(help="hidden, or hidden,attention: also queries, keys and rows of attention by head.")] = "hidden",
    query_rows: Annotated[
        int | None, typer.Option(help="Rows of attention taken of each sequence, spread evenly; all of them by default.")
    ] = None,
    median: Annotated[bool, typer.Option("--median", help="The median of each row of attention too, which takes longest.")] = False,
    rotated: Annotated[
        bool, typer.Option("--rotated", help="Queries and keys after rotary too, as kinds of their own; otherwise only before it.")
    ] = False,
    sharpness: Annotated[
        bool,
        typer.Option("--sharpness", help="Attention again without the mean query, and without the one to three largest dimensions."),
    ] = False,
    seq_len: Annotated[
        int | None, typer.Option(help="The longest sequence, in tokens or frames; 512 tokens, 30 s, or what the model takes.")
    ] = None,
    batch_size: Annotated[
        int, typer.Option(help="Sequences of full length, or images, at a time; shorter sequences come in larger batches.")
    ] = 8,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps or xpu; cuda:1 for one of several.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Threads on the CPU; all of them by default.")] = None,
    device_map: Annotated[
        str | None,
        typer.Option(help="Spread a model that is larger than one device by accelerate: auto, balanced, sequential, or an object in JSON."),
    ] = None,
    engine: Annotated[str, typer.Option(help="Who measures: local (processes of this machine) or ray (a cluster).")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster that is there already; one is started here by default.")] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Cells measured side by side; as many as cores and memory allow by default, 1 where there are few of them."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample and of untrained weights.")] = 0,
    shard: Annotated[str, typer.Option(help="Measure only the i-th of k parts of the source (2/4); `isoscope merge` joins them.")] = "1/1",
    sample: Annotated[int, typer.Option(help="Points kept a layer for what needs a second look; 0 for none.")] = 4096,
    gram: Annotated[str, typer.Option(help="Layers that keep second moments above d = 2048 (`all`, or as --layers).")] = "",
    cosine_sd: Annotated[bool, typer.Option("--cosine-sd", help="Keep second moments of directions too, for cosine_sd.")] = False,
    split: Annotated[
        list[str] | None,
        typer.Option(help="Split the body further: sink (by norm, of any model), frequency, position (both of tokens). May be repeated."),
    ] = None,
    keep: Annotated[str, typer.Option(help="What the run stores: rows (tables), sums (and moments, groups), all (and samples).")] = "all",
    trust_remote_code: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Run the code that this model (or suite) brings with it, and no other's; may be repeated."),
    ] = None,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Go on although weights are missing, left over or misfit.")
    ] = False,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds between saved states of a long cell.")] = 120.0,
    json: Annotated[bool, typer.Option("--json", help="End with the run's cells as JSON on standard output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """The options of a measurement, as the command line has them."""


def measures(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb all options of a measurement, some with a default of its own, in the place of its `**options`.

    They come as `isoscope.measure` takes them, and `json` besides.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def run(**given: Any) -> None:
            verb(**_as_measure_takes(given))

        hints = get_type_hints(verb, include_extras=True) | get_type_hints(_options, include_extras=True)
        common = {
            name: one.replace(default=defaults.get(name, one.default)) for name, one in inspect.signature(_options).parameters.items()
        }
        kept = [one for name, one in inspect.signature(verb).parameters.items() if name not in common and one.kind is not one.VAR_KEYWORD]
        ordered = [one.replace(annotation=hints[one.name]) for one in [*kept, *common.values()]]
        run.__annotations__ = {one.name: one.annotation for one in ordered} | {"return": None}
        run.__signature__ = inspect.Signature([one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in ordered])  # type: ignore[attr-defined]
        return run

    return decorate


def _as_measure_takes(given: dict[str, Any]) -> dict[str, Any]:
    from isoscope.engine.options import parse_shard, parse_taps

    read = {"taps": parse_taps(given["taps"]), "shard": parse_shard(given["shard"]), "split": tuple(given["split"] or ())}
    read["trust_remote_code"] = tuple(given["trust_remote_code"] or ())
    return given | read | {"data": given["data"] or "embedded"}
