"""Modules of the engine import each other in one direction only, imports inside functions included."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import isoscope.measuring

ROOT = Path(isoscope.measuring.__file__).parent


def imported_names(node):
    """What a syntax tree imports, at any depth; imports for type checking do not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom):
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from imported_names(child)


def test_no_import_cycle_in_the_engine():
    trees = {
        ".".join(("isoscope.measuring", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for path in ROOT.rglob("*.py")
    }
    imports = {module: {name for name in imported_names(tree) if name in trees and name != module} for module, tree in trees.items()}
    assert "isoscope.measuring.module_feeder" in imports["isoscope.measuring.measure"]  # which is imported inside a function
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from error
