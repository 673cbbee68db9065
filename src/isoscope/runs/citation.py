"""How to cite a run: a methods paragraph with its settings, and BibTeX of all its sources. Nothing here needs torch."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from isoscope import __version__
from isoscope.claims import papers
from isoscope.core.errors import IsoscopeError
from isoscope.metrics import registry
from isoscope.runs.results import Results

OWN = "isoscope"
"""The key of isoscope's own entry."""
PLURALS = {"document": "documents", "sequence": "sequences", "row": "rows"}


@dataclass(frozen=True)
class Citation:
    """The methods of a run (`methods`, one sentence each) and what to cite (`entries`: key → BibTeX)."""

    methods: list[str]
    entries: dict[str, str]


@cache
def references() -> dict[str, str]:
    """The BibTeX entries of metrics and conventions by key, in alphabetical order. The two papers have theirs in `isoscope.claims`."""
    entries = resources.files("isoscope.runs").joinpath("bibliography.bib").read_text("utf-8").strip().split("\n\n")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}


def bibtex(key: str) -> str:
    """The BibTeX entry of isoscope, a paper or another source."""
    if key == OWN:
        title = "isoscope: a microscope for the geometry of Transformer representations"
        return f"@software{{{OWN},\n  title = {{{title}}},\n  version = {{{__version__}}},\n  license = {{Apache-2.0}},\n}}"
    return papers[key].bibtex if key in papers else references()[key]


def sources_of(name: str) -> list[str]:
    """The keys of the sources that the docstring of a metric or series names, papers first; none if it is not installed."""
    if name not in registry:
        return []
    text = " ".join((registry[name].__doc__ or "").split())
    authors = {paper.name: paper.authors.split()[0].rstrip(",") for paper in papers}
    authors |= {key: first_author(entry) for key, entry in references().items()}
    return [key for key, author in authors.items() if mentions(text, author, int(key[-4:]))]


def first_author(entry: str) -> str:
    """The family name of the first author of a BibTeX entry, without the commands of TeX.

    >>> first_author("author = {Bi{\\\\'s}, Daniel and Podkorytov, Maksim},")
    'Biś'
    """
    name = entry.partition("author = {")[2].partition(",")[0]
    return re.sub(r"\{\\'(\w)\}", lambda accented: unicodedata.normalize("NFC", accented[1] + "\u0301"), name)


def mentions(text: str, author: str, year: int) -> bool:
    """Whether a text names the source of this first author and year.

    >>> mentions("Facco et al. (2017); Denti et al. (2022).", "Denti", 2022), mentions("Arora et al. (2016).", "Arora", 2017)
    (True, False)
    """
    return re.search(rf"\b{re.escape(author)}\b[^()]{{0,60}}[( ]{year}\)", text) is not None


def citation(results: Results) -> Citation:
    """The citation of a run."""
    table, series = results.table(policy="every"), results.series()
    cited = [key for name in [*table["metric"].unique(), *series["name"].unique()] for key in sources_of(str(name))]
    if (table["family"] == "block").any():
        cited.append("godey2024")
    keys = [OWN, *(name for name in papers.names() if name in cited), *(key for key in references() if key in cited)]
    policies = list(dict.fromkeys(str(policy) for policy in table["policy"]))
    try:
        methods = _methods(results, policies)
    except KeyError as error:
        raise IsoscopeError(f"A cell of {results.path} does not say its {error.args[0]}; measure it again.") from error
    return Citation(methods, {key: bibtex(key) for key in keys})


def _methods(results: Results, policies: list[str]) -> list[str]:
    """One sentence per way in which the run was measured, then one about software, and one about numbers and intervals."""
    manifests = results.manifests()
    measured = [manifest for manifest in manifests if "experiment" not in manifest["identity"]]
    ways: dict[str, list[dict[str, Any]]] = {}
    for manifest in measured:
        ways.setdefault(_describe_measurement(manifest["spec"]), []).append(manifest)
    sentences = [f"We measured {_list_models(own)} {way}." for way, own in ways.items()]
    blocks = {str(m["columns"]["model"]): m["spec"] for m in manifests if m["identity"].get("experiment") == "block"}
    for name, spec in blocks.items():
        sentences.append(
            f"We measured the untrained {name} (d = {spec['d']}, {spec['heads']} heads) on {spec['data']}, {spec['draws']} draws."
        )
    if not sentences:
        raise IsoscopeError(f"{results.path} holds no measurement to cite.")
    sentences.append(f"We used {' and '.join(_list_software(manifests))}.")
    if measured:
        sentences.append(_describe_numbers(measured[0]["spec"], policies))
    return sentences


def _describe_measurement(spec: dict[str, Any]) -> str:
    """The data, how much of it, the length of sequences and the arithmetic."""
    counted = str(spec.get("counted", "points"))
    documents = f"{spec['documents']:,} documents" if counted not in ("images", "rows") else f"{spec['documents']:,} {counted}"
    amount = f"{documents} ({spec['tokens']:,} {counted})" if counted not in ("images", "rows") else documents
    parts = [f"on {amount} of the source “{spec['data']}” (fingerprint {str(spec['fingerprint'])[:12]})"]
    if spec.get("seq_len") and counted not in ("images", "rows"):
        parts.append(f"in sequences of at most {spec['seq_len']:,} {counted}")
    if spec.get("dtype"):
        parts.append(f"in {spec['dtype']}")
    return ", ".join(parts)


def _list_software(manifests: list[dict[str, Any]]) -> list[str]:
    """The software, each version once. Cells derived from others name no torch; they are left out if a longer entry covers them."""
    used: dict[str, None] = {}
    for manifest in manifests:
        spec = manifest["spec"]
        libraries = ", ".join(f"{name} {spec[name]}" for name in ("torch", "transformers", "numpy") if spec.get(name))
        used[f"isoscope {manifest['isoscope']}" + (f" ({libraries})" if libraries else "")] = None
    # A cell that was derived from others names no libraries; its entry is the beginning of that of the cells it came from.
    return [entry for entry in used if not any(other.startswith(f"{entry} (") for other in used)]


def _list_models(manifests: list[dict[str, Any]]) -> str:
    """Models with the beginning of their weights' hash, or the steps and seeds of a suite."""
    models: dict[str, list[dict[str, Any]]] = {}
    for manifest in manifests:
        models.setdefault(str(manifest["columns"]["model"]), []).append(manifest["columns"])
    return ", ".join(f"{name} ({_describe_revision(columns)})" for name, columns in models.items())


def _describe_revision(columns: list[dict[str, Any]]) -> str:
    steps = sorted({own["step"] for own in columns if own.get("step") is not None})
    if len(steps) < 2:
        return f"weights {columns[0]['revision']}"
    seeds = sorted({own["seed"] for own in columns if own.get("seed") is not None})
    more = f", seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else ""
    return f"{len(columns)} checkpoints, steps {steps[0]:,} to {steps[-1]:,}{more}"


def _describe_numbers(spec: dict[str, Any], policies: list[str]) -> str:
    """Which tokens count, and how intervals are made."""
    unit = PLURALS.get(str(spec.get("unit", "document")), "documents")
    sampled = f", those of spectra by a bootstrap of {unit} in a sample of {spec['sample']:,} points" if spec.get("sample") else ""
    chosen = f"token policies {', '.join(policies)}" if len(policies) > 1 else f"token policy {policies[0]}"
    return (
        f"Numbers are exact sums over all points under the {chosen}; 95 % intervals are by a delete-a-group jackknife over {unit}{sampled}."
    )
