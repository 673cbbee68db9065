"""Both papers are complete: each figure names figures of the registry, and experiments of its own paper."""

import pytest

from isoscope.claims import papers
from isoscope.core.errors import IsoscopeError
from isoscope.core.study import studies
from isoscope.figures import figures
from isoscope.metrics import registry


@pytest.mark.parametrize("paper", papers, ids=papers.names())
def test_figures_and_experiments_exist(paper):
    experiments = {experiment.name for experiment in paper.experiments}
    for figure in paper.figures:
        assert set(figure.draws) <= set(figures.names()), figure.number
        assert set(figure.needs) <= experiments, figure.number
        assert set(figure.also) <= set(registry.names()), figure.number
    assert {need for figure in paper.figures for need in figure.needs} == experiments
    assert set(paper.also) <= set(registry.names())
    kinds = {experiment.kind for experiment in paper.experiments} - {"models", "suite"}
    assert all(studies[kind].experiment is not None for kind in kinds)


def test_a_figure_is_found_by_its_number():
    paper = papers["godey2024"]
    assert [figure.number for figure in paper.select_figures("Figure 12A")] == ["12a"]
    assert [figure.number for figure in paper.select_figures("12")] == ["12a", "12b"]
    with pytest.raises(IsoscopeError, match="has no figure '24'"):
        paper.select_figures("24")
