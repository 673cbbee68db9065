"""Trying repairs: each is fitted to the even rows, and the odd rows are diagnosed before and after."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.repair import AllButTheTop, Centre
from isoscope.repair.repair_trial import UNREPAIRED, parse_repair, try_repairs


def test_expressions_name_repairs_whatever_their_case():
    assert isinstance(parse_repair(" centre "), Centre)
    assert repr(parse_repair("allbutthetop(k=3)")) == repr(AllButTheTop(k=3))
    assert repr(parse_repair("Whiten('pca', n_components=8)")) == repr(parse_repair('Whiten("pca", n_components=8)'))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Repair()", "There is no repair called 'Repair'; a repair is one of AllButTheTop, Centre, "),
        ("LinearRepair", "There is no repair called 'LinearRepair'; "),
        ("AllButTheTop(k=len([1]))", "cannot be read; a repair is one of .*Centre.*, as in 'AllButTheTop\\(k=2\\)'"),
        ("Centre(3)", "--repair 'Centre\\(3\\)': .*argument"),
    ],
)
def test_what_is_no_repair_is_refused(text, message):
    with pytest.raises(IsoscopeError, match=message):
        parse_repair(text)


def test_a_repair_never_sees_the_rows_that_judge_it(tmp_path):
    """The even rows have a mean of their own: it is taken from the odd rows, which have none."""
    x = np.random.default_rng(0).standard_normal((800, 6))
    x[::2] += 3.0
    np.save(tmp_path / "x.npy", x)
    found = try_repairs(tmp_path / "x.npy", ["centre"])
    assert list(found) == [UNREPAIRED, "Centre()"]
    for name, judged in ((UNREPAIRED, x[1::2]), ("Centre()", x[1::2] - x[::2].mean(0))):
        u = judged / np.linalg.norm(judged, axis=1, keepdims=True)
        assert found[name].numbers["mean_cosine"] == pytest.approx((np.square(u.sum(0)).sum() - 400) / (400 * 399), abs=1e-9)
        assert found[name].numbers["mean_cosine"].n == 400
    assert (found[UNREPAIRED].healthy, found["Centre()"].faults) == (True, ["drift"])


def test_three_rows_cannot_be_halved(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3)[:, :2])
    with pytest.raises(IsoscopeError, match=r"fitted to half of the rows .* has 3, and 4 are needed\.$"):
        try_repairs(tmp_path / "x.npy", ["centre"])
