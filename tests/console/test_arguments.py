"""Options that several verbs share mean the same everywhere."""

import re
from collections import defaultdict
from typing import Any, get_args, get_type_hints

from isoscope.cli.app import list_verbs
from isoscope.console import arguments
from isoscope.studies.definitions.conventions import CONVENTIONS


def test_the_help_names_every_convention():
    assert sorted(re.split(", | or ", arguments.CONVENTIONS)) == sorted(CONVENTIONS)


def test_an_option_of_several_verbs_takes_the_same_kind_of_value():
    kinds: dict[str, dict[Any, list[str]]] = defaultdict(lambda: defaultdict(list))
    for verbs in list_verbs().values():
        for verb, run in verbs.items():
            for name, hint in get_type_hints(run).items():
                kinds[name][hint].append(verb)
    for name in ("json", "quiet", "threads", "executor", "address", "column", "key", "allow_wide", "device", "dtype", "sample", "out"):
        base = {next(iter(set(get_args(hint)) - {type(None)}), hint) for hint in kinds[name]}
        assert len(base) == 1, (name, dict(kinds[name]))
    assert len(kinds["json"][bool]) > 10
