"""How the models of a table are compared: in five groups, with the layers of their stacks in one sequence, one checkpoint per training."""

from __future__ import annotations

import pandas as pd

from isoscope.core.site import stack_order

GROUPS: dict[str, str] = {
    "token": "Token-level models",
    "character": "Character-level models",
    "speech": "Speech models",
    "vision": "Vision Transformers",
    "convolution": "Convolutional networks",
}
"""Every group and its title, in the order of "Anisotropy Is Inherent to Self-Attention"."""

UNTRAINED = "untrained:"
"""The prefix of the name of an untrained twin."""

UNIT = ["model", "revision", "step", "seed"]
"""The columns that identify a network, whatever stacks it has."""

_OF_MODALITY = {"text": "token", "characters": "character", "speech": "speech", "images": "vision"}


def group_of(modality: object, family: object) -> str | None:
    """The group of a model; None if it is in none of them, as a bare matrix is.

    >>> group_of("text", "decoder"), group_of("images", "hierarchical"), group_of("images", "convolution"), group_of(pd.NA, pd.NA)
    ('token', 'vision', 'convolution', None)
    """
    group = _OF_MODALITY.get(str(modality))
    return "convolution" if group == "vision" and str(family) == "convolution" else group


def add_groups(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of models that are in a group, with a column `group`."""
    # Each pair once: tables have a million rows and about ten pairs.
    pair = table.groupby(["modality", "family"], dropna=False, sort=False).ngroup().to_numpy()
    known = table.loc[~pd.Series(pair, index=table.index).duplicated(), ["modality", "family"]]
    names = pd.array([group_of(*both) for both in known.itertuples(index=False)], dtype="string")
    rows = table.assign(group=pd.Series(names.take(pair), index=table.index))
    return rows[rows["group"].notna()]


def block_layers(rows: pd.DataFrame) -> pd.Series:
    """The block that each row's state leaves. The state after a final norm has a layer number of its own, but belongs to the last block.

    >>> block_layers(pd.DataFrame({"kind": ["hidden", "hidden", "final"], "layer": [0, 12, 13]})).tolist()
    [0, 12, 12]
    """
    return rows["layer"] - rows["kind"].eq("final").astype("Int64")


def add_places(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of layers with their `place` in the whole network, in which stacks follow each other, and its `depth` from 0 to 1.

    A stack starts one place after the last block of the stack before it; `seam` is the number of places before its own. The state after a
    final norm has the place of the last block.
    """
    keys = rows[[*UNIT, "stack"]].astype("string").fillna("")
    blocks = block_layers(rows)
    last = blocks.groupby([keys[name] for name in keys]).max()
    seams: dict[tuple[str, ...], int] = {}
    ends: dict[tuple[str, ...], int] = {}
    for *unit, stack in sorted(last.index, key=lambda key: (*key[:-1], stack_order(key[-1]))):
        start = ends.get(tuple(unit), 0)
        seams[*unit, stack] = start
        ends[tuple(unit)] = start + int(last[(*unit, stack)]) + 1
    row_keys = [tuple(map(str, key)) for key in keys.to_numpy()]
    seam = pd.Series([seams[key] for key in row_keys], index=rows.index, dtype="Int64")
    length = pd.Series([max(ends[key[:-1]] - 1, 1) for key in row_keys], index=rows.index, dtype="Int64")
    place = blocks + seam
    return rows.assign(seam=seam, place=place, depth=(place / length).astype("float64"))


def list_checkpoints(frame: pd.DataFrame) -> pd.DataFrame:
    """Model, step and seed of every checkpoint. If a model has seeds, its rows without one are about all seeds and are no checkpoint."""
    known = frame.loc[frame["step"].notna(), ["model", "step", "seed"]].drop_duplicates()
    numbered = known.loc[known["seed"].notna(), "model"].unique()
    return known[known["seed"].notna() | ~known["model"].isin(numbered)]


def list_suites(frame: pd.DataFrame) -> list[str]:
    """The models that were measured at several steps of a training, in the order of the table."""
    known = list_checkpoints(frame)[["model", "step"]].drop_duplicates()
    steps = known["model"].value_counts()
    return [str(model) for model in known["model"].drop_duplicates() if steps[model] > 1]


def select_first_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one seed of each model: the first of those with the most steps. A seed may be missing, which counts as one."""
    known = list_checkpoints(rows)
    # pandas leaves rows with a missing key out of groups; −1 stands for a missing seed.
    counts = known.assign(seed=known["seed"].fillna(-1)).groupby(["model", "seed"]).size().reset_index(name="steps")
    chosen = counts.sort_values(["steps", "seed"], ascending=[False, True]).drop_duplicates("model").set_index("model")["seed"]
    return rows[rows["seed"].fillna(-1).eq(rows["model"].map(chosen).astype("Int64")).fillna(False).astype(bool)]


def select_one_checkpoint(table: pd.DataFrame, series: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with the last step of one seed of each suite. Its step 0 comes last, as the untrained twin.

    Rows derived from several checkpoints, which have no revision, are left out. Models that are no suites stay as they are.
    """
    main = select_first_seed(list_checkpoints(table))
    main = main[main["model"].isin(list_suites(main))]
    last = main.groupby("model")["step"].max()
    ends = main["step"].eq(0) | main["step"].eq(main.groupby("model")["step"].transform("max"))
    wanted = list(main[ends].fillna({"seed": -1}).itertuples(index=False, name=None))
    revised = table.loc[table["revision"].notna(), "model"].unique()

    def select(frame: pd.DataFrame) -> pd.DataFrame:
        inside = frame["model"].isin(list(last.index))
        if not inside.any():
            return frame
        # Missing values are equal to nothing, themselves included, so that rows without a seed would never match.
        keys = pd.MultiIndex.from_frame(frame[["model", "step", "seed"]].fillna({"step": -1, "seed": -1}))
        own = frame[inside & keys.isin(wanted) & (frame["revision"].notna() | ~frame["model"].isin(revised))]
        at_end = own["step"].eq(own["model"].map(last).astype("Int64"))
        twin = own[~at_end]
        return pd.concat([frame[~inside], own[at_end], twin.assign(model=UNTRAINED + twin["model"])])

    return select(table), select(series)
