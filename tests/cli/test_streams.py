"""The command line as a process: exit codes, what goes to which stream, pipes, signals."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.cli.calling import command, process
from tests.cli.conftest import FAST
from tests.patience import run_process


@pytest.mark.parametrize(
    ("offline", "said"),
    [
        ("1", "and HF_HUB_OFFLINE forbids fetching it; run once with HF_HUB_OFFLINE=0"),
        (None, "org/name@main is not a folder here, and the hub cannot be reached to look for it"),
    ],
)
def test_a_hub_id_without_a_network_is_refused(tmp_path, offline, said):
    # A closed port of this machine stands for a hub that cannot be reached, wherever the test runs.
    answer = process(
        "measure", "org/name@main", "--out", tmp_path, HF_HUB_OFFLINE=offline, HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path)
    )
    answer.refused(said)


def test_an_error_leaves_standard_output_empty(tmp_path):
    process("table", tmp_path / "no").refused(f"There is no run at {tmp_path / 'no'}")


def test_results_go_to_standard_output_and_notes_to_standard_error(gpt2, paragraphs, tmp_path):
    answer = process("measure", gpt2, "--data", paragraphs, "--out", tmp_path / "run", "--layers", "0", "--threads", "1", "--json").worked()
    assert json.loads(answer.out)["cells"][0]["columns"]["model"] == "small-gpt2"
    assert "small-gpt2: loading" in answer.err


def test_a_reader_that_has_seen_enough(good_run):
    for words in (("table", good_run, "--series"), ("table", good_run, "--json"), ("table", good_run, "--format", "parquet")):
        with subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert len(running.stdout.read(4)) == 4
            running.stdout.close()
            assert running.stderr.read() == b""
        assert running.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
def test_standard_output_that_is_full(good_run):
    for words in (("table", good_run, "--metric", "mean_norm", "--policy", "all"), ("list", "metrics")):
        with open("/dev/full", "wb") as full:
            ended = run_process(command(*words), stdout=full, stderr=subprocess.PIPE)
        assert ended.returncode == 2
        assert re.fullmatch(r"isoscope: Cannot .*: No space left on device\.\n", ended.stderr)


def test_ctrl_c(gpt2, paragraphs, tmp_path):
    """Interrupted while it measures: exit code 130, one sentence, and the state saved just before stays."""
    words = ("measure", gpt2, "--data", paragraphs, "--out", tmp_path / "run", "--save-every", "0", "--batch-size", "1", "--seq-len", "2")
    code = (
        "import os, signal, sys; from isoscope.cli import main; from isoscope.runs.run import Run\n"
        "save = Run.save_partial\n"
        "def save_and_interrupt(*given):\n    save(*given)\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "Run.save_partial = save_and_interrupt\n"
        f"sys.argv = {['isoscope', *map(str, (*words, *FAST))]!r}\nmain()"
    )
    # A shell's background job, which this may be, has its children ignore the signal; a user's command does not.
    ended = run_process([sys.executable, "-c", code], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "isoscope: interrupted. Finished cells are saved; rerun the command to resume.\n"
    assert list(tmp_path.glob("run/partial/*.safetensors"))
    assert not list(tmp_path.glob("run/cells/*"))


def test_a_name_that_is_not_utf8():
    ended = run_process([*map(os.fsencode, command("table")), b"no\xff"], text=False)
    assert ended.returncode == 2
    assert ended.stderr == b"isoscope: The argument b'no\\xff' is not UTF-8; rename the file or folder.\n"


def test_a_terminal_without_unicode():
    answer = process("list", "families", PYTHONIOENCODING="ascii").worked()
    assert "Whisper" in answer.out
    assert "+---" in answer.out  # a box of plain characters
    assert answer.err.startswith("Next:\n")


def test_help_is_fast_and_needs_nothing_heavy():
    code = "import sys, isoscope.cli\nsys.argv = ['isoscope', '--help']\ntry:\n    isoscope.cli.main()\nfinally:\n    "
    code += "sys.stderr.write(' '.join(sorted({'torch', 'transformers', 'pandas', 'numpy', 'scipy', 'pyarrow'} & set(sys.modules))))"
    ended = run_process([*command()[:1], "-c", code])
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "measure" in ended.stdout
