"""Add a metric as one file in a folder of your own, check that it keeps its contract, and measure with it.

python examples/own_metric.py
"""

import os
import tempfile
from pathlib import Path

import numpy as np

MEAN_SIGN = '''
"""How one-sided the coordinates of the mean are."""

import numpy as np

from isoscope.plugins import Number, Question, metric


@metric(reads=("sums",), range=(-1.0, 1.0), title="Mean sign of the drift", question=Question.COMMON_MEAN, at_least=1)
def mean_sign(cloud):
    """Whether the mean's coordinates are positive (1), negative (-1) or both (near 0).

    The mean over dimensions of sign(x̄ᵢ). Range -1 to 1. Null 0, with standard deviation 1/√d.
    """
    return Number(np.sign(cloud.moments.mean).mean(), n=cloud.n, d=cloud.d, null=0.0, null_sd=cloud.d**-0.5)
'''


def main() -> None:
    with tempfile.TemporaryDirectory() as plugins:
        (Path(plugins) / "metrics").mkdir()
        (Path(plugins) / "metrics" / "mean_sign.py").write_text(MEAN_SIGN, "utf-8")
        os.environ["ISOSCOPE_PLUGINS"] = plugins  # before isoscope.metrics is first imported
        import isoscope
        from isoscope.testing import check_metric

        check_metric(isoscope.metrics.mean_sign)
        rng = np.random.default_rng(0)
        for name, X in (("centred", rng.standard_normal((2000, 64))), ("rectified", rng.standard_normal((2000, 64)).clip(min=0))):
            number = isoscope.geometry(X, metric="mean_sign")["mean_sign"]
            print(f"{name:10} mean_sign {number:6.3f}  null {number.null:.1f} ± {number.null_sd:.3f}")


if __name__ == "__main__":
    main()
