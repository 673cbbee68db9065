"""Steps and seeds in the names of checkpoints, and patterns of names."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.checkpoint_names import (
    Member,
    Pattern,
    find_members,
    is_training_subfolder,
    match_paths,
    pattern_name,
    seed_in,
    step_in,
)


@pytest.mark.parametrize(
    ("name", "step"), [("step100", 100), ("global_step12", 12), ("iter-5", 5), ("epoch=3", None), ("footstep-3x", None), ("ckpt_9", 9)]
)
def test_steps_in_names(name, step):
    assert step_in(name) == (None if step is None else (step, step))


def test_a_step_in_thousands_is_written_and_counted():
    assert step_in("step_20k") == (20, 20_000)
    assert Pattern("a-step_{step}k").fill(20, None) == Member("a-step_20k", 20, 20_000, None)
    assert Pattern("a-step_{step}").fill(20, None) == Member("a-step_20", 20, 20, None)


@pytest.mark.parametrize(
    ("name", "seed"), [("seed7", 7), ("run.seed=12", 12), ("a-seed_0-step_20k", 0), ("reseed-3", None), ("seed-", None)]
)
def test_seeds_in_names(name, seed):
    assert seed_in(name) == seed


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("m-{seed}-step{step}k", "m-3-step20k", Member("m-3-step20k", 20, 20_000, 3)),
        ("m-{seed}-step{step}k", "m-3-step20", None),
        ("*{seed}-step{step}", "run12-step5", Member("run12-step5", 5, 5, 12)),  # the star takes no digit of the seed
        ("a.b/{step}", "axb/5", None),  # a dot stands for itself
        ("a/*/{step}", "a/b/c/5", None),  # a star stays within a folder
    ],
)
def test_names_that_a_pattern_matches(text, name, expected):
    assert Pattern(text).match(name) == expected


def test_a_pattern_s_prefix_ends_at_its_first_field_or_star():
    assert Pattern("org/name@step{step}").prefix == "org/name@step"
    assert Pattern("org/*-{step}").prefix == "org/"
    assert Pattern("org/*-{step}").has_wildcard
    assert not Pattern("org/*-{step}").has_seeds
    assert pattern_name(Pattern("/data/mine/checkpoint-{step}")) == "mine"


@pytest.mark.parametrize("text", ["org/name", "org/{step}-{step}", "org/{step}-{seed}-{seed}", "org/{step}-{name}"])
def test_patterns_without_exactly_one_step_are_refused(text):
    with pytest.raises(IsoscopeError, match="A pattern of checkpoints has"):
        Pattern(text)


def test_only_folders_of_seeds_and_of_lightning_lie_between_a_training_and_its_checkpoints(tmp_path):
    names = ("seed-3", "lightning_logs", "version_12", "checkpoints", "logs", "version_x")
    assert [is_training_subfolder(tmp_path / name) for name in names] == [True] * 4 + [False] * 2


def test_the_nearest_seed_counts_and_files_that_are_no_weights_do_not(tmp_path):
    for path in ("seed-1/step-5", "seed-1/seed-2/step-6", "tmp-step-7", "notes/step-8"):
        (tmp_path / path).mkdir(parents=True)
    for path in ("step_9.pt", "step_10.txt", "seed-1/step_11-seed-4.ckpt"):
        (tmp_path / path).write_bytes(b"")
    members = {(member.seed, member.step) for member in find_members(tmp_path)}
    assert members == {(1, 5), (2, 6), (None, 9), (4, 11)}


def test_paths_of_a_pattern_are_in_order_and_none_without_a_folder(tmp_path):
    for step in (5, 10):
        (tmp_path / f"step_{step}.pt").write_bytes(b"")
    members = match_paths(Pattern(f"{tmp_path}/step_{{step}}.pt"))
    assert sorted(member.step for member in members) == [5, 10]
    assert match_paths(Pattern(f"{tmp_path}/none/step_{{step}}.pt")) == []
