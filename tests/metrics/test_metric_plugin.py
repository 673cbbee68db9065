"""A metric is one file: in a folder of the user's own it is found, measured and checked like any other."""

import os
import sys

from tests.patience import run_process

METRIC = '''
"""The largest coordinate of the mean."""

import numpy as np

from isoscope.plugins import Number, metric


@metric(reads=("sums",), range=(0.0, np.inf), title="Largest coordinate of the mean", at_least=1)
def my_metric(cloud):
    """How far the mean lies from the origin along the coordinate where that is farthest.

    Range 0 to infinity. It has no null.
    """
    return Number(np.abs(cloud.moments.mean).max(), n=cloud.n, d=cloud.d)
'''

PROGRAM = """
import sys
import numpy as np
import isoscope.metrics
from isoscope.metrics import metrics, registry
from isoscope.testing import check_metric

found = registry["my_metric"]
check_metric(found)
assert found in metrics()
assert "my_metric" in registry.names()
assert "mean_cosine" in registry.names()
assert isoscope.metrics.my_metric is found
assert "torch" not in sys.modules
print(float(found(np.array([[1.0, -5.0], [3.0, -1.0], [2.0, 0.0]]))))
"""


def run(folder, program):
    env = os.environ | {"ISOSCOPE_PLUGINS": str(folder)}
    return run_process([sys.executable, "-c", program], env=env)


def test_one_file_is_enough(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "my_metric.py").write_text(METRIC)
    done = run(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2.0"


def test_a_file_may_declare_several_metrics_under_names_of_their_own(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "several.py").write_text(METRIC + METRIC[METRIC.index("@metric") :].replace("my_metric", "my_other_metric"))
    done = run(tmp_path, "from isoscope.metrics import registry; print(registry['my_metric'].name, registry['my_other_metric'].name)")
    assert done.stdout.strip() == "my_metric my_other_metric", done.stderr


def test_a_file_that_declares_no_metric_is_named_in_the_error(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "empty.py").write_text("def my_metric(cloud):\n    return 1.0\n")
    done = run(tmp_path, "import isoscope.metrics")
    assert done.returncode != 0
    assert "empty.py must declare a metric" in done.stderr


def test_a_name_that_is_taken_is_refused(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "again.py").write_text(METRIC.replace("my_metric", "mean_cosine"))
    done = run(tmp_path, "import isoscope.metrics")
    assert done.returncode != 0
    assert "declares a metric called 'mean_cosine', and there is one of that name already" in done.stderr
