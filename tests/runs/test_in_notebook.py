"""A notebook without a network: runs, numbers and charts show themselves."""

import sys

import numpy as np
import pytest

from tests.measuring.made_runs import corpus, moved, write
from tests.patience import HANG_LIMIT

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("altair")

OFFLINE = """
import socket
connect = socket.socket.connect
def local_only(self, address):
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1"):
        raise OSError(f"no network: {address}")
    return connect(self, address)
socket.socket.connect = local_only
import isoscope, numpy as np
from isoscope.plugins import figures
run = isoscope.open(RUN)
"""
CELLS = {
    "the run": ("run", "text/html", "between_cosine"),
    "a number": ("isoscope.metrics.mean_cosine(np.eye(4) + 1)", "text/html", "isotropic 0.00"),
    "a matrix": ("isoscope.geometry(np.random.default_rng(0).standard_normal((200, 8)))", "text/html", "<td"),
    "a diagnosis": ("isoscope.diagnose(np.random.default_rng(0).standard_normal((200, 8)) + 5)", "text/html", "Not healthy: drift."),
    "a plot": ('run.plot("mean_cosine", OUT + "/figure.pdf", width="86mm")', "image/svg+xml", 'width="3.38583in"'),
    "a figure": ('figures["layer_profile"].draw(run.table(["mean_cosine", "top_share"]), run.series())', "image/svg+xml", "mean_cosine"),
    "a changed figure": ('figures["spectrum"].draw(run.table(), run.series()).properties(title="Mine")', "image/svg+xml", "Mine"),
    "a registry": ("figures", "text/html", "layer_profile"),
    "a wide table": ("run.to_frame(wide=True)", "text/html", "stack"),
}


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook after it ran in a kernel of its own."""
    from nbclient import NotebookClient

    x, mask = corpus(np.random.default_rng(0), 40)
    folder = tmp_path_factory.mktemp("notebook")
    run = write(folder / "run", [moved(x, 0.2), moved(x, 0.6)], mask, final=moved(x, 3.0))
    first = f"import sys\nsys.path[:0] = {sys.path!r}\nRUN, OUT = {str(run.path)!r}, {str(folder)!r}\n{OFFLINE}"
    cells = [nbformat.v4.new_code_cell(text) for text in [first, *(code for code, *_ in CELLS.values())]]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=HANG_LIMIT, kernel_name="python3").execute()
    return folder, notebook


@pytest.mark.parametrize("name", CELLS)
def test_everything_shows_itself(executed, name):
    _, kind, piece = CELLS[name]
    _, notebook = executed
    (output,) = notebook.cells[1 + list(CELLS).index(name)].outputs
    shown = output["data"][kind]
    assert piece in shown
    assert "<script" not in shown
    assert "https://" not in shown


def test_the_page_of_the_notebook_has_its_charts_within(executed):
    from nbconvert import HTMLExporter

    folder, notebook = executed
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    assert page.count("data:image/svg+xml;base64,") == 3
    assert (folder / "figure.pdf").read_bytes().startswith(b"%PDF")
