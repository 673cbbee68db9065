"""isoscope untrained-block: what a user types, and what comes back."""

import json

import pytest

from tests.cli.calling import isoscope

TINY = ("--d", 32, "--heads", 4, "--length", 16, "--batch", 2, "--vocabulary", 40, "--draws", 2, "--norms", "0,2,5,6", "--threads", 1, "-q")


@pytest.fixture(scope="module")
def block_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("block") / "run"
    isoscope("untrained-block", *TINY, "--variant", "full,mlp-only", "--norm", "post,pre", "--depth", "1,2", "--out", out).worked()
    return out


def test_numbers_and_verdicts_are_printed(tmp_path):
    answer = isoscope("untrained-block", *TINY, "--out", tmp_path / "run").worked()
    assert answer.out.startswith("block bert post-LN, d = 32\n  N*, mean of norms: 5.66")
    assert "not a property of the block: its last norm makes every output 5.66 long" in answer.out
    assert answer.out.rstrip().endswith(str(tmp_path / "run"))


def test_json_holds_every_number_once(block_run):
    words = ("--variant", "full,mlp-only", "--norm", "post,pre", "--depth", "1,2", "--out", block_run, "--json")
    found = json.loads(isoscope("untrained-block", *TINY, *words).worked().out)
    rows = [(row["model"], row["layer"], row["metric"]) for row in found["numbers"]]
    assert len(rows) == len(set(rows))
    assert {row[0] for row in rows} == {
        "block bert post-LN, d = 32",
        "block bert pre-LN, d = 32",
        "block bert post-LN, mlp only, d = 32",
        "block bert post-LN, 2 blocks, d = 32",
        "block bert pre-LN, 2 blocks, d = 32",
    }


def test_every_depth_has_a_line_that_says_after_which_block(tmp_path):
    lines = isoscope("untrained-block", *TINY, "--depth", "1,2,3", "--out", tmp_path / "run").worked().out.splitlines()
    assert [line for line in lines if line.startswith("block")] == [
        "block bert post-LN, d = 32",
        "block bert post-LN, 3 blocks, d = 32, after block 2",
        "block bert post-LN, 3 blocks, d = 32, after block 3",
    ]


def test_what_is_there_is_not_computed_again(block_run):
    before = {path: path.stat().st_mtime_ns for path in block_run.rglob("*") if path.is_file()}
    words = [word for word in TINY if word != "-q"]
    answer = isoscope("untrained-block", *words, "--norm", "pre", "--out", block_run).worked()
    assert "block bert pre-LN: already measured." in answer.err
    assert {path: path.stat().st_mtime_ns for path in block_run.rglob("*") if path.is_file()} == before


def test_a_grid_has_fewer_sequences_for_all_but_the_papers_own(tmp_path):
    words = [word for pair in zip(TINY[::2], TINY[1::2], strict=False) for word in pair if pair[0] != "--batch"]
    isoscope("untrained-block", *words, "-q", "--norm", "post,pre", "--out", tmp_path / "run").worked()
    batches = {cell["columns"]["model"]: cell["identity"]["sizes"]["batch"] for cell in manifests(tmp_path / "run")}
    assert batches == {"block bert post-LN, d = 32": 16, "block bert pre-LN, d = 32": 4}


def manifests(run):
    return [json.loads(path.read_text()) for path in (run / "cells").glob("*/manifest.json")]


def test_the_run_has_a_table_and_a_page_that_names_the_fixed_point(block_run, tmp_path):
    lines = isoscope("table", block_run).worked().out.splitlines()
    assert any("norm_fixed_point" in line for line in lines)
    assert "block_cosine" in isoscope("table", block_run, "--series").worked().out
    isoscope("report", block_run, "--out", tmp_path / "page.html").worked()
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "An untrained block: norms of its input and output" in page
    assert "by the mean of norms N* = 5.6" in page
    assert "its last norm makes every output 5.66 long" in page
    assert "Not defined in this installation" not in page


def test_a_trained_model_is_held_against(bert, tmp_path):
    answer = isoscope("untrained-block", *TINY, "--out", tmp_path / "run", "--trained", bert).worked()
    assert "small-bert, trained: mean norms of its layers" in answer.out
    again = isoscope("untrained-block", *TINY, "--out", tmp_path / "other", "--trained", tmp_path / "run" / "trained").worked()
    assert again.out.splitlines()[-2] == answer.out.splitlines()[-2]


def test_an_architecture_by_type_and_by_folder(gpt2, tmp_path):
    words = [
        word for pair in zip(TINY[::2], TINY[1::2], strict=False) for word in pair if pair[0] not in ("--d", "--heads", "--vocabulary")
    ]
    answer = isoscope("untrained-block", *words, "-q", "--arch", gpt2, "--out", tmp_path / "run").worked()
    assert answer.out.startswith("block small-gpt2\n")
    assert "cosine of queries" in answer.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--norms", "0,-1"), "--norms must be lengths, 0 or above; got -1"),
        (("--norms", "0,x"), "--norms takes numbers separated by commas"),
        (("--init", "brt"), "did you mean bert?"),
        (("--init", ""), "--init takes bert"),
        (("--norm", "layernorm"), "--norm takes post, pre, rms"),
        (("--variant", "mlp"), "did you mean mlp-only?"),
        (("--depth", "0"), "--depth counts blocks, from 1 on; got 0"),
        (("--depth", "two"), "--depth takes numbers and ranges"),
        (("--arch", "gpt3"), "a type that transformers knows"),
        (("--arch", "gpt2", "--init", "torch"), "are options of the plain block"),
        (("--heads", 5), "--d must be a multiple of --heads; got 32 and 5"),
        (("--draws", 0), "--draws must be at least 1"),
        (("--batch", 0), "--batch must be at least 1"),
        (("--threads", 0), "--threads must be at least 1"),
        (("--threads", 99999999), "--threads must be at most 4,096; got 99,999,999"),
        (("--seed", -1), "--seed must be at least 0; got -1"),
        (("--depth", 999999999), "--depth must be at most 4,096; got 999,999,999"),
        (("--length", 99999999999), "block bert post-LN of 32 dimensions would take 23,841 GB, and"),
        (("--query-rows", 0), "--query-rows must be at least 1"),
        (("--trained", "/no/such/folder"), "There is no folder /no/such/folder"),
    ],
)
def test_bad_words_are_refused_in_a_sentence(words, said, tmp_path):
    isoscope("untrained-block", *TINY, "--out", tmp_path / "run", *words).refused(said)


def test_its_own_numbers_can_be_asked_for_and_merged_and_do_not_disturb_others(block_run, good_run, tmp_path):
    asked = json.loads(isoscope("table", block_run, "--metric", "norm_fixed_point", "--json").worked().out)
    assert {row["metric"] for row in asked} == {"norm_fixed_point"}
    isoscope("drift-test", block_run).refused("compares the hidden states of a model")
    isoscope("merge", block_run, good_run, "--out", tmp_path / "both").worked()
    both, one, other = (json.loads(isoscope("table", run, "--json").worked().out) for run in (tmp_path / "both", block_run, good_run))
    assert len(both) == len(one) + len(other)
    assert isoscope("drift-test", tmp_path / "both").worked().out == isoscope("drift-test", good_run).worked().out
