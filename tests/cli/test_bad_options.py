"""Option values that do not exist are answered with the nearest that does; usage errors exit with 2."""

import pytest

from tests.cli.calling import isoscope


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--layers", "finl"), "got 'finl', did you mean final?"),
        (("--layers", "1-"), "got '1-'."),
        (("--layers", "0,9"), "--layers must name layers that small-bert has (0 to 2, input); got 9: correct it or leave it out."),
        (("--second-moments", "inpt"), "got 'inpt', did you mean input?"),
        (("--shard", "3/2"), "--shard i/k needs 1 ≤ i ≤ k, as in 1/4; got 3/2."),
        (("--shard", "0/2"), "got 0/2."),
        (("--shard", "a/b"), "--shard i/k needs two numbers, as in 1/4; got 'a/b'."),
        (("--shard", "2"), "got '2'."),
        (("--dtype", "float3"), "--dtype must be one of float32, float16, bfloat16; got 'float3', did you mean float32?"),
        (("--dtype", "ßß"), "got 'ßß'."),
        (("--device", "cpuu"), "--device must be one of auto, cpu, cuda, mps, xpu; got 'cpuu', did you mean cpu?"),
        (("--device", "meta"), "got 'meta'."),
        (("--device", "cpu:zz"), "The device 'cpu:zz' is not available here; use --device auto or cpu."),
        (("--store", "rws"), "--store must be one of rows, sums, all; got 'rws', did you mean rows?"),
        (("--store", "ß"), "got 'ß'."),
        (("--split-body", "snk"), "--split-body takes sink, frequency, position; got 'snk', did you mean sink?"),
        (("--sample", "-1"), "--sample must be at least 0; got -1."),
        (("--sample", "9223372036854775807"), "--sample must be at most 1,000,000,000,000; got 9,223,372,036,854,775,807."),
        (("--batch-size", "0"), "--batch-size must be at least 1; got 0."),
        (("--threads", "0"), "--threads must be at least 1; got 0."),
        (("--threads", "2147483648"), "--threads must be at most 4,096; got 2,147,483,648."),
        (("--max-items", "9223372036854775808"), "--max-items must be at most 1,000,000,000,000,000; got 9,223,372,036,854,775,808."),
        (("--max-tokens", "0"), "--max-tokens must be at least 1; got 0."),
        (("--seq-len", "0"), "--seq-len must be at least 1; got 0."),
    ],
)
def test_a_value_that_an_option_does_not_take(bert, paragraphs, tmp_path, words, said):
    isoscope("measure", bert, "--data", paragraphs, "--out", tmp_path / "run", "-q", *words).refused(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--metric", "mean_cosin"), "There is no metric called 'mean_cosin', did you mean mean_cosine?"),
        (("--metric", "ßß"), "There is no metric called 'ßß'; see `isoscope list metrics`."),
        (("--policy", "bdy"), "The policy 'bdy' is not in this run; it has all, body, no-special and every, did you mean body?"),
        (("--policy", "ß"), "it has all, body, no-special and every."),
        (("--format", "cvs"), "--format must be csv, json or parquet; got 'cvs', did you mean csv?"),
        (("--series", "--metric", "mean_cosine"), "There is no series called 'mean_cosine'"),
        (("--series", "--policy", "body"), "--policy has no effect on --series, which contains every policy"),
    ],
)
def test_a_table_that_cannot_be_had(good_run, words, said):
    isoscope("table", good_run, *words).refused(said)


def test_list_names_the_nearest():
    isoscope("list", "metric").refused(
        "takes one of metrics, families, sources, figures, claims, recipes; got 'metric', did you mean metrics?"
    )
    isoscope("list", "[/red]").refused("got '[/red]'.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("measure",), "Missing argument 'MODEL'"),
        (("table",), "Missing argument 'RUN'"),
        (("merge", "somewhere"), "Missing option '--out'"),
        (("report",), "Missing argument 'RUN'"),
        (("embeddings",), "Missing argument 'FILE'"),
        (("list",), "Missing argument 'WHAT'"),
        (("nosuch",), "No such command 'nosuch'"),
        (("measure", "--no-such"), "No such option: --no-such"),
        (("measure", "x", "--batch-size", "many"), "Invalid value for '--batch-size'"),
        (("measure", "x", "--save-every", "-1"), "Invalid value for '--save-every'"),
        (("embeddings", "x.npy", "--sample", "-4"), "Invalid value for '--sample'"),
        (("embeddings", "x.npy", "--seed", "-1"), "--seed must be at least 0; got -1."),
        (("embeddings", "x.npy", "--seed", "9223372036854775808"), "--seed must be at most 9,223,372,036,854,775,807; got 9,223"),
        (("embeddings", "x.npy", "--sample", "9223372036854775807"), "--sample must be at most 1,000,000,000,000; got 9,223"),
        (("[red]x[/]",), "No such command '[red]x[/]'"),
    ],
)
def test_usage_errors(words, said):
    answer = isoscope(*words)
    assert answer.code == 2
    assert answer.out == ""
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_memory_that_runs_out_in_a_library_is_one_sentence(monkeypatch):
    def hungry(*_):
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
        )

    monkeypatch.setattr("isoscope.cli._run", hungry)
    isoscope("list").refused("Out of memory (", "reduce the input, or use a machine with more memory.")
