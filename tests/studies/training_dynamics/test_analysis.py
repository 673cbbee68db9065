"""The dynamics of a small Transformer that really trains: from merged statistics as from all vectors held in memory."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as t

from isoscope.core.errors import IsoscopeError
from isoscope.core.progress import Progress
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables
from isoscope.estimation.isotropic_quantiles import head_threshold
from isoscope.measuring.cell import measure_model
from isoscope.measuring.options import Options
from isoscope.measuring.task import cell_identity
from isoscope.models.naming.model_name import resolve_model
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of
from isoscope.sources import open_source
from isoscope.studies.training_dynamics.analysis import derived_cells, dynamics, suites
from tests.conftest import word_tokenizer
from tests.runs.packing import pack, write_made_cell

STEPS = (0, 3, 9)
SEEDS = {"bert": (0, 1), "gpt2": (0,)}
LAYERS, HEADS, WIDTH = 2, 3, 8
MADE = {"bert": t.BertForMaskedLM, "gpt2": t.GPT2LMHeadModel}
CONFIGS = {
    "bert": lambda: t.BertConfig(
        vocab_size=80, hidden_size=24, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=32, max_position_embeddings=64
    ),
    "gpt2": lambda: t.GPT2Config(vocab_size=80, n_embd=24, n_layer=LAYERS, n_head=HEADS, n_positions=64, bos_token_id=2, eos_token_id=3),
}


def trained(folder, kind, seed):
    """Checkpoints of a few steps of training, large enough to move queries and keys."""
    torch.manual_seed(seed)
    model = MADE[kind](CONFIGS[kind]()).eval()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
    for step in range(max(STEPS) + 1):
        if step in STEPS:
            where = folder / f"seed-{seed}" / f"step-{step}"
            model.save_pretrained(where)
            word_tokenizer(where, around=kind == "bert")
        ids = torch.randint(5, 60, (8, 24), generator=torch.Generator().manual_seed(1000 * seed + step))
        ids[:, 1::2] = ids[:, ::2]
        loss = model(input_ids=ids, labels=ids).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("suites")
    for kind in MADE:
        for seed in SEEDS[kind]:
            trained(made / kind, kind, seed)
    return made


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, texts):
    """Forty paragraphs, each short enough to be one piece."""
    path = tmp_path_factory.mktemp("corpus") / "short.txt"
    paragraphs = [part for part in texts.read_text("utf-8").split("\n\n") if 3 < len(part.split()) < 50]
    path.write_text("\n\n".join(f"{part} {i % 10}" for i, part in enumerate(paragraphs[:40])), "utf-8")
    return path


@pytest.fixture(scope="module")
def measured(tmp_path_factory, folder, corpus):
    """The checkpoints of both suites, measured as a sweep does."""
    chosen, source, run = (
        Options(taps=("hidden", "attention"), sample=512, batch_size=1),  # as in `held`: some processors round by the shape of a batch
        open_source(str(corpus), None, "text"),
        Run(tmp_path_factory.mktemp("run")),
    )
    run.prepare()
    for kind, seeds in SEEDS.items():
        for seed, step in product(seeds, STEPS):
            reference = resolve_model(str(folder / kind / f"seed-{seed}" / f"step-{step}"))
            checkpoint = replace(reference, name=kind, step=step, seed=seed)
            identity = cell_identity(checkpoint, source, chosen)
            measure_model(run, checkpoint, source, chosen, Progress(quiet=True), identity=identity)
    return run


@pytest.fixture(scope="module")
def run(measured, tmp_path_factory):
    return dynamics(copied(measured, tmp_path_factory.mktemp("derived")), centred=True)


@pytest.fixture(scope="module")
def table(run):
    """Every row of the run, as it is stored."""
    return concat_tables([cell.rows() for cell in run.run.cells()], TABLE_COLUMNS)


@pytest.fixture(scope="module")
def curves(run):
    return concat_tables([cell.series() for cell in derived_cells(run)], SERIES_COLUMNS)


def copied(measured, to, model=None, steps=STEPS, *, seeds=(0, 1), statistics=True, **identity):
    """Some of the measured cells in another run: all of what they kept or only rows, and as if other options had been asked for."""
    target = Run(to)
    for cell in measured.cells():
        manifest = {name: value for name, value in cell.manifest.items() if name not in ("format", "key", "files")}
        columns = manifest["columns"]
        if (model and columns["model"] != model) or columns["step"] not in steps or columns["seed"] not in seeds:
            continue
        manifest |= {"identity": manifest["identity"] | identity, "keep": "all" if statistics else "rows"}
        arrays = pack(cell.statistics()).items if statistics else None
        write_made_cell(target, key_of(manifest["identity"]), manifest, cell.rows(), cell.series(), arrays)
    return target.path


def held(folder, kind, seed, step, corpus):
    """Every query and key (layers, heads, n, e), by hooks on the model's own projections, one text at a time."""
    where = folder / kind / f"seed-{seed}" / f"step-{step}"
    tokenizer, model = t.AutoTokenizer.from_pretrained(where), MADE[kind].from_pretrained(where).eval()
    caught = {"query": [[] for _ in range(LAYERS)], "key": [[] for _ in range(LAYERS)]}
    hooks = []
    for i in range(LAYERS):
        if kind == "bert":
            attention = model.bert.encoder.layer[i].attention.self
            for name in caught:
                hooks.append(getattr(attention, name).register_forward_hook(lambda m, a, out, n=name, i=i: caught[n][i].append(out[0])))
        else:

            def take(m, a, out, i=i):
                for name, part in zip(("query", "key"), out[0].split(HEADS * WIDTH, dim=-1)[:2], strict=True):
                    caught[name][i].append(part)

            hooks.append(model.transformer.h[i].attn.c_attn.register_forward_hook(take))
    with torch.inference_mode():
        for text in corpus.read_text("utf-8").split("\n\n"):
            model(**tokenizer(text, return_tensors="pt"))
    for hook in hooks:
        hook.remove()
    return {
        name: np.stack([torch.cat(parts).double().numpy().reshape(-1, HEADS, WIDTH).transpose(1, 0, 2) for parts in layers])
        for name, layers in caught.items()
    }


@pytest.fixture(scope="module")
def everything(folder, corpus):
    """All vectors of a suite held in memory: {(kind, seed, step): {"query": …, "key": …}}."""
    return {(kind, seed, step): held(folder, kind, seed, step, corpus) for kind in MADE for seed in SEEDS[kind] for step in STEPS}


def rows(table, model, metric):
    return table[table["model"].eq(model) & table["metric"].eq(metric)]


def series(curves, model, name):
    return curves[curves["name"].eq(name) & curves["model"].eq(model)]


@pytest.mark.parametrize("kind", list(MADE))
@pytest.mark.parametrize("centred", [False, True], ids=["uncentred", "centred"])
@pytest.mark.parametrize("of", ["union", "query", "key"])
def test_trajectories_are_those_of_all_vectors_held_in_memory(curves, everything, kind, of, centred):
    """Coordinates of every mean on the axes that numpy's SVD of all concat_tables vectors gives, up to one sign an axis."""
    end = "_centred" if centred else ""
    along, plane = series(curves, kind, f"mean_along_{of}{end}"), series(curves, kind, f"mean_in_{of}{end}")
    assert len(along) == len(SEEDS[kind]) * LAYERS * HEADS * len(STEPS) * 2 * WIDTH
    for seed in SEEDS[kind]:
        own = along[along["seed"] == seed].sort_values(["layer", "head", "x", "kind", "step"])
        shape = (LAYERS, HEADS, WIDTH, 2, len(STEPS))
        ours, parts = own["y"].to_numpy().reshape(shape), own["weight"].to_numpy().reshape(shape)
        pair = plane[plane["seed"] == seed].sort_values(["layer", "head", "kind", "step"])[["x", "y", "weight"]].to_numpy()
        for layer in range(LAYERS):
            for head in range(HEADS):
                q, k = ([everything[kind, seed, step][name][layer, head] for step in STEPS] for name in ("query", "key"))
                stack = np.concatenate({"union": q + k, "query": q, "key": k}[of])
                centre = stack.mean(0) if centred else np.zeros(WIDTH)
                _, s, vt = np.linalg.svd(stack - centre, full_matrices=False)
                theirs = np.array([[(x.mean(0) - centre) @ vt.T for x in side] for side in (k, q)])  # kinds in the order of their names
                sign = np.where(np.concatenate(q).mean(0) @ vt.T < 0, -1, 1)
                np.testing.assert_allclose(
                    ours[layer, head], (theirs * sign).transpose(2, 0, 1), atol=1e-6 * s[0] / len(stack) ** 0.5 + 1e-6
                )
                np.testing.assert_allclose(parts[layer, head, :, 0, 0], s**2 / (s**2).sum(), atol=1e-6)
        first = ours[:, :, :2].transpose(0, 1, 3, 4, 2).reshape(-1, 2)
        np.testing.assert_allclose(pair[:, :2], first, atol=1e-12)
        np.testing.assert_allclose(pair[:, 2], np.broadcast_to(parts[:, :, :2].sum(2), shape[:2] + shape[3:]).ravel(), atol=1e-12)


@pytest.mark.parametrize("kind", list(MADE))
def test_alignment_is_that_of_all_vectors(table, everything, kind):
    found = rows(table, kind, "alignment").set_index(["layer", "seed", "step"])
    cosines, joined = rows(table, kind, "qk_cosine"), rows(table, kind, "qk_cosine_joined").set_index(["layer", "seed", "step"])
    cosines = cosines[cosines["policy"].eq("all") & cosines["head"].notna()].set_index(["layer", "head", "seed", "step"])
    first = min(layer for layer, _, _ in found.index)
    for (_, seed, step), vectors in ((key, value) for key, value in everything.items() if key[0] == kind):
        for layer in range(LAYERS):
            q, k = vectors["query"][layer].mean(1), vectors["key"][layer].mean(1)
            squares = (q @ k.T) ** 2 / np.outer((q**2).sum(1), (k**2).sum(1))
            one = found.loc[(layer + first, seed, step)]
            assert one["value"] == pytest.approx(np.trace(squares) / HEADS, abs=1e-6)
            assert one["null"] == pytest.approx((squares.sum() - np.trace(squares)) / HEADS / (HEADS - 1), abs=1e-6)
            assert one["low"] <= one["value"] <= one["high"]
            long = joined.loc[(layer + first, seed, step)]
            assert long["value"] == pytest.approx((q * k).sum() / np.linalg.norm(q) / np.linalg.norm(k), abs=1e-6)
            assert long["low"] < long["value"] < long["high"]
            for head in range(HEADS):
                own = q[head] @ k[head] / np.linalg.norm(q[head]) / np.linalg.norm(k[head])
                assert cosines.loc[(layer + first, head, seed, step), "value"] == pytest.approx(own, abs=1e-6)


def test_p_values_and_verdicts_of_alignment(table):
    for kind in MADE:
        p = rows(table, kind, "alignment_p")
        assert len(p) == len(STEPS) * (LAYERS + 1)
        assert p["value"].between(1e-4, 1).all()
        for spec, value, layer in p[["spec", "value", "layer"]].itertuples(index=False):
            if not pd.isna(layer):
                assert value >= float(json.loads(spec)["note"].split()[2]) - 1e-3
        change = rows(table, kind, "alignment_change")
        assert len(change) == LAYERS
        t_by = rows(table, kind, "alignment").pivot_table(index=["layer", "seed"], columns="step", values="value")
        moved = (t_by[STEPS[-1]] - t_by[0]).groupby("layer").mean()
        np.testing.assert_allclose(change.sort_values("layer")["value"], moved, atol=1e-12)
        assert {json.loads(spec)["verdict"] for spec in change["spec"]} <= {"holds", "fails", "undecided"}
        assert len(rows(table, kind, "alignment_shuffled")) == LAYERS


@pytest.mark.parametrize("kind", list(MADE))
def test_the_chosen_heads_are_the_extremes_and_their_clouds_are_there(table, curves, everything, kind):
    last = rows(table, kind, "qk_cosine")
    last = last[last["policy"].eq("all") & last["step"].eq(STEPS[-1]) & last["seed"].eq(0) & last["head"].notna()]
    for metric, best in (("same_direction", last["value"].idxmax()), ("opposite_direction", last["value"].idxmin())):
        chosen = rows(table, kind, metric).iloc[0]
        assert (chosen["layer"], chosen["head"], chosen["value"]) == tuple(last.loc[best, ["layer", "head", "value"]])
        assert "at the last step" in json.loads(chosen["spec"])["note"]
        cloud = series(curves, kind, "cloud_in_union")
        own = cloud[cloud["layer"].eq(chosen["layer"]) & cloud["head"].eq(chosen["head"])]
        assert own.groupby(["step", "kind"]).size().eq(64).all()
        assert set(own["step"]) == set(STEPS)
        layer, head = int(chosen["layer"] - last["layer"].min()), int(chosen["head"])
        for name in ("query", "key"):
            longest = max(np.linalg.norm(everything[kind, 0, step][name][layer, head], axis=1).max() for step in STEPS)
            points = own[own["kind"] == name]
            assert 0.3 * longest < np.hypot(points["x"], points["y"]).max() <= longest + 1e-5
    level = rows(table, kind, "qk_chance").iloc[0]
    assert level["value"] == pytest.approx(head_threshold(WIDTH, LAYERS * HEADS))


@pytest.mark.parametrize("kind", list(MADE))
def test_onsets_changes_and_precedence_have_rows(table, kind):
    for name, kinds, count in (("onset_drift", ("query", "key"), 2 * LAYERS * HEADS), ("onset_sharpening", ("attention",), LAYERS * HEADS)):
        found = rows(table, kind, name)
        found = found[found["kind"].isin(kinds)]
        assert len(found) == count
        assert found["value"].dropna().between(min(STEPS[1:]), max(STEPS)).all()
        assert found["value"].notna().any()
    first = rows(table, kind, "precedence")
    assert len(first) == (1 + len(SEEDS[kind]) if len(SEEDS[kind]) > 1 else 1)
    assert first["value"].dropna().between(0, 1).all()
    assert len(rows(table, kind, "opposite_later")) == 1
    cosine = rows(table, kind, "between_cosine")
    cosine = cosine[cosine["policy"].eq("all") & cosine["kind"].eq("hidden") & cosine["layer"].gt(0)]
    wide = cosine.pivot_table(index=["seed", "layer"], columns="step", values="value")
    moved = wide[STEPS[-1]] - wide[0]
    change = rows(table, kind, "between_cosine_change")
    by_layer = change[change["layer"].gt(0).fillna(False)].sort_values("layer")
    np.testing.assert_allclose(by_layer["value"], moved.groupby("layer").mean(), atol=1e-12)
    assert change[change["layer"].isna()]["value"].item() == pytest.approx(moved.mean())
    assert (change["low"] <= change["value"]).all()


def test_the_dimension_over_training_has_rows_and_curves(table, curves):
    for kind in MADE:
        rise, fall, peak = (rows(table, kind, f"dimension_{name}") for name in ("rise", "fall", "peak_step"))
        assert len(rise) == len(fall) == len(peak) == len(SEEDS[kind]) * (LAYERS + 2)  # the state that enters, each block, their mean
        assert peak["value"].isin(STEPS).all()
        curve = series(curves, kind, "dimension_judged").set_index(["seed", "layer", "step"])["y"]
        for seed, layer, value, step in zip(rise["seed"], rise["layer"], rise["value"], peak["value"], strict=True):
            if not pd.isna(layer):
                assert value == pytest.approx(curve[seed, layer, step] - curve[seed, layer, 0])
        assert {json.loads(spec)["verdict"] for spec in rows(table, kind, "rise_then_fall")["spec"]} == {"undecided"}
        assert len(series(curves, kind, "dimension_gaussian")) == len(curve)


def test_a_suite_that_grows_replaces_what_was_derived_of_it(tmp_path, measured):
    copied(measured, tmp_path, "bert", STEPS[:2], statistics=False)
    first = derived_cells(dynamics(tmp_path))
    assert [cell.manifest["identity"]["model"] for cell in first] == ["bert"]
    made = [cell.manifest["created"] for cell in first]
    assert [cell.manifest["created"] for cell in derived_cells(dynamics(tmp_path))] == made
    copied(measured, tmp_path, "bert", STEPS[2:], statistics=False)
    (last,) = derived_cells(dynamics(tmp_path))
    assert len(last.manifest["identity"]["cells"]) == len(STEPS) * len(SEEDS["bert"])
    assert not first[0].folder.exists()


def test_rows_alone_give_what_can_be_said_from_rows(tmp_path, measured):
    copied(measured, tmp_path, "gpt2", statistics=False)
    found = {name for cell in derived_cells(dynamics(tmp_path)) for name in cell.rows()["metric"]}
    assert {"onset_drift", "onset_sharpening", "precedence", "between_cosine_change", "same_direction"} <= found
    assert not {"alignment", "dimension_rise"} & found


def test_seeds_with_first_and_last_step_alone_count_where_they_can(tmp_path, measured):
    """Changes are over both seeds, what needs the steps between over one."""
    copied(measured, tmp_path, "bert", seeds=(0,), statistics=False)
    copied(measured, tmp_path, "bert", (STEPS[0], STEPS[-1]), seeds=(1,), statistics=False)
    found = concat_tables([cell.rows() for cell in derived_cells(dynamics(tmp_path))], TABLE_COLUMNS)
    assert set(found[found["metric"].eq("between_cosine_change")]["n"]) == {2}
    assert set(found[found["metric"].eq("onset_drift")]["n"]) == {1}


def test_cells_measured_differently_are_different_suites(tmp_path, measured):
    copied(measured, tmp_path, "gpt2", STEPS[:2], statistics=False)
    copied(measured, tmp_path, "gpt2", STEPS[:2], statistics=False, max_tokens=300)
    assert [[one.step for one in suite] for suite in suites(Run(tmp_path))] == [[*STEPS[:2]]] * 2


def test_a_run_without_a_suite_is_refused(tmp_path, measured):
    copied(measured, tmp_path, "bert", STEPS[:1], statistics=False)
    with pytest.raises(IsoscopeError, match="two steps or more"):
        dynamics(tmp_path)


def test_an_unknown_policy_is_refused(tmp_path, measured):
    copied(measured, tmp_path, "gpt2", statistics=False)
    with pytest.raises(IsoscopeError, match=r"has no policy 'bodi'.*did you mean body"):
        dynamics(tmp_path, policy="bodi")
    assert {cell.rows()["policy"].unique().item() for cell in derived_cells(dynamics(tmp_path, policy="body"))} == {"body"}


def test_the_command_line_prints_the_findings(run):
    from typer.testing import CliRunner

    from isoscope.cli.app import app

    done = CliRunner().invoke(app, ["dynamics", str(run.path), "--centred"])
    assert done.exit_code == 0, done.output
    for words in (
        "bert · encoder",
        "gpt2 · decoder",
        "queries and keys",
        "Queries and keys: At the last step",
        "entropy of attention",
        "Does it rise and then fall?",
        "Which comes first: ",
    ):
        assert words in done.output
    assert "in  of" not in done.output
    assert "p = nan" not in done.output
    done = CliRunner().invoke(app, ["dynamics", str(run.path), "--centred", "--json"])
    assert {row["model"] for row in json.loads(done.stdout)} == {"bert", "gpt2"}
