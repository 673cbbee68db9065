"""isoscope measure"""

from __future__ import annotations

from typing import Annotated

import typer


def run(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Folders, .gguf files or hub ids (org/name@revision); `untrained:` before one: at initialisation."
        ),
    ],
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
        str, typer.Option(help="Which layers: numbers, ranges, negative from the end, and final, input, output (0,4,8-12,-1,final).")
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
    rotated: Annotated[bool, typer.Option("--rotated", help="Queries and keys after rotary too, as kinds of their own.")] = False,
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
    seed: Annotated[int, typer.Option(help="Seed of the sample and of untrained weights.")] = 0,
    shard: Annotated[str, typer.Option(help="Measure only the i-th of k parts of the source (2/4); `isoscope merge` joins them.")] = "1/1",
    sample: Annotated[int, typer.Option(help="Points kept a layer for what needs a second look; 0 for none.")] = 4096,
    gram: Annotated[str, typer.Option(help="Layers that keep second moments above d = 2048 (`all`, or as --layers).")] = "",
    cosine_sd: Annotated[bool, typer.Option("--cosine-sd", help="Keep second moments of directions too, for cosine_sd.")] = False,
    split: Annotated[list[str] | None, typer.Option(help="Split the body further: sink, frequency, position. May be repeated.")] = None,
    keep: Annotated[str, typer.Option(help="What the run stores: rows (tables), sums (and moments, groups), all (and samples).")] = "all",
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run code that a model brings with it.")] = False,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Go on although weights are missing, left over or misfit.")
    ] = False,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds between saved states of a long cell.")] = 120.0,
    json: Annotated[bool, typer.Option("--json", help="End with the run's cells as JSON on standard output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Measure every layer of one or more models and keep it in a run.

    **Examples**

    `isoscope measure ./bert-base --out runs/bert`

    `isoscope measure gpt2 untrained:gpt2 --data 'corpus/*.txt' --max-tokens 200000 --out runs/gpt2`

    `isoscope measure whisper-tiny dinov2-small resnet-50 --data clips/ --data photographs/ --out runs/senses`

    `isoscope measure ./bert-base --taps hidden,attention --query-rows 64 --out runs/heads`

    `isoscope measure model.gguf --data wiki.parquet --column body --shard 1/4 --out runs/part1`
    """
    from isoscope.engine.measure import measure
    from isoscope.engine.options import parse_shard, parse_taps

    results = measure(
        models,
        data or "embedded",
        out,
        column=column,
        quiet=quiet,
        layers=layers,
        max_tokens=max_tokens,
        max_items=max_items,
        maps=maps,
        taps=parse_taps(taps),
        query_rows=query_rows,
        median=median,
        rotated=rotated,
        sharpness=sharpness,
        seq_len=seq_len,
        batch_size=batch_size,
        dtype=dtype,
        device=device,
        threads=threads,
        seed=seed,
        shard=parse_shard(shard),
        sample=sample,
        gram=gram,
        cosine_sd=cosine_sd,
        split=tuple(split or ()),
        keep=keep,
        trust_remote_code=trust_remote_code,
        allow_partial=allow_partial,
        save_every=save_every,
    )
    if json:
        from json import dumps

        typer.echo(dumps({"run": str(results.path), "cells": results.manifests()}, ensure_ascii=False))
    else:
        typer.echo(f"{results.path}")
