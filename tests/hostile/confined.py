"""Calls in a process that may take little memory and little time; what would be a bomb elsewhere is a failed test here."""

import json
import subprocess
import sys
from pathlib import Path

from tests.patience import HANG_LIMIT, WORK_LIMIT

SCRIPT = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import numpy, pyarrow.parquet, scipy.signal
from pathlib import Path
from isoscope.core.errors import IsoscopeError
from isoscope.runs.matrix_geometry import geometry
from isoscope.sources import open_source
setup, calls, more = json.loads(sys.argv[2])
exec(setup)
taken = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (taken + (more << 20),) * 2)
said = []
for call in calls:
    started = time.process_time()
    try:
        answer = repr(eval(call))[:100]
    except IsoscopeError as error:
        answer = str(error)
    except BaseException as error:
        answer = f"{type(error).__name__}: {error}"
    said.append([answer, time.process_time() - started])
print(json.dumps(said))
"""


def confined(*calls: str, setup: str = "", megabytes: int = 700, seconds: float = WORK_LIMIT) -> list[str]:
    """What each call answered or was refused with, all in one process; none may work for longer than `seconds`."""
    words = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[2]), json.dumps([setup, calls, megabytes])]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=HANG_LIMIT)
    assert done.returncode == 0, done.stderr[-1000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert all(took < seconds for _, took in said), said
    return [answer for answer, _ in said]


def measured(path: Path, **options: object) -> str:
    """The call that measures a matrix."""
    return f"geometry({str(path)!r}, metric='mean_cosine', allow_wide=True, **{options!r})"


def items(path: Path, modality: str = "text") -> str:
    """The call that reads every item of a source."""
    return f"sum(1 for _ in open_source({str(path)!r}, None, {modality!r}).items())"
