"""Three real processes that meet: statistics are merged in the order of ranks, and an error in one reaches all."""

import json
import subprocess
import sys

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.runs.tensors import pack_statistics, unpack_statistics
from isoscope.statistics.site_statistics import SiteStatistics
from isoscope.watching import ranks
from isoscope.watching.ranks import OtherRankError, OtherRankUserError, Ranks
from tests.patience import HANG_LIMIT

SITE, D, SIZE = Site("encoder", "hidden", 1), 3, 3

SCRIPT = """
import json, sys
import numpy as np
import torch.distributed as dist
from isoscope.core.errors import IsoscopeError
from isoscope.watching.ranks import Ranks

rank, folder, probes = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=len(probes))
told = {}

def note(name, act):
    try:
        told[name] = act()
    except Exception as error:
        told[name] = [type(error).__name__, str(error), getattr(error, "__notes__", [])]

def fail():
    if rank == 1:
        raise error
    return rank

note("differ", lambda: Ranks().meet({"every": 2, "taps": "hidden" if rank < 2 else "map"}, "a"))
ranks = Ranks()
ranks.meet({"every": 2}, probes[rank])
told["share"] = [ranks.share.counts, ranks.share.sources]
told["gathered"] = ranks.gather([rank] * rank)
told["agreed"] = ranks.attempt(lambda: rank * 10)
for error in (ZeroDivisionError("planted"), IsoscopeError("planted")):
    note(type(error).__name__, lambda: ranks.attempt(fail))
merged = ranks.merge(dict(np.load(f"{folder}/{rank}.npz")))
if merged is not None:
    np.savez(f"{folder}/merged-{rank}.npz", **merged)
ranks.part()
dist.destroy_process_group()
print(json.dumps(told))
"""


def make_arrays(rows):
    """Packed statistics of some of thirty points."""
    statistics = SiteStatistics(D, ["body"], sample=0)
    statistics.moments[0].update(np.random.default_rng(0).standard_normal((30, D))[rows])
    return dict(pack_statistics({SITE: statistics}))


def test_three_processes_merge_those_that_count_and_fail_together(tmp_path):
    """The third has the probe of the first, so its points do not count."""
    parts = [slice(0, 10), slice(10, 30), slice(0, 10)]
    for rank, part in enumerate(parts):
        np.savez(tmp_path / f"{rank}.npz", **make_arrays(part))
    words = [sys.executable, "-c", SCRIPT]
    processes = [subprocess.Popen([*words, str(rank), str(tmp_path), "a,b,a"], stdout=subprocess.PIPE) for rank in range(len(parts))]
    told = [json.loads(process.communicate(timeout=HANG_LIMIT)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    for rank, each in enumerate(told):
        kind, words, _ = each["differ"]
        assert kind == "IsoscopeError"
        assert words.startswith("The processes of this training watch differently: taps is hidden on rank 0 and map on rank 2; ")
        assert each["share"] == [rank < 2, ["a", "b"]]
        assert each["gathered"] == [[], [1], [2, 2]]
        assert each["agreed"] == rank * 10
        own = rank == 1
        kind, words, notes = each["ZeroDivisionError"]
        assert (kind, words) == (("ZeroDivisionError", "planted") if own else ("OtherRankError", "on rank 1: ZeroDivisionError: planted"))
        assert own or "in fail\n" in notes[0]
        assert each["IsoscopeError"] == (["IsoscopeError", "planted", []] if own else ["OtherRankUserError", "on rank 1: planted", []])
    assert [path.name for path in tmp_path.glob("merged-*")] == ["merged-0.npz"]
    merged = [dict(np.load(tmp_path / "merged-0.npz")), make_arrays(slice(30))]
    got, expected = (unpack_statistics(arrays)[SITE].moments[0] for arrays in merged)
    assert got.n == expected.n == 30
    np.testing.assert_allclose(got.total, expected.total, rtol=1e-12)
    np.testing.assert_allclose(got.second.covariance, expected.second.covariance, rtol=1e-12)


def test_one_process_alone_needs_no_others():
    """It raises its own errors as they are, and merges nothing."""
    alone, arrays = Ranks(), make_arrays(slice(5))
    alone.meet({"every": 2}, "a")
    assert (alone.alone, alone.gather("x"), alone.attempt(lambda: 3)) == (True, ["x"], 3)
    assert alone.merge(arrays) is arrays
    with pytest.raises(ZeroDivisionError):
        alone.attempt(lambda: 1 / 0)


def test_processes_without_items_of_their_own_pass_on_those_of_others():
    """A process whose probe does not count may have to receive from one whose does."""
    arrays = make_arrays(slice(5))
    assert ranks._merge(None, arrays) is arrays
    assert ranks._merge(arrays, None) is arrays
    assert ranks._merge(None, None) is None


def test_a_bug_elsewhere_is_no_user_error():
    assert not issubclass(OtherRankError, IsoscopeError)
    assert issubclass(OtherRankUserError, IsoscopeError)
