"""A run takes with its first batch all the memory that it will hold: of statistics, and of what the first block would load."""

import pytest

import isoscope
from isoscope.engine.sites import Sites
from isoscope.statistics.site_statistics import SiteStatistics


@pytest.fixture
def first_states(monkeypatch):
    """Which slices of which sites still wait for memory when the first state of a run has been reduced."""
    waiting, receive = [], Sites._receive

    def seen(self, site, tensor):
        receive(self, site, tensor)
        if not waiting and self._laid is not None:
            kept = {site: one for site, one in self.statistics.items() if isinstance(one, SiteStatistics)}
            waiting.append(
                {
                    (site.layer, name)
                    for site, one in kept.items()
                    for number, name in enumerate(one.names)
                    if number in one.groups.waiting or one.moments[number].second.waits
                }
            )
            assert len(kept) > 2

    monkeypatch.setattr(Sites, "_receive", seen)
    return waiting


def test_the_first_state_brings_the_memory_of_all_layers(small_models, texts, tmp_path, first_states):
    """Special tokens come in the first batch, and no layer waits for them; a BERT has no first tokens that are not special."""
    isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", quiet=True, max_items=40)
    assert {name for _, name in first_states[0]} == {"first"}


def test_what_is_compiled_is_loaded_before_the_first_batch(small_models, texts, tmp_path, monkeypatch):
    from isoscope.engine.single_pass import Pass
    from isoscope.statistics import kernel

    order, measure = [], Pass._measure
    compiled = kernel.compiled
    monkeypatch.setattr(kernel, "compiled", lambda name: order.append("compiled") or compiled(name))
    monkeypatch.setattr(Pass, "_measure", lambda *given: order.append("batch") or measure(*given))
    isoscope.measure(str(small_models("gpt2")), str(texts), tmp_path / "run", quiet=True, max_items=40)
    assert order.index("compiled") < order.index("batch")
