"""How a source measures: which points and numbers, the choices it leaves open, and those made here."""

from __future__ import annotations

from dataclasses import dataclass

from isoscope.core.errors import IsoscopeError, nearest

QUESTIONS: dict[str, str] = {
    "cosine": "mean cosine",
    "share": "share of the strongest direction",
    "rank": "dimensions in use",
    "dimension": "intrinsic dimension",
    "drift": "norm of the mean",
    "norm": "mean norm",
}
"""The questions about a cloud, and their names in a table."""


@dataclass(frozen=True)
class Reading:
    """One number of a convention: the question it answers, its metric, and how the source describes it.

    `metric` is empty if no metric does what the source does. `analysis.py` then computes the number under the same question.
    """

    question: str
    metric: str
    how: str
    draws: bool = True
    """Whether something of the source's own is done with single points, and not with sums over all of them."""


@dataclass(frozen=True)
class Convention:
    """How one source measures a cloud."""

    name: str
    reference: str
    """The key of its BibTeX entry in `runs/bibliography.bib`."""
    policy: str
    """The token policy."""
    final: bool
    """Whether its last layer is the state after the final norm, if a model has one, as `output_hidden_states` gives it."""
    readings: tuple[Reading, ...]
    leaves_open: str
    chosen: str


_ALL = (
    Convention(
        name="ethayarajh2019",
        reference="ethayarajh2019",
        policy="no-special",
        final=True,
        readings=(
            Reading("cosine", "", "1,000 sentences, one word of each, 1,000 pairs of these drawn with replacement"),
            Reading("share", "", "variance of these words along the first singular vector of the uncentred matrix, over all variance"),
            Reading("norm", "mean_norm", "mean norm of all words of these sentences"),
        ),
        leaves_open="nothing that the authors' code does not settle; GPT-2's first token counts, BERT's [CLS] and [SEP] do not",
        chosen="documents stand for sentences; all of them where there are fewer than 1,000; words are drawn from the run's sample",
    ),
    Convention(
        name="godey2024",
        reference="godey2024",
        policy="all",
        final=True,
        readings=(
            Reading("cosine", "mean_cosine", "two vectors drawn uniformly from the whole corpus"),
            Reading("drift", "", "norm of the mean vector of a layer", draws=False),
        ),
        leaves_open="the number of pairs, special tokens, whether the last layer is before or after the final norm",
        chosen="all pairs, exactly: the limit of drawing them; every token; the last layer as `output_hidden_states` gives it",
    ),
    Convention(
        name="razzhigaev2024",
        reference="razzhigaev2024",
        policy="all",
        final=True,
        readings=(
            Reading("share", "", "σ₁²/Σσ² of centred batches of 4,096 vectors, averaged"),
            Reading("dimension", "two_nn_batches", "TwoNN on the lowest fifth of μ in batches of 4,096, averaged"),
        ),
        leaves_open="special tokens and attention sinks, how many batches",
        chosen="every token; as many whole batches as the sample has (one by default: --sample 20480 gives five)",
    ),
    Convention(
        name="rankme",
        reference="garrido2023",
        policy="all",
        final=True,
        readings=(Reading("rank", "rankme", "exp of the entropy of σ/Σσ + 1e-7, uncentred"),),
        leaves_open="what a sample is in a model of sequences: the source has one vector per image, 25,600 of them",
        chosen="every token is a sample, and all of them count",
    ),
    Convention(
        name="isoscope",
        reference="isoscope",
        policy="all",
        final=False,
        readings=(
            Reading("cosine", "between_cosine", "all pairs of tokens of different documents, exactly"),
            Reading("share", "top_share", "λ₁/Σλ of all tokens, centred"),
            Reading("rank", "effective_rank", "exp of the entropy of σ/Σσ, centred"),
            Reading("dimension", "two_nn", "TwoNN without the largest tenth of μ, duplicates removed"),
            Reading("drift", "drift_norm", "norm of the mean"),
            Reading("norm", "mean_norm", "mean norm"),
        ),
        leaves_open="which policy is right: `isoscope table --policy every` has them all",
        chosen="every token, so that the numbers can be compared with the others",
    ),
)
CONVENTIONS: dict[str, Convention] = {convention.name: convention for convention in _ALL}
"""By name: those of the literature, and last isoscope's own."""


def find_convention(name: str) -> Convention:
    """The convention of this name.

    >>> find_convention("godey2024").policy
    'all'
    """
    if name not in CONVENTIONS:
        known = list(CONVENTIONS)
        raise IsoscopeError(f"There is no convention {name!r}{nearest(name, known) or '; there are ' + ', '.join(known) + '.'}")
    return CONVENTIONS[name]
