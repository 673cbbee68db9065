"""Numbers, intervals, durations, names and text as readers see them, so that a value looks the same wherever it is printed.

Tables and JSON carry every digit; these functions are for sentences, pages and terminals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

NOT_DEFINED = "not defined"
ROUNDING = 1e-13
"""A smaller difference of numbers of the order of 1 is what rounding leaves of no difference."""
FINAL_NORM = "final norm"
"""The short name of the state after the final norm."""
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that steer a terminal, reverse the direction of text, or are no characters; tabs and line feeds are not among them."""


def plain(text: str) -> str:
    """A text that a terminal may show: characters that would steer the terminal are replaced by their escapes.

    >>> plain("red \\x1b[31mname"), plain("as it is: é, 東")
    ('red \\\\x1b[31mname', 'as it is: é, 東')
    """
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def format_number(x: float, *, missing: str = NOT_DEFINED, sign: bool = False, digits: int = 3) -> str:
    """Three significant digits, with separators from 1,000 on; `missing` if the number is not finite; `sign` also writes a plus.

    >>> [format_number(x) for x in (0.61234, 0.5, 3.0, 0.0123, 0.0000213, 412.31, 12345.6, 0.0, -0.0)]
    ['0.612', '0.500', '3.00', '0.0123', '2.13e-05', '412', '12,346', '0.00', '0.00']
    >>> format_number(float("nan")), format_number(float("nan"), missing=""), format_number(0.25, sign=True), format_number(9e-5, digits=1)
    ('not defined', '', '+0.250', '9e-05')
    """
    if not math.isfinite(x):
        return missing
    return _with_digits(float(x), digits, sign=sign)


def _with_digits(x: float, digits: int, *, sign: bool = False) -> str:
    x, plus = x or 0.0, "+" if sign else ""  # no zero is negative
    # The format g turns to powers of ten once a number has more digits before the point than it may show: 1.23e+03.
    if abs(x) >= 10**digits - 0.5:
        return f"{x:{plus},.0f}"
    # The flag # keeps trailing zeros, and also the point of "412." and of "9.e-05".
    return f"{x:{plus}#.{digits}g}".rstrip(".").replace(".e", "e")


def format_change(x: float) -> str:
    """A difference of two numbers with its sign; a plain zero if it is no more than the rounding of float64, nothing if it is not finite.

    >>> format_change(0.25), format_change(-1e-9), format_change(5.55e-17), format_change(float("nan"))
    ('+0.250', '-1.00e-09', '0', '')
    """
    return "0" if abs(x) <= ROUNDING else format_number(x, missing="", sign=True)


def format_interval(low: float, high: float, *, sign: bool = False) -> str:
    """Both ends of an interval, with as many digits as tell them apart; nothing if an end is not finite.

    >>> format_interval(0.25, 0.31), format_interval(0.36014, 0.36042), format_interval(float("nan"), 1.0)
    ('0.250 to 0.310', '0.3601 to 0.3604', '')
    """
    return " to ".join(_ends(low, high, sign=sign))


def format_estimate(value: float, low: float, high: float) -> str:
    """A value with its interval in brackets, which is left out if it is not known; nothing if the value is not defined.

    >>> nan = float("nan")
    >>> format_estimate(0.5, 0.25, 1.0), format_estimate(0.5, nan, nan), format_estimate(nan, 0.0, 1.0)
    ('0.500 [0.250, 1.00]', '0.500', '')
    """
    ends = _ends(low, high) if math.isfinite(value) else []
    return format_number(value, missing="") + (f" [{', '.join(ends)}]" if ends else "")


def _ends(low: float, high: float, *, sign: bool = False) -> list[str]:
    if not (math.isfinite(low) and math.isfinite(high)):
        return []
    # Ends that differ by less than a thousandth would look the same with three digits.
    pairs = [[_with_digits(float(end), digits, sign=sign) for end in (low, high)] for digits in range(3, 9)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


def format_share(x: float) -> str:
    """A part of a whole in percent.

    >>> format_share(0.4567), format_share(0.0123), format_share(0.00004), format_share(0)
    ('46 %', '1.2 %', '0.0040 %', '0 %')
    """
    if not math.isfinite(x):
        return NOT_DEFINED
    percent = 100 * abs(x)
    digits = 0 if percent >= 10 or percent == 0 else 1 if percent >= 1 else 2 if percent >= 0.1 else 4
    return f"{100 * x:.{digits}f} %"


def format_p_value(p: float) -> str:
    """The p-value of a test, as a sentence cites it: two digits are as many as it is worth.

    >>> format_p_value(0.0312), format_p_value(float("nan"))
    ('p = 0.031', 'p is not defined')
    """
    return f"p = {format_number(p, digits=2)}" if math.isfinite(p) else "p is not defined"


def format_duration(seconds: float) -> str:
    """An estimated time in the unit that suits it, one second at least.

    >>> [format_duration(x) for x in (0.2, 42, 600, 9000)]
    ['1 s', '42 s', '10 min', '2.5 h']
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def format_bytes(size: float) -> str:
    """A size in powers of 1,000.

    >>> [format_bytes(size) for size in (812, 65_536, 1_530_000_000, 2.4e12)]
    ['812 B', '66 KB', '1.5 GB', '2.4 TB']
    """
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB" if size < 1000 else f"{size / 1000:.1f} TB"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> format_count(1, "model"), format_count(3, "site"), format_count(2000, "family", "families")
    ('1 model', '3 sites', '2,000 families')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def format_list(words: Iterable[str], most: int | None = None) -> str:
    """Words joined by commas and a last "and"; with `most`, the first ones and how many more there are.

    >>> format_list(["a", "b", "c"]), format_list(["a"]), format_list("abcdef", most=4)
    ('a, b and c', 'a', 'a, b, c, d and 2 more')
    """
    shown = list(words)
    if most is not None and len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def format_runs(numbers: Iterable[int]) -> str:
    """Numbers in order, with consecutive ones joined.

    >>> format_runs([3, 0, 1, 2, 7]), format_runs([])
    ('0–3 and 7', '')
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return format_list(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def format_numbered(noun: str, numbers: Iterable[int]) -> str:
    """Numbered things: layers, heads, seeds.

    >>> format_numbered("layer", [4]), format_numbered("layer", [0, 1, 2, 5]), format_numbered("head", [])
    ('layer 4', 'layers 0–2 and 5', 'no head')
    """
    known = list(numbers)
    return f"{noun}{'' if len(known) == 1 else 's'} {format_runs(known)}" if known else f"no {noun}"


def short_site_name(kind: object, layer: object) -> str:
    """A site within its stack: the number of a layer, or the kind of any other site.

    >>> short_site_name("hidden", 3), short_site_name("final", 12), short_site_name("input_embedding", None)
    ('3', 'final norm', 'input embedding')
    """
    if kind == "hidden" and not _is_missing(layer):
        return str(layer)
    return FINAL_NORM if kind == "final" else str(kind).replace("_", " ")


def format_site(kind: object, layer: object, stack: object = None) -> str:
    """A site in a sentence; `stack` is named for a model that has several.

    >>> format_site("hidden", 3), format_site("hidden", 3, "decoder"), format_site("final", 12)
    ('layer 3', 'decoder layer 3', 'the state after the final norm')
    """
    name = short_site_name(kind, layer)
    if not name.isdigit():
        return _spell_out(name)
    return f"layer {name}" if stack is None else f"{stack} layer {name}"


def format_sites(names: Iterable[str]) -> str:
    """Sites of one stack in a sentence, by their short names.

    >>> format_sites(["0", "1", "2", "5", "final norm"])
    'layers 0–2 and 5, and the state after the final norm'
    >>> format_sites(["4"]), format_sites([])
    ('layer 4', 'no layer')
    """
    known = list(names)
    layers = [int(name) for name in known if name.isdigit()]
    others = [_spell_out(name) for name in known if not name.isdigit()]
    return ", and ".join([*([format_numbered("layer", layers)] if layers or not others else []), *others])


def _spell_out(name: str) -> str:
    return f"the state after the {FINAL_NORM}" if name == FINAL_NORM else f"the {name}"


def _is_missing(value: object) -> bool:
    """Whether a cell of a table is empty: None, NaN, or the NA of pandas, which equals nothing and is not imported for this."""
    return value is None or str(value) == "<NA>" or value != value
