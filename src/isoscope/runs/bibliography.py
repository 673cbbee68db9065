"""Where metrics and conventions come from, as BibTeX. The two papers have theirs in `isoscope.claims`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from isoscope import __version__


@dataclass(frozen=True)
class Reference:
    """One source: its first author and year, by which docstrings name it, and the fields of its BibTeX entry."""

    kind: str
    first: str
    year: int
    fields: tuple[tuple[str, str], ...]

    def bibtex(self, key: str) -> str:
        """The entry."""
        lines = [f"  {name} = {{{value}}}," for name, value in (*self.fields, ("year", str(self.year)))]
        return "\n".join([f"@{self.kind}{{{key},", *lines, "}"])


def _of(kind: str, first: str, year: int, **fields: str) -> Reference:
    return Reference(kind, first, year, tuple(fields.items()))


REFERENCES: dict[str, Reference] = {
    "arora2016": _of(
        "article",
        "Arora",
        2016,
        title="A Latent Variable Model Approach to {PMI}-based Word Embeddings",
        author="Arora, Sanjeev and Li, Yuanzhi and Liang, Yingyu and Ma, Tengyu and Risteski, Andrej",
        journal="Transactions of the Association for Computational Linguistics",
        volume="4",
        pages="385--399",
    ),
    "bis2021": _of(
        "inproceedings",
        "Biś",
        2021,
        title="Too Much in Common: Shifting of Embeddings in Transformer Language Models and its Implications",
        author="Bi{\\'s}, Daniel and Podkorytov, Maksim and Liu, Xiuwen",
        booktitle="Proceedings of the 2021 Conference of the North American Chapter of the Association for Computational Linguistics: "
        "Human Language Technologies",
        pages="5117--5130",
    ),
    "denti2022": _of(
        "article",
        "Denti",
        2022,
        title="The generalized ratios intrinsic dimension estimator",
        author="Denti, Francesco and Doimo, Diego and Laio, Alessandro and Mira, Antonietta",
        journal="Scientific Reports",
        volume="12",
        pages="20005",
        doi="10.1038/s41598-022-20991-1",
    ),
    "ethayarajh2019": _of(
        "inproceedings",
        "Ethayarajh",
        2019,
        title="How Contextual are Contextualized Word Representations? {C}omparing the Geometry of {BERT}, {ELM}o, and {GPT-2} Embeddings",
        author="Ethayarajh, Kawin",
        booktitle="Proceedings of the 2019 Conference on Empirical Methods in Natural Language Processing and the 9th International "
        "Joint Conference on Natural Language Processing",
        url="https://aclanthology.org/D19-1006",
    ),
    "facco2017": _of(
        "article",
        "Facco",
        2017,
        title="Estimating the intrinsic dimension of datasets by a minimal neighborhood information",
        author="Facco, Elena and d'Errico, Maria and Rodriguez, Alex and Laio, Alessandro",
        journal="Scientific Reports",
        volume="7",
        pages="12140",
        doi="10.1038/s41598-017-11873-y",
    ),
    "garrido2023": _of(
        "inproceedings",
        "Garrido",
        2023,
        title="{RankMe}: Assessing the Downstream Performance of Pretrained Self-Supervised Representations by Their Rank",
        author="Garrido, Quentin and Balestriero, Randall and Najman, Laurent and LeCun, Yann",
        booktitle="Proceedings of the 40th International Conference on Machine Learning",
        eprint="2210.02885",
        archivePrefix="arXiv",
    ),
    "gu2025": _of(
        "inproceedings",
        "Gu",
        2025,
        title="When Attention Sink Emerges in Language Models: An Empirical View",
        author="Gu, Xiangming and Pang, Tianyu and Du, Chao and Liu, Qian and Zhang, Fengzhuo and Du, Cunxiao and Wang, Ye and Lin, Min",
        booktitle="International Conference on Learning Representations",
        eprint="2410.10781",
        archivePrefix="arXiv",
    ),
    "levina2004": _of(
        "inproceedings",
        "Levina",
        2004,
        title="Maximum Likelihood Estimation of Intrinsic Dimension",
        author="Levina, Elizaveta and Bickel, Peter J.",
        booktitle="Advances in Neural Information Processing Systems 17",
    ),
    "mackay2005": _of(
        "misc",
        "MacKay",
        2005,
        title="Comments on ``Maximum Likelihood Estimation of Intrinsic Dimension'' by {E}. {L}evina and {P}. {B}ickel (2004)",
        author="MacKay, David J. C. and Ghahramani, Zoubin",
    ),
    "marchenko1967": _of(
        "article",
        "Marchenko",
        1967,
        title="Distribution of eigenvalues for some sets of random matrices",
        author="Marchenko, Vladimir A. and Pastur, Leonid A.",
        journal="Mathematics of the USSR-Sbornik",
        volume="1",
        number="4",
        pages="457--483",
    ),
    "mardia2000": _of(
        "book",
        "Mardia",
        2000,
        title="Directional Statistics",
        author="Mardia, Kanti V. and Jupp, Peter E.",
        publisher="Wiley",
    ),
    "mu2018": _of(
        "inproceedings",
        "Mu",
        2018,
        title="All-but-the-Top: Simple and Effective Postprocessing for Word Representations",
        author="Mu, Jiaqi and Viswanath, Pramod",
        booktitle="International Conference on Learning Representations",
        eprint="1702.01417",
        archivePrefix="arXiv",
    ),
    "radovanovic2010": _of(
        "article",
        "Radovanović",
        2010,
        title="Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data",
        author="Radovanovi{\\'c}, Milo{\\v{s}} and Nanopoulos, Alexandros and Ivanovi{\\'c}, Mirjana",
        journal="Journal of Machine Learning Research",
        volume="11",
        pages="2487--2531",
    ),
    "rajaee2021": _of(
        "inproceedings",
        "Rajaee",
        2021,
        title="A Cluster-based Approach for Improving Isotropy in Contextual Embedding Space",
        author="Rajaee, Sara and Pilehvar, Mohammad Taher",
        booktitle="Proceedings of the 59th Annual Meeting of the Association for Computational Linguistics and the 11th International "
        "Joint Conference on Natural Language Processing (Volume 2: Short Papers)",
        pages="575--584",
        url="https://aclanthology.org/2021.acl-short.73",
    ),
    "roy2007": _of(
        "inproceedings",
        "Roy",
        2007,
        title="The effective rank: A measure of effective dimensionality",
        author="Roy, Olivier and Vetterli, Martin",
        booktitle="15th European Signal Processing Conference",
        pages="606--610",
    ),
    "rudman2022": _of(
        "inproceedings",
        "Rudman",
        2022,
        title="{IsoScore}: Measuring the Uniformity of Embedding Space Utilization",
        author="Rudman, William and Gillman, Nate and Rayne, Taylor and Eickhoff, Carsten",
        booktitle="Findings of the Association for Computational Linguistics: ACL 2022",
        pages="3325--3339",
        url="https://aclanthology.org/2022.findings-acl.262",
    ),
    "timkey2021": _of(
        "inproceedings",
        "Timkey",
        2021,
        title="All Bark and No Bite: Rogue Dimensions in Transformer Language Models Obscure Representational Quality",
        author="Timkey, William and van Schijndel, Marten",
        booktitle="Proceedings of the 2021 Conference on Empirical Methods in Natural Language Processing",
        pages="4527--4546",
        url="https://aclanthology.org/2021.emnlp-main.372",
    ),
    "xiao2024": _of(
        "inproceedings",
        "Xiao",
        2024,
        title="Efficient Streaming Language Models with Attention Sinks",
        author="Xiao, Guangxuan and Tian, Yuandong and Chen, Beidi and Han, Song and Lewis, Mike",
        booktitle="International Conference on Learning Representations",
        eprint="2309.17453",
        archivePrefix="arXiv",
    ),
}
"""By key, in alphabetical order."""

OWN = "isoscope"
"""The key of isoscope's own entry."""


def own_bibtex(version: str = __version__) -> str:
    """isoscope's own entry."""
    title = "isoscope: a microscope for the geometry of Transformer representations"
    return f"@software{{{OWN},\n  title = {{{title}}},\n  version = {{{version}}},\n  license = {{Apache-2.0}},\n}}"


def names(text: str, first: str, year: int) -> bool:
    """Whether a text names the source of this first author and year.

    >>> names("Facco et al. (2017); Denti et al. (2022).", "Denti", 2022), names("Arora et al. (2016).", "Arora", 2017)
    (True, False)
    """
    return re.search(rf"\b{re.escape(first)}\b[^()]{{0,60}}[( ]{year}\)", text) is not None
