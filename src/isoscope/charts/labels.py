"""Labels of lines: as much of model, revision, step, seed and stack as tells the lines of a chart apart."""

from __future__ import annotations

import pandas as pd

LINE_COLUMNS = ["model", "revision", "step", "seed", "stack"]
"""The columns that identify a line: an encoder and a decoder are two lines, and so are two checkpoints."""


def label_lines(*frames: pd.DataFrame) -> list[pd.DataFrame]:
    """The frames with a column `line`: the model's name, and those of the other columns that differ between lines of this model."""
    keys = pd.concat([frame[LINE_COLUMNS] for frame in frames], ignore_index=True)
    # A table has up to a million rows and a few lines: names are made once per line and then spread over the rows.
    number = keys.groupby(LINE_COLUMNS, dropna=False, sort=False).ngroup()
    firsts = keys[~number.duplicated()].astype("string").fillna("")
    known = [tuple(map(str, row)) for row in firsts.to_numpy()]
    different = {(model, i): len({row[i] for row in known if row[0] == model}) for model, *_ in known for i in range(len(LINE_COLUMNS))}
    names = []
    for row in known:
        model, revision, *others = (word if i == 0 or different[row[0], i] > 1 else "" for i, word in enumerate(row))
        words = [f"{model}@{revision}" if revision else model]
        words += [f"{prefix}{word}" for prefix, word in zip(("step ", "seed ", ""), others, strict=True) if word]
        names.append(" · ".join(words))
    lines = pd.Series(names, dtype="string").reindex(number).to_numpy()
    ends = pd.Series([len(frame) for frame in frames]).cumsum()
    return [
        frame.assign(line=pd.Series(lines[end - len(frame) : end], index=frame.index, dtype="string"))
        for frame, end in zip(frames, ends, strict=True)
    ]


def line_names(table: pd.DataFrame) -> list[str]:
    """The lines of a labelled table, in the order of the table."""
    return [str(name) for name in table["line"].drop_duplicates()]
