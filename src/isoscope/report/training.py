"""What a training did, suite by suite: sentences about all of its checkpoints, and the figures over its steps."""

from __future__ import annotations

import pandas as pd

from isoscope.core.bounded import parsed_object
from isoscope.core.failures import Failures
from isoscope.core.group import UNTRAINED, checkpoints, first_seed, one_checkpoint, suites
from isoscope.core.study import Section
from isoscope.drawing.policies import list_policies
from isoscope.drawing.selection import pick_evenly
from isoscope.drawing.steps import read_verdict
from isoscope.figures.training_projections import CLOUD_STEPS, shown_heads
from isoscope.metrics import registry
from isoscope.report.chance import listed, runs
from isoscope.report.charts import drawn
from isoscope.report.line import bounds, greatest, least, show

BETWEEN = {
    "hidden": ("mean_cosine", "between_cosine", "drift_ratio", "drift_norm", "top_share", "effective_rank", "two_nn"),
    "attention": ("qk_cosine", "qk_dot", "attention_entropy", "attention_entropy_normalised"),
}
"""Of checkpoints between the first and the last the page's table holds these metrics, by kind."""
VERDICTS = ("holds", "fails", "undecided")
_PROJECTED = "the first components that all steps of a training share"
MEANINGS: dict[str, str] = {
    "alignment": "The mean over a layer's heads of cos²(Q̄, K̄); null: the query of one head with the key of another head of the layer.",
    "alignment_change": "Alignment at the last step less that at the first.",
    "alignment_p": "p of the alignment against keys dealt to the queries of other heads (Holm); without a layer, of all layers at once.",
    "alignment_shuffled": "The control: alignment where all means of a layer are paired at random, queries and keys alike.",
    "qk_chance": "|cos(Q̄, K̄)| that the heads of a stack exceed anywhere with 5 % chance at most.",
    "qk_cosine_joined": "The cosine of mean query and mean key with a layer's heads side by side as one vector.",
    "same_direction": "The head whose mean query and mean key end most in the same direction; value: their cosine.",
    "opposite_direction": "The head whose mean query and mean key end most in opposite directions; value: their cosine.",
    "same_direction_heads": "The part of a layer's heads whose means end in the same direction beyond chance.",
    "opposite_direction_heads": "The part of a layer's heads whose means end in opposite directions beyond chance.",
    "onset_drift": "The first step past a tenth of the whole change of the drift ratio.",
    "onset_sharpening": "The first step past a tenth of the whole change of the entropy of attention.",
    "onset_alignment": "The first step past a tenth of the whole change of the cosine of mean query and mean key.",
    "precedence": "The part of heads whose drift begins before their sharpening.",
    "opposite_later": "How often a head that ends in opposite directions begins to align after one that ends in the same.",
    "dimension_rise": "The intrinsic dimension at its peak less that at the first step, on documents that did not pick the peak.",
    "dimension_fall": "The intrinsic dimension at its peak less that at the last step, on documents that did not pick the peak.",
    "dimension_peak_step": "The step at which the intrinsic dimension peaks.",
    "rise_then_fall": "The part of seeds in which rise and fall of the intrinsic dimension both surely exceed a tenth of the peak.",
    "dimension_judged": "The intrinsic dimension over steps on the half of the documents by which rise and fall are judged.",
    "dimension_gaussian": "The same for Gaussian points with the covariance of each step.",
    "cloud_in": f"A few queries or keys of a head on {_PROJECTED}.",
    "mean_in": f"The mean query or the mean key of a head on {_PROJECTED}.",
    "mean_along": "The coordinate of the mean query or the mean key (y) along each of the first components (x) that all steps share.",
    "_change": "The number at the last step of a training less that at the first.",
    "training_loss": "The loss of the step, as the training loop gave it.",
    "learning_rate": "The optimiser's rate at the step.",
    "gradient_norm": "The norm of the gradient of the weights that make the queries, or the keys, of the layer.",
    "collapse_rank": "The effective rank of the layer, at a step at which it passed the limit of a watch.",
    "collapse_cosine": "The mean cosine of the layer, at a step at which it passed the limit of a watch.",
    "collapse_entropy": "The normalised entropy of the layer's attention, at a step at which it passed the limit of a watch.",
}
"""What derived numbers, and those of a watched training, mean, by name or by how a name begins or ends."""


def trainings(table: pd.DataFrame, series: pd.DataFrame, failures: Failures) -> list[Section]:
    """Every suite of the tables, with the figures that it can fill."""
    found = []
    for name in suites(table):
        rows, points = table[table["model"].eq(name)], series[series["model"].eq(name)]
        found.append(Section(name, *about(rows), sentences(rows), drawn(rows, points, failures, over_steps=True)))
    return found


def about(rows: pd.DataFrame) -> tuple[str, str]:
    """The checkpoints of a suite in a sentence, and which of them stands for all where one alone is shown."""
    known = checkpoints(rows)
    seeds = sorted(int(seed) for seed in known["seed"].dropna().unique())
    main = first_seed(known)
    first, last = int(main["step"].min()), int(main["step"].max())
    of = f" of {len(seeds)} seeds ({listed(runs(seeds))})" if len(seeds) > 1 else ""
    of_seed = f" of seed {int(main['seed'].iloc[0])}" if len(seeds) > 1 else ""
    twin = f" and, as {UNTRAINED}{rows['model'].iloc[0]}, step 0" if first == 0 else ""
    return f"{len(known)} checkpoints{of}, steps {first:,} to {last:,}.", f"step {last:,}{of_seed}{twin}"


def sentences(rows: pd.DataFrame) -> dict[str, str]:
    """What can be said of a training as a whole, by topic; with several stacks, of each."""
    stacks = [str(stack) for stack in rows.loc[rows["kind"].eq("attention") | rows["kind"].eq("hidden"), "stack"].dropna().unique()]
    found: dict[str, str] = {}
    for stack in stacks:
        own = rows[rows["stack"].eq(stack)]
        answers = {
            "Anisotropy": changed(own, "between_cosine_change", "mean cosine of pairs from different items"),
            "Drift": changed(own, "drift_ratio_change", "drift ratio"),
            "Dominant direction": changed(own, "top_share_change", "top share"),
            "Sharpness": changed(own, "attention_entropy_change", "entropy of attention"),
            "Queries and keys": directions(own),
            "Beyond chance": alignment(own),
            "Heads shown": chosen(own),
            "Which comes first": said(own, "precedence"),
            "Opposite directions": said(own, "opposite_later"),
            "Intrinsic dimension": dimension(own),
        }
        found |= {topic if len(stacks) == 1 else f"{topic}, {stack}": answer for topic, answer in answers.items() if answer}
    return found


def changed(rows: pd.DataFrame, metric: str, name: str) -> str | None:
    """In how many layers a number surely rose or fell from the first step to the last, and where most."""
    own = rows[rows["metric"].eq(metric) & rows["value"].notna()]
    layers = own[own["layer"].notna()]
    if layers.empty:
        return None
    said = layers["spec"].map(read_verdict)
    up, down = _layers(layers[said.eq("up")]), _layers(layers[said.eq("down")])
    most = layers.iloc[int(layers["value"].abs().to_numpy(float).argmax())]
    parts = [part for part in (f"rises in {up}" if up else "", f"falls in {down}" if down else "") if part]
    surely = f"surely {' and '.join(parts)}" if parts else "surely changes in no layer"
    text = f"From the first step to the last the {name} {surely} (of {len(layers)}), most in layer {most['layer']}: {_signed(most)}"
    whole = own[own["layer"].isna()]
    return text + (f"; on average over layers {_signed(whole.iloc[0])}." if len(whole) else ".")


def directions(rows: pd.DataFrame) -> str | None:
    """In which layers heads end with means in the same direction, in which in opposite ones."""
    parts = []
    for metric, words in (("same_direction_heads", "the same direction"), ("opposite_direction_heads", "opposite directions")):
        own = rows[rows["metric"].eq(metric) & rows["value"].notna() & rows["layer"].notna()]
        if own.empty:
            return None
        found, top = own[own["value"] > 0], greatest(own)
        most = f", most in layer {top['layer']} ({100 * float(top['value']):.0f} % of heads)" if len(found) else ""
        parts.append(f"{words} in {_layers(found) or 'no layer'}{most}")
    level = rows.loc[rows["metric"].eq("qk_chance"), "value"]
    beyond = f" beyond chance (|cosine| above {show(float(level.iloc[0]))}, Bonferroni over heads)" if len(level) else ""
    return f"At the last step heads have mean queries and mean keys{beyond} in {'; in '.join(parts)}."


def alignment(rows: pd.DataFrame) -> str | None:
    """Whether means align more than those of different heads, and more than at the start, layer by layer."""
    own = rows[rows["metric"].eq("alignment_change") & rows["layer"].notna() & rows["value"].notna()]
    if own.empty:
        return None
    tested = rows[rows["metric"].eq("alignment_p") & rows["layer"].isna() & rows["value"].notna()].sort_values("step")
    whole = f" All layers at once at the last step: p = {show(float(tested['value'].iloc[-1]))}." if len(tested) else ""
    return (
        "That the cosine of a head’s own means exceeds that of different heads of its layer (Holm over layers), and its own at the first "
        f"step in every seed, {_by_verdict(own)}.{whole}"
    )


def chosen(rows: pd.DataFrame) -> str | None:
    """The two heads that are drawn, and by which rule."""
    parts = []
    for metric, words in (("same_direction", "the same direction"), ("opposite_direction", "opposite directions")):
        own = rows[rows["metric"].eq(metric) & rows["head"].notna()]
        for row in own.to_dict("records"):
            rule = f" ({found})" if (found := note(row["spec"])) else ""
            parts.append(f"in {words} head {row['head']} of layer {row['layer']}, cosine {minus(show(float(row['value'])))}{rule}")
        parts += [f"in {words} none, as no head ends so"] if own.empty else []
    named = rows["metric"].isin(["same_direction", "opposite_direction"]).any()
    return f"Figures of single heads show {'; '.join(parts)}." if named else None


def said(rows: pd.DataFrame, metric: str) -> str | None:
    """The verdict of a row, with its number and what it says of itself; of several the row of all seeds."""
    own = rows[rows["metric"].eq(metric) & rows["value"].notna()].sort_values("seed", na_position="first")
    if own.empty:
        return None
    row = own.iloc[0]
    word = read_verdict(row["spec"])
    return f"{word[:1].upper()}{word[1:]}: {show(float(row['value']))}{bounds(row)}, {note(row['spec'])}."


def dimension(rows: pd.DataFrame) -> str | None:
    """Whether the intrinsic dimension rises and then falls, on average over blocks and by layer."""
    own = rows[rows["metric"].eq("rise_then_fall") & rows["value"].notna()]
    layers, whole = own[own["layer"].notna()], own[own["layer"].isna()]
    if own.empty:
        return None
    mean = f" on average over blocks: {read_verdict(whole['spec'].iloc[0])} ({note(whole['spec'].iloc[0])})" if len(whole) else ""
    each = f"{'; by' if mean else ' by'} layer it {_by_verdict(layers)}" if len(layers) else ""
    found = rows[rows["metric"].eq("two_nn") & rows["kind"].eq("hidden") & rows["layer"].notna() & rows["policy"].eq(own["policy"].iloc[0])]
    reach = ""
    if len(found):
        low, high = least(found), greatest(found)
        reach = f" It lies between {show(float(low['value']))} (layer {low['layer']}, step {low['step']:,})"
        reach += f" and {show(float(high['value']))} (layer {high['layer']}, step {high['step']:,})."
    return f"That it rises and then falls{mean}{each}.{reach}"


def held(table: pd.DataFrame, series: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the page holds to be saved: of checkpoints that it does not show, and of what was derived from all, what is drawn over steps;
    of the former for the first token policy alone.

    Thirty checkpoints with all of their metrics would weigh more than all else; the run has them.
    """
    if not suites(table):
        return table, series
    shown = [frame.index for frame in one_checkpoint(table, series)]
    drawn = pd.Series(False, index=table.index)
    for kind, metrics in BETWEEN.items():
        drawn |= table["kind"].eq(kind) & table["metric"].isin(list(metrics)) & table["layer"].notna()
    drawn &= table["policy"].eq(list_policies(table)[0])
    measured = registry.names()
    kept = table.index.isin(shown[0]) | drawn | ~table["metric"].isin(measured)
    derived = first_seed(series[~series["name"].isin(measured)])
    clouds = derived[derived["name"].str.startswith("cloud_in")]
    shown_steps = clouds.groupby("model")["step"].transform(lambda steps: steps.isin(pick_evenly(steps, CLOUD_STEPS)))
    derived = derived.drop(clouds.index[~shown_steps.astype(bool)])
    of_heads = [head.select(derived).index for head in shown_heads(table)]
    points = [shown[1], derived.index[derived["head"].isna()], *of_heads]
    return table[kept], series[series.index.isin([place for places in points for place in places])]


def derived_meaning(name: str) -> str | None:
    """What a derived number or series means; None where it is not one.

    >>> derived_meaning("top_share_change"), derived_meaning("mean_cosine")
    ('The number at the last step of a training less that at the first.', None)
    """
    begins = name.partition("_in_")[0] + "_in" if "_in_" in name else name.partition("_along_")[0] + "_along"
    for key in (name, begins, "_change" if name.endswith("_change") else ""):
        if key in MEANINGS:
            return MEANINGS[key]
    return None


def note(spec: object) -> str:
    """What a row says of itself in words."""
    return str(parsed_object(spec).get("note", ""))


def _layers(rows: pd.DataFrame) -> str:
    """Layers by number, runs of them joined; nothing where there are none."""
    numbers = [int(layer) for layer in rows["layer"]]
    return f"{'layer' if len(numbers) == 1 else 'layers'} {listed(runs(numbers))}" if numbers else ""


def _by_verdict(rows: pd.DataFrame) -> str:
    """Layers by verdict: "holds in layers 0–2, is undecided in layer 3"."""
    said = rows["spec"].map(read_verdict)
    words = {"holds": "holds", "fails": "fails", "undecided": "is undecided"}
    return ", ".join(f"{words[one]} in {_layers(rows[said.eq(one)])}" for one in VERDICTS if said.eq(one).any())


def _signed(row: pd.Series) -> str:
    sign = "+" if row["value"] > 0 else ""
    return f"{sign}{minus(show(float(row['value'])) + bounds(row))}"


def minus(text: str) -> str:
    """Numbers with a true minus sign.

    >>> minus("-0.31 to -1.0e-05")
    '−0.31 to −1.0e−05'
    """
    return text.replace("-", "−")
