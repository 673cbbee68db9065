"""Numbers over steps: which seed is drawn strong, and the range over seeds."""

import pandas as pd

from isoscope.studies.training_dynamics.step_charts import add_seed_look, seed_range, suite_title

ROWS = pd.DataFrame(
    [
        {"model": "toy", "seed": seed, "step": step, "layer": 1, "policy": "all", "value": float(10 * seed + step)}
        for seed, steps in {0: (0, 1, 2, 3, 4), 1: (0, 2, 4), 2: (0, 4)}.items()
        for step in steps
    ]
)


def test_the_first_seed_is_strong_and_a_seed_with_few_steps_has_points_alone():
    looks = add_seed_look(ROWS).groupby("seed")["look"].unique().map(list).to_dict()
    assert looks == {0: ["strong"], 1: ["thin"], 2: ["points"]}


def test_the_range_is_over_the_seeds_that_have_the_step():
    ranges = seed_range(ROWS, "layer").set_index("step")[["least", "greatest", "count"]]
    assert ranges.to_dict("index") == {
        0: {"least": 0.0, "greatest": 20.0, "count": 3},
        2: {"least": 2.0, "greatest": 12.0, "count": 2},
        4: {"least": 4.0, "greatest": 24.0, "count": 3},
    }


def test_a_title_names_the_suite_only_if_there_are_several():
    assert suite_title("a", "layer 1", pd.DataFrame({"line": ["a", "a"]})) == ["layer 1"]
    assert suite_title("a", "layer 1", pd.DataFrame({"line": ["a", "b"]})) == ["a", "layer 1"]
