"""Charts over and beside each other. Altair's own constructors copy every part at every step, which takes seconds for twenty panels."""

from __future__ import annotations

from typing import Any

import altair as alt


def layers(charts: Any, **properties: Any) -> Any:
    """Charts over each other, taken as they are: none of them has parameters or a size of its own."""
    return _made(alt.LayerChart, layer=list(charts), **properties)


def sheet(charts: Any, **properties: Any) -> Any:
    """Panels beside each other, taken as they are."""
    return _made(alt.ConcatChart, concat=list(charts), **properties)


def _made(kind: Any, **properties: Any) -> Any:
    """A chart of this kind, set up by what the kind inherits and not by its own constructor."""
    chart = kind.__new__(kind)
    super(kind, chart).__init__(**properties)
    return chart
