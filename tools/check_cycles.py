"""Fail if modules of isoscope import each other in a circle, imports inside functions included. Imports for type checking do not count."""

from __future__ import annotations

import sys

import grimp


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that can all reach each other (Tarjan's strongly connected components of more than one).

    >>> cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    [['b', 'c']]
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(imports.get(module, ())):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            group = [stack.pop()]
            while group[-1] != module:
                group.append(stack.pop())
            if len(group) > 1:
                groups.append(sorted(group))

    for module in sorted(imports):
        if module not in number:
            visit(module)
    return groups


def main() -> None:
    """Check the package."""
    sys.setrecursionlimit(10_000)
    graph = grimp.build_graph("isoscope", exclude_type_checking_imports=True)
    found = cycles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    for group in found:
        print("These modules import each other in a circle:", ", ".join(group), file=sys.stderr)
    if found:
        raise SystemExit(1)
    print(f"No import cycle among {len(graph.modules)} modules.")


if __name__ == "__main__":
    main()
