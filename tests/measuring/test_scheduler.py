"""The scheduler: jobs are fetched one ahead, run at most `count` at a time, fail alone, and are cleaned up when nobody needs them."""

import threading
import warnings
from concurrent.futures import Future

import pytest

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.machine import cores, memory_left
from isoscope.core.progress import Progress
from isoscope.measuring.options import Options
from isoscope.measuring.scheduler import MAX_LOSSES, Engine, Job, Scheduler
from isoscope.measuring.task import LostError, NoMemoryError
from isoscope.runs.writing import FullDiskError
from tests.patience import wait_until


class Pool:
    """An executor whose tasks are functions, each run in a thread of its own."""

    def __init__(self, count):
        self.count, self.running, self.most = count, 0, 0
        self.entered = self.left = False
        self._lock = threading.Lock()

    def __enter__(self):
        self.entered = True
        return self

    def __exit__(self, *_):
        self.left = True

    def submit(self, task):
        future = Future()

        def work():
            try:
                future.set_result(task.act() or [])
            except BaseException as error:
                future.set_exception(error)
            with self._lock:
                self.running -= 1

        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        threading.Thread(target=work, daemon=True).start()
        return future


class Act:
    """A task that calls a function."""

    def __init__(self, act, *, done=False):
        self.act, self.is_done = act, done


class Spied(Job):
    """A job that writes down what happens to it."""

    def __init__(self, name, log, act=lambda: None, *, fetch=lambda: None, done=False, needs=None):
        self.name, self.log, self.task, self._fetch, self.needs = name, log, Act(act, done=done), fetch, needs or name

    def __str__(self):
        return self.name

    def fetch(self):
        self.log.append(f"fetch {self.name}")
        self._fetch()

    def start(self):
        self.log.append(f"start {self.name}")
        return self.task

    def finish(self):
        self.log.append(f"finish {self.name}")

    def fail(self, error, *, fetched):
        self.log.append(f"fail {self.name} {'running' if fetched else 'fetching'}: {error}")

    def clean_up(self, in_use):
        if any(job.needs == self.needs for job in in_use):
            return False
        self.log.append(f"clean {self.name}")
        return True


def run(jobs, count=1, done=()):
    pool = Pool(count)
    scheduler = Scheduler(lambda task: pool, Progress(quiet=True))
    scheduler.run(jobs, "jobs", done=done)
    return scheduler, pool


def raising(error):
    def act():
        raise error

    return act


def test_never_more_jobs_run_than_the_executor_takes_and_never_fewer():
    log, together = [], threading.Barrier(3)
    jobs = [Spied(str(i), log, lambda: together.wait(60) and None) for i in range(9)]  # three at a time, or the barrier breaks
    scheduler, pool = run(jobs, count=3)
    assert scheduler.succeeded == 9
    assert pool.most == 3
    assert pool.left


def test_a_job_whose_last_step_fails_stops_no_other_except_on_a_full_disk():
    log = []

    class Unfinished(Spied):
        def finish(self):
            raise self.error

    unfinished = Unfinished("a", log)
    unfinished.error = IsoscopeError("the shards do not fit.")
    scheduler, _ = run([unfinished, Spied("b", log)])
    assert scheduler.succeeded == 1
    assert "fail a running: the shards do not fit." in log
    assert "finish b" in log
    unfinished.error = FullDiskError("full.")
    with pytest.raises(FullDiskError):
        run([unfinished, Spied("c", log)])


def test_the_next_job_is_fetched_while_one_runs_and_no_further_one():
    log = []

    def check():
        wait_until(lambda: "fetch b" in log, "the next fetch")
        assert "fetch c" not in log

    run([Spied("a", log, check), Spied("b", log), Spied("c", log)])
    assert log.index("fetch b") < log.index("finish a") < log.index("fetch c")


@pytest.mark.parametrize("first", [lambda: None, lambda: raising(IsoscopeError("no."))()])
def test_a_job_that_needs_earlier_ones_starts_after_them_and_also_if_they_fail(first):
    log = []

    class Needing(Spied):
        def is_ready(self):
            return "finish a" in log

    run([Spied("a", log, first), Spied("b", log, lambda: None), Needing("merge", log)], count=3)
    assert log.index("start b") < log.index("start merge")
    assert {"finish a", "fail a running: no."} & set(log[: log.index("start merge")])


def test_a_job_that_fails_stops_no_other():
    log = []
    bad = Spied("bad", log, raising(IsoscopeError("no.")))
    unfetched = Spied("lost", log, fetch=raising(IsoscopeError("gone.")))
    scheduler, _ = run([bad, unfetched, Spied("good", log)])
    assert [line for line in log if line.startswith(("fail", "finish"))] == [
        "fail bad running: no.",
        "fail lost fetching: gone.",
        "finish good",
    ]
    assert scheduler.succeeded == 1
    assert "start lost" not in log


@pytest.mark.parametrize("error", [FullDiskError("run"), ValueError("a bug")])
@pytest.mark.parametrize("where", ["act", "fetch"])
def test_a_bug_stops_everything_and_so_does_a_full_disk(error, where):
    log = []
    first = Spied("first", log, **{where: raising(error)})
    if where == "fetch" and isinstance(error, FullDiskError):
        run([first, Spied("second", log)])  # a download may have a disk of its own: the job itself decides
        assert "finish second" in log
        return
    with pytest.raises(type(error)):
        run([first, Spied("second", log)])
    assert "start second" not in log


def test_a_cell_that_another_process_finished_is_not_measured_and_opens_no_executor():
    log = []
    scheduler, pool = run([Spied("there", log, raising(AssertionError("measured again")), done=True)])
    assert scheduler.succeeded == 1
    assert "finish there" in log
    assert not pool.entered


def test_a_download_is_deleted_once_no_job_needs_it():
    """The first two jobs share one download, and a job of an earlier command left one behind."""
    log = []
    jobs = [Spied("a", log, needs="x"), Spied("b", log, needs="x"), Spied("c", log)]
    scheduler, _ = run(jobs, done=[Spied("old", log)])
    assert log.index("clean old") < log.index("start a")
    assert log.index("finish b") < log.index("clean a")
    assert {"clean a", "clean b", "clean c"} <= set(log)
    assert scheduler.succeeded == 4


def test_warnings_of_workers_are_raised_here():
    with pytest.warns(IsoscopeWarning, match="zero vectors"):
        run([Spied("a", [], lambda: ["zero vectors"])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run([Spied("a", [])])


def test_whether_another_job_succeeds_waits_for_those_that_run():
    log, answers, gate = [], [], threading.Event()

    class Asking(Spied):
        def fail(self, error, *, fetched):
            gate.set()
            answers.append(self.scheduler.another_job_succeeds())

    for outcome in (lambda: gate.wait(60) and None, lambda: gate.wait(60) and raising(IsoscopeError("no."))()):
        gate.clear()
        asking = Asking("asking", log, raising(IsoscopeError("first.")))
        other = Spied("other", log, outcome)
        pool = Pool(2)
        asking.scheduler = Scheduler(lambda task, pool=pool: pool, Progress(quiet=True))
        asking.scheduler.run([other, asking], "jobs")
    assert answers == [True, False]


class Shrinking(Act):
    """A task that knows how to become smaller, twice."""

    def __init__(self, act, size=4):
        super().__init__(act)
        self.size = size

    @property
    def with_half_batch(self):
        return Shrinking(self.act, self.size // 2) if self.size > 1 else None


@pytest.mark.parametrize(
    ("error", "sizes"), [(LostError("gone."), [4] * (1 + MAX_LOSSES)), (NoMemoryError("no memory."), [4, 2]), (IsoscopeError("no."), [4])]
)
def test_a_cell_is_tried_again_where_that_may_help_and_then_given_up(error, sizes):
    """Each attempt notes its size and ends with the same error; the other job is not affected."""
    log, seen = [], []

    class Noting(Pool):
        def submit(self, task):
            seen.append(getattr(task, "size", None))
            return super().submit(task)

    job = Spied("bad", log)
    job.task = Shrinking(raising(error))
    scheduler = Scheduler(lambda task: Noting(1), Progress(quiet=True))
    scheduler.run([job, Spied("good", log)], "jobs")
    assert seen == [*sizes, None]
    assert [line for line in log if line.startswith(("fail", "finish"))] == [f"fail bad running: {error}", "finish good"]


def test_a_job_that_ran_out_of_memory_succeeds_with_half_the_batch_after_its_process_died():
    log, errors = [], [LostError("gone."), NoMemoryError("no memory."), LostError("gone again.")]

    def act():
        if errors:
            raise errors.pop(0)

    job = Spied("late", log)
    job.task = Shrinking(act)
    scheduler = Scheduler(lambda task: Pool(1), Progress(quiet=True))
    scheduler.run([job], "jobs")
    assert log == ["fetch late", "start late", "finish late", "clean late"]
    assert scheduler.succeeded == 1


def test_this_process_is_an_executor_too():
    with Engine().open(1, Options(), Progress(quiet=True)) as executor:
        assert executor.count == 1
    assert Options(device_map="auto").identity() == Options().identity()


def test_process_count_follows_cores_cells_and_memory():
    def count(cells, weights=1 << 20, data=("embedded",), asked=None, **options):
        return Engine(**asked or {}).choose_count(cells, weights, Options(**options), data)

    assert count(1000) == cores()
    assert count(7) == 1
    assert count(1000, threads=cores()) == 1
    assert count(1000, memory_left()) == 1
    assert count(1000, asked={"processes": 3}) == 3
    assert count(2, asked={"processes": 3}) == 2
    assert count(1000, data=("-",), asked={"processes": 3}) == 1
    assert count(1000, asked={"split_into": 50}) == min(50, cores())
    assert count(1000, asked={"name": "ray", "processes": 3}) == 1
    with pytest.raises(IsoscopeError, match="--processes takes 1 or more; got 0"):
        Engine(processes=0)
