"""isoscope measure, and the options of every verb that measures."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from isoscope.console.arguments import Address, Executor, JsonCells, Quiet, RunOut, TextColumn, Threads
from isoscope.console.output import print_run


def _options(
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="`embedded` (the default), files, folders or globs of text, clips or images, `-` for standard input, or hf:NAME?split=…. "
            "May be repeated: a model reads the first source of its modality; NAME=SOURCE is for the model of that name."
        ),
    ] = None,
    out: RunOut = "isoscope-run",
    column: TextColumn = None,
    layers: Annotated[
        str,
        typer.Option(
            help="The layers to measure: numbers, ranges, negative numbers from the last block, and final, input, output "
            "(0,4,8-12,-1,final)."
        ),
    ] = "all",
    max_tokens: Annotated[
        int | None, typer.Option(help="Stop after about this many tokens (frames for speech, images for vision).")
    ] = None,
    max_items: Annotated[int | None, typer.Option(help="Stop after this many documents, clips or images.")] = None,
    image_maps: Annotated[
        str, typer.Option(help="Vectors of an image's map: per-position, per-image (the whole map is one vector) or both.")
    ] = "per-position",
    taps: Annotated[
        str, typer.Option(help="hidden, or hidden,attention to also measure queries, keys and attention rows per head.")
    ] = "hidden",
    pool: Annotated[
        str | None, typer.Option(help="Also measure one vector per item: mean, cls, last, or own (as the model or its folder declares).")
    ] = None,
    pool_layers: Annotated[str, typer.Option(help="The layers whose states are pooled, as in --layers. Default: the last one.")] = "",
    query_rows: Annotated[int | None, typer.Option(help="Number of attention rows per sequence, evenly spaced. Default: all.")] = None,
    attention_median: Annotated[
        bool, typer.Option("--attention-median", help="Also compute the median of each attention row, which is the slowest statistic.")
    ] = False,
    after_rotary: Annotated[
        bool, typer.Option("--after-rotary", help="Also measure queries and keys after rotary embedding, as separate kinds.")
    ] = False,
    ablate_queries: Annotated[
        bool,
        typer.Option(
            "--ablate-queries",
            help="Recompute attention without the mean query, and without the one to three largest dimensions, to see what makes it sharp.",
        ),
    ] = False,
    seq_len: Annotated[
        int | None,
        typer.Option(help="Longest sequence, in tokens or frames. Default: 512 tokens or 30 s, or less if the model takes less."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Sequences of full length, or images, per batch; batches of shorter sequences are larger. "
            "Default: 8, or 2 of text on a CPU.",
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps or xpu; cuda:1 for one of several.")] = "auto",
    threads: Threads = None,
    device_map: Annotated[
        str | None,
        typer.Option(help="Spread a model over several devices with accelerate: auto, balanced, sequential, or a JSON object."),
    ] = None,
    executor: Executor = "local",
    address: Address = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Cells measured in parallel. Default: as many as cores and memory allow, or 1 if there are few cells."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample and of untrained weights.")] = 0,
    shard: Annotated[
        str, typer.Option(help="Measure only part i of k of the source, as in 2/4; `isoscope merge` joins the parts.")
    ] = "1/1",
    sample: Annotated[
        int, typer.Option(help="Sample points to store per layer, for metrics that need individual points; 0 stores none.")
    ] = 4096,
    second_moments: Annotated[str, typer.Option(help="Layers whose second moments are stored if d > 2048 (`all`, or as --layers).")] = "",
    cosine_sd: Annotated[bool, typer.Option("--cosine-sd", help="Also store second moments of directions, for cosine_sd.")] = False,
    split_body: Annotated[
        list[str] | None,
        typer.Option(help="Split the body further: by sink (its norm), or, for text, by frequency or position. May be repeated."),
    ] = None,
    store: Annotated[
        str, typer.Option(help="Contents of the run: rows (tables), sums (also moments and groups) or all (also samples).")
    ] = "all",
    tokenizer: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="The folder of the tokenizer or processor, if it is not next to the weights.")
    ] = None,
    trust_remote_code: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Run the code that this model (or suite) ships with, and no other's; may be repeated."),
    ] = None,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Continue if weights are missing, unused or of the wrong shape.")
    ] = False,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds between saved states of a long cell.")] = 120.0,
    json: JsonCells = False,
    quiet: Quiet = False,
) -> None:
    """The options of a measurement."""


def add_measure_options(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb all options of a measurement in place of its `**options`; `defaults` replace some default values.

    The verb gets them as `isoscope.measure` takes them.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def run(**given: Any) -> None:
            verb(**_parse_options(given))

        hints = get_type_hints(verb, include_extras=True) | get_type_hints(_options, include_extras=True)
        common = inspect.signature(_options).parameters
        own = [p for name, p in inspect.signature(verb).parameters.items() if name not in common and p.kind is not p.VAR_KEYWORD]
        shared = [p.replace(default=defaults.get(name, p.default)) for name, p in common.items()]
        parameters = [p.replace(annotation=hints[p.name], kind=p.KEYWORD_ONLY) for p in [*own, *shared]]
        # Typer reads the signature and the annotations of a command, not its code.
        run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _parse_options(given: dict[str, Any]) -> dict[str, Any]:
    from isoscope.measuring.options import parse_shard, parse_taps

    return given | {
        "data": given["data"] or "embedded",
        "taps": parse_taps(given["taps"]),
        "shard": parse_shard(given["shard"]),
        "split_body": tuple(given["split_body"] or ()),
        "trust_remote_code": tuple(given["trust_remote_code"] or ()),
    }


@add_measure_options()
def run(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Folders, .gguf files or hub ids (org/name@revision). The prefix `untrained:` means random weights."
        ),
    ],
    json: bool,
    split_into: Annotated[
        int | None,
        typer.Option(
            help="Split each source into this many shards, measured in parallel and merged. Default: N for one model with --processes N."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be measured and what it would cost, and stop.")] = False,
    **options: Any,
) -> None:
    """Measure every layer of one or more models and store the results in a run.

    **Examples**

    `isoscope measure ./bert-base --out runs/bert`

    `isoscope measure gpt2 untrained:gpt2 --data 'corpus/*.txt' --max-tokens 200000 --out runs/gpt2`

    `isoscope measure whisper-tiny dinov2-small resnet-50 --data clips/ --data photographs/ --out runs/senses`

    `isoscope measure ./bert-base --taps hidden,attention --query-rows 64 --out runs/heads`

    `isoscope measure ./bert-base --data corpus/ --processes 8 --out runs/large`

    `isoscope measure model.gguf --data wiki.parquet --column body --shard 1/4 --out runs/part1`
    """
    from isoscope.measuring.measure import describe_measurement, measure

    if dry_run:
        for line in describe_measurement(models, split_into=split_into, **options):
            typer.echo(line)
        return
    print_run(measure(models, split_into=split_into, **options), as_json=json, quiet=options["quiet"])
