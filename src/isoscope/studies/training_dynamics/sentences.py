"""The section on each training: sentences about all of its checkpoints, and the figures over its steps."""

from __future__ import annotations

import pandas as pd

from isoscope.charts.panels import list_policies
from isoscope.charts.records import pick_evenly
from isoscope.core.errors import Failures
from isoscope.core.model_groups import UNTRAINED, list_checkpoints, list_suites, select_first_seed, select_one_checkpoint
from isoscope.core.study import Section
from isoscope.core.wording import format_change, format_list, format_number, format_numbered, format_p_value, format_runs, format_share
from isoscope.metrics import registry
from isoscope.report.charts import draw_all
from isoscope.report.line import greatest, interval_of, least
from isoscope.studies.training_dynamics.figures.training_projections import CLOUD_STEPS, shown_heads
from isoscope.studies.training_dynamics.gather import CHANGES
from isoscope.studies.training_dynamics.step_charts import read_verdict
from isoscope.trust.safe_io import parse_object

EMBEDDED = {
    "hidden": ("mean_cosine", "between_cosine", "drift_ratio", "drift_norm", "top_share", "effective_rank", "two_nn"),
    "attention": ("qk_cosine", "qk_dot", "attention_entropy", "attention_entropy_normalised"),
}
"""The metrics by kind that the page's table holds for checkpoints between the first and the last."""
VERDICTS = ("holds", "fails", "undecided")
_PROJECTED = "the first components that all steps of a training share"
MEANINGS: dict[str, str] = {
    "alignment": "The mean over a layer's heads of cos²(Q̄, K̄); null: the query of one head with the key of another head of the layer.",
    "alignment_change": "Alignment at the last step minus that at the first.",
    "alignment_p": "p of the alignment, against keys paired with queries of other heads (Holm); without a layer, for all layers at once.",
    "alignment_shuffled": "The control: alignment with all means of a layer, of queries and keys alike, paired at random.",
    "qk_chance": "|cos(Q̄, K̄)| that the heads of a stack exceed anywhere with 5 % chance at most.",
    "qk_cosine_joined": "The cosine of mean query and mean key with a layer's heads side by side as one vector.",
    "same_direction": "The head whose mean query and mean key end most in the same direction; value: their cosine.",
    "opposite_direction": "The head whose mean query and mean key end most in opposite directions; value: their cosine.",
    "same_direction_heads": "The part of a layer's heads whose means end in the same direction beyond chance.",
    "opposite_direction_heads": "The part of a layer's heads whose means end in opposite directions beyond chance.",
    "onset_drift": "The first step past a tenth of the total change of the drift ratio.",
    "onset_sharpening": "The first step past a tenth of the total change of the entropy of attention.",
    "onset_alignment": "The first step past a tenth of the total change of the cosine of mean query and mean key.",
    "precedence": "The part of heads whose drift begins before their sharpening.",
    "opposite_later": "How often a head that ends in opposite directions begins to align after one that ends in the same.",
    "dimension_rise": "The intrinsic dimension at its peak minus that at the first step, on documents that did not pick the peak.",
    "dimension_fall": "The intrinsic dimension at its peak minus that at the last step, on documents that did not pick the peak.",
    "dimension_peak_step": "The step at which the intrinsic dimension peaks.",
    "rise_then_fall": "The part of seeds in which rise and fall of the intrinsic dimension both clearly exceed a tenth of the peak.",
    "dimension_judged": "The intrinsic dimension over steps on the half of the documents by which rise and fall are judged.",
    "dimension_gaussian": "The same for Gaussian points with the covariance of each step.",
    "cloud_in": f"A few queries or keys of a head on {_PROJECTED}.",
    "mean_in": f"The mean query or the mean key of a head on {_PROJECTED}.",
    "mean_along": "The coordinate of the mean query or the mean key (y) along each of the first components (x) that all steps share.",
    "_change": "The number at the last step of a training minus that at the first.",
    "training_loss": "The loss of the step, as reported by the training loop.",
    "learning_rate": "The optimiser's rate at the step.",
    "gradient_norm": "The norm of the gradient of the weights that make the queries, or the keys, of the layer.",
    "collapse_rank": "The effective rank of the layer, at a step at which it passed the limit of a watch.",
    "collapse_cosine": "The mean cosine of the layer, at a step at which it passed the limit of a watch.",
    "collapse_entropy": "The normalised entropy of the layer's attention, at a step at which it passed the limit of a watch.",
}
"""The meaning of derived numbers, and of those of a watched training, by name or by the beginning or end of a name."""


def training_sections(table: pd.DataFrame, series: pd.DataFrame, failures: Failures) -> list[Section]:
    """Every suite of the tables, with the figures that it can fill."""
    sections = []
    for name in list_suites(table):
        rows, points = table[table["model"].eq(name)], series[series["model"].eq(name)]
        drawings = draw_all(rows, points, failures, over_steps=True)
        sections.append(Section(name, *describe_checkpoints(rows), summarise_training(rows), drawings))
    return sections


def describe_checkpoints(rows: pd.DataFrame) -> tuple[str, str]:
    """The checkpoints of a suite in a sentence, and the one that stands for all when a single one is shown."""
    known = list_checkpoints(rows)
    seeds = sorted(int(seed) for seed in known["seed"].dropna().unique())
    # Seeds may end at different steps; the first seed is the one that the page shows.
    main = select_first_seed(known)
    first, last = int(main["step"].min()), int(main["step"].max())
    of_seeds = f" of {len(seeds)} seeds ({format_runs(seeds)})" if len(seeds) > 1 else ""
    of_seed = f" of seed {int(main['seed'].iloc[0])}" if len(seeds) > 1 else ""
    twin = f" and, as {UNTRAINED}{rows['model'].iloc[0]}, step 0" if first == 0 else ""
    return f"{len(known)} checkpoints{of_seeds}, steps {first:,} to {last:,}.", f"step {last:,}{of_seed}{twin}"


def summarise_training(rows: pd.DataFrame) -> dict[str, str]:
    """The findings about a training by topic, for each of its stacks."""
    stacks = [str(stack) for stack in rows.loc[rows["kind"].eq("attention") | rows["kind"].eq("hidden"), "stack"].dropna().unique()]
    sentences: dict[str, str] = {}
    for stack in stacks:
        own = rows[rows["stack"].eq(stack)]
        answers = {
            "Anisotropy": describe_change(own, "between_cosine_change", "mean cosine of pairs from different items"),
            "Drift": describe_change(own, "drift_ratio_change", "drift ratio"),
            "Dominant direction": describe_change(own, "top_share_change", "top share"),
            "Sharpness": describe_change(own, "attention_entropy_change", "entropy of attention"),
            "Queries and keys": describe_directions(own),
            "Beyond chance": describe_alignment(own),
            "Heads shown": describe_drawn_heads(own),
            "Which comes first": describe_verdict(own, "precedence"),
            "Opposite directions": describe_verdict(own, "opposite_later"),
            "Intrinsic dimension": describe_rise_and_fall(own),
        }
        sentences |= {topic if len(stacks) == 1 else f"{topic}, {stack}": answer for topic, answer in answers.items() if answer}
    return sentences


def describe_change(rows: pd.DataFrame, metric: str, name: str) -> str | None:
    """The layers in which a number clearly rose or fell from the first step to the last, and the largest change."""
    own = rows[rows["metric"].eq(metric) & rows["value"].notna()]
    layers = own[own["layer"].notna()]
    if layers.empty:
        return None
    directions = layers["spec"].map(read_verdict)
    up, down = layers[directions.eq("up")], layers[directions.eq("down")]
    most = layers.iloc[int(layers["value"].abs().to_numpy(float).argmax())]
    parts = [f"{verb} in {_name_layers(rows)}" for verb, rows in (("rises", up), ("falls", down)) if len(rows)]
    where = f"{format_list(parts) or 'changes in no layer'} (of {len(layers)}), most in layer {most['layer']}"
    mean = own[own["layer"].isna()]
    on_average = f"; on average over layers {_signed_estimate(mean.iloc[0])}" if len(mean) else ""
    return f"From the first step to the last the {name} clearly {where}: {_signed_estimate(most)}{on_average}."


def describe_directions(rows: pd.DataFrame) -> str | None:
    """The layers with heads whose means end in the same direction, and those in opposite directions."""
    parts = []
    for metric, words in (("same_direction_heads", "the same direction"), ("opposite_direction_heads", "opposite directions")):
        own = rows[rows["metric"].eq(metric) & rows["value"].notna() & rows["layer"].notna()]
        if own.empty:
            return None
        beyond, top = own[own["value"] > 0], greatest(own)
        most = f", most in layer {top['layer']} ({format_share(float(top['value']))} of heads)" if len(beyond) else ""
        parts.append(f"{words} in {_name_layers(beyond)}{most}")
    level = rows.loc[rows["metric"].eq("qk_chance"), "value"]
    against = f" beyond chance (|cosine| above {format_number(float(level.iloc[0]))}, Bonferroni over heads)" if len(level) else ""
    return f"At the last step heads have mean queries and mean keys{against} in {'; in '.join(parts)}."


def describe_alignment(rows: pd.DataFrame) -> str | None:
    """Whether the means of a head align more than those of different heads, and more than at the start, layer by layer."""
    own = rows[rows["metric"].eq("alignment_change") & rows["layer"].notna() & rows["value"].notna()]
    if own.empty:
        return None
    tested = rows[rows["metric"].eq("alignment_p") & rows["layer"].isna() & rows["value"].notna()].sort_values("step")
    together = f" All layers at once at the last step: {format_p_value(float(tested['value'].iloc[-1]))}." if len(tested) else ""
    return (
        "Does the cosine of a head’s own means exceed that of different heads of its layer (Holm over layers), and its own at the first "
        f"step in every seed? This {_by_verdict(own)}.{together}"
    )


def describe_drawn_heads(rows: pd.DataFrame) -> str | None:
    """The two heads that are drawn, and the rule by which they are chosen."""
    parts = []
    for metric, words in (("same_direction", "the same direction"), ("opposite_direction", "opposite directions")):
        own = rows[rows["metric"].eq(metric) & rows["head"].notna()]
        for row in own.to_dict("records"):
            rule = f" ({reason})" if (reason := note_of(row["spec"])) else ""
            parts.append(f"in {words} head {row['head']} of layer {row['layer']}, cosine {format_number(float(row['value']))}{rule}")
        parts += [f"in {words} none, because no head ends that way"] if own.empty else []
    are_known = rows["metric"].isin(["same_direction", "opposite_direction"]).any()
    return f"Figures of single heads show {'; '.join(parts)}." if are_known else None


def describe_verdict(rows: pd.DataFrame, metric: str) -> str | None:
    """The verdict of a row with its number and note; the row of all seeds if there are several."""
    own = rows[rows["metric"].eq(metric) & rows["value"].notna()].sort_values("seed", na_position="first")
    if own.empty:
        return None
    row = own.iloc[0]
    word = read_verdict(row["spec"])
    return f"{word[:1].upper()}{word[1:]}: {format_number(float(row['value']))}{interval_of(row)}, {note_of(row['spec'])}."


def describe_rise_and_fall(rows: pd.DataFrame) -> str | None:
    """Whether the intrinsic dimension rises and then falls, on average over blocks and by layer."""
    own = rows[rows["metric"].eq("rise_then_fall") & rows["value"].notna()]
    layers, stack = own[own["layer"].notna()], own[own["layer"].isna()]
    if own.empty:
        return None
    mean = f" On average over blocks: {read_verdict(stack['spec'].iloc[0])} ({note_of(stack['spec'].iloc[0])})" if len(stack) else ""
    each = f"{'; by' if mean else ' By'} layer this {_by_verdict(layers)}" if len(layers) else ""
    values = rows[rows["metric"].eq("two_nn") & rows["kind"].eq("hidden") & rows["layer"].notna()]
    values = values[values["policy"].eq(own["policy"].iloc[0])]
    reach = ""
    if len(values):
        low, high = least(values), greatest(values)
        reach = f" It lies between {format_number(float(low['value']))} (layer {low['layer']}, step {low['step']:,})"
        reach += f" and {format_number(float(high['value']))} (layer {high['layer']}, step {high['step']:,})."
    return f"Does it rise and then fall?{mean}{each}.{reach}"


def rows_on_page(table: pd.DataFrame, series: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows and points that the page embeds, which is everything unless there are trainings.

    A training of thirty checkpoints with all metrics would outweigh the rest of the page, so only its shown checkpoint is complete.
    For the others the page holds the metrics that are drawn over steps, under the first token policy. All derived numbers are included.
    """
    if not list_suites(table):
        return table, series
    shown_rows, shown_points = (frame.index for frame in select_one_checkpoint(table, series))
    drawn = pd.Series(False, index=table.index)
    for kind, metrics in EMBEDDED.items():
        drawn |= table["kind"].eq(kind) & table["metric"].isin(list(metrics)) & table["layer"].notna()
    drawn &= table["policy"].eq(list_policies(table)[0])
    measured = registry.names()
    embedded = table.index.isin(shown_rows) | drawn | ~table["metric"].isin(measured)
    derived = select_first_seed(series[~series["name"].isin(measured)])
    # Clouds are the bulk of derived points, and figures draw them at a few steps only.
    clouds = derived[derived["name"].str.startswith("cloud_in")]
    drawn_steps = clouds.groupby("model")["step"].transform(lambda steps: steps.isin(pick_evenly(steps, CLOUD_STEPS)))
    derived = derived.drop(clouds.index[~drawn_steps.astype(bool)])
    of_heads = [head.select(derived).index for head in shown_heads(table)]
    points = [shown_points, derived.index[derived["head"].isna()], *of_heads]
    return table[embedded], series[series.index.isin([label for labels in points for label in labels])]


def derived_meaning(name: str) -> str | None:
    """The meaning of a derived number or series; None for any other.

    >>> derived_meaning("top_share_change"), derived_meaning("output_norm_change"), derived_meaning("mean_cosine")
    ('The number at the last step of a training minus that at the first.', None, None)
    """
    begins = name.partition("_in_")[0] + "_in" if "_in_" in name else name.partition("_along_")[0] + "_along"
    # Other studies have numbers that end in `_change` too, with other meanings.
    is_change = name.removesuffix("_change") in {metric for _, metric in CHANGES} and name.endswith("_change")
    for key in (name, begins, "_change" if is_change else ""):
        if key in MEANINGS:
            return MEANINGS[key]
    return None


def note_of(spec: object) -> str:
    """The note of a row."""
    return str(parse_object(spec).get("note", ""))


def _by_verdict(rows: pd.DataFrame) -> str:
    """Layers by verdict: "holds in layers 0–2, is undecided in layer 3"."""
    outcomes = rows["spec"].map(read_verdict)
    words = {"holds": "holds", "fails": "fails", "undecided": "is undecided"}
    return ", ".join(f"{words[word]} in {_name_layers(rows[outcomes.eq(word)])}" for word in VERDICTS if outcomes.eq(word).any())


def _name_layers(rows: pd.DataFrame) -> str:
    return format_numbered("layer", [int(layer) for layer in rows["layer"]])


def _signed_estimate(row: pd.Series) -> str:
    change = format_change(float(row["value"]))
    return change if change == "0" else f"{change}{interval_of(row)}"
