"""The verdict in words: its sentence, its repairs and its table follow from the outcomes of the checks."""

import numpy as np
import pytest

from isoscope.estimation.embedding_checks import FAULT, FINE, UNCLEAR, Check
from isoscope.runs.embedding_diagnosis import Diagnosis, diagnose
from isoscope.runs.matrix_geometry import Geometry

ZEROS = Check("zero rows", FAULT, "3 of 10 rows", "0", "3 rows are <zero>.")
DRIFT = Check("drift", FAULT, "0.500", "0.290", "A common mean.", "Centre()")
CONES = Check("several cones", FAULT, "0.900", "0.750", "Two groups.", "Centre()")
RANK = Check("few dimensions in use", UNCLEAR, "8 [7, 17]", "16", "8 of 32 dimensions.", 'Whiten("pca", n_components=8)')
COPIES = Check("duplicates", FINE, "0 of 10 rows", "1 % of rows", "No row repeats another.")


def diagnosis(*checks):
    return Diagnosis(list(checks), Geometry({}))


@pytest.mark.parametrize(
    ("checks", "headline"),
    [
        ([COPIES], "Healthy: none of 1 checks found a fault."),
        ([COPIES, RANK], "No fault is certain. Unclear: few dimensions in use."),
        ([DRIFT, COPIES], "Not healthy: drift."),
        ([ZEROS, DRIFT, RANK], "Not healthy: zero rows and drift. Unclear: few dimensions in use."),
    ],
)
def test_one_sentence_names_all_faults_and_what_is_unclear(checks, headline):
    found = diagnosis(*checks)
    assert found.headline == headline
    assert found.healthy is ("Not healthy" not in headline)


def test_each_repair_is_named_once_and_none_for_what_is_unclear():
    found = diagnosis(ZEROS, DRIFT, CONES, RANK)
    assert found.faults == ["zero rows", "drift", "several cones"]
    assert found.unclear == ["few dimensions in use"]
    assert found.repairs == ["Centre()"]


def test_the_prompt_shows_sentences_only_of_what_is_not_fine_and_all_checks():
    found = diagnosis(ZEROS, COPIES, RANK)
    assert repr(found).splitlines() == [
        "Not healthy: zero rows. Unclear: few dimensions in use.",
        "3 rows are <zero>.",
        "8 of 32 dimensions.",
        "",
        "check                  result       measured        limit",
        "zero rows              FAULT    3 of 10 rows            0",
        "duplicates             fine     0 of 10 rows  1 % of rows",
        "few dimensions in use  unclear     8 [7, 17]           16",
    ]
    page = found._repr_html_()
    assert "<p>3 rows are &lt;zero&gt;.</p><p>8 of 32 dimensions.</p><table>" in page
    assert page.count("<tr>") == 4


@pytest.mark.filterwarnings("ignore::isoscope.core.errors.IsoscopeWarning")  # of the zero rows
def test_counts_are_over_all_rows_and_numbers_are_those_of_the_matrix():
    x = np.random.default_rng(0).standard_normal((600, 8))
    x[:5] = 0.0
    x[100:120] = x[200:220]
    found = diagnose(x, sample=100)
    rows = {row[0]: row[1:] for row in found.rows()}
    assert rows["zero rows"] == ["FAULT", "5 of 600 rows", "0"]
    assert rows["duplicates"] == ["FAULT", "20 of 600 rows", "1 % of rows"]
    u = x[5:] / np.linalg.norm(x[5:], axis=1, keepdims=True)
    assert found.numbers["mean_cosine"] == pytest.approx((np.square(u.sum(0)).sum() - 595) / (595 * 594), abs=1e-9)
