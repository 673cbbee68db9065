"""One self-contained HTML page, and the figures as files."""

from __future__ import annotations

from isoscope.report.figure_files import draw_figure, write_figures
from isoscope.report.page import write_report

__all__ = ["draw_figure", "write_figures", "write_report"]
