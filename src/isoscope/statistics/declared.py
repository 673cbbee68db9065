"""What a metric, a series and a profile have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class Declared:
    """A function declared under its own name: how figures call it, what its docstring says, whether it is computed only where named."""

    def __init__(self, function: Callable[[Any], Any], *, title: str, on_request: bool) -> None:
        self.name: str = function.__name__
        self.title, self.on_request = title, on_request
        self.__doc__ = inspect.cleandoc(function.__doc__ or "")
        self.__name__, self.__module__, self.__wrapped__ = function.__name__, function.__module__, function

    @property
    def summary(self) -> str:
        """What it means, in one sentence."""
        return (self.__doc__ or "").split("\n\n")[0].replace("\n", " ")

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}>"
