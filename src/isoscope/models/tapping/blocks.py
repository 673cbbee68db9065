"""The blocks of a stack, named by a pattern or found from its structure, and the states that they take and give."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError

Blocks = list[tuple[str, nn.Module]]
"""Paths and modules, in the order of the pass."""


def find_blocks(stack: nn.Module, name: str, pattern: str | None = None) -> Blocks:
    """The repeated blocks of a stack: those whose path matches the pattern, or without one the largest repeated structure.

    A repeated structure is the members of a list of modules that lies in no other such list, together with the members at the same place
    of sister lists (`layer1.0`, `layer2.0`); the largest is the one with the most parameters.

    >>> class Model(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.stem = nn.Linear(4, 8)
    ...         self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
    >>> [path for path, _ in find_blocks(Model(), "encoder")]
    ['layers.0', 'layers.1', 'layers.2']
    >>> find_blocks(Model(), "encoder", "st*")[0][0]
    'stem'
    """
    named = dict(stack.named_modules())
    if pattern is not None:
        wanted = re.compile("[^.]*".join(re.escape(part) for part in pattern.split("*")))
        matching = [(path, module) for path, module in named.items() if path and wanted.fullmatch(path)]
        if not matching:
            raise IsoscopeError(f"No module of the {name} ({type(stack).__name__}) matches {pattern!r}; blocks are named as in layers.*.")
        return matching
    groups: dict[tuple[str, str], Blocks] = {}
    outer: list[str] = []
    for path, module in named.items():
        parent = named.get(path.rpartition(".")[0], stack)
        listed = isinstance(parent, nn.ModuleList | nn.Sequential) and path.rpartition(".")[2].isdecimal()
        if not listed or _is_only_a_list(module) or any(path.startswith(before + ".") for before in outer):
            continue
        outer.append(path)
        kind = "" if isinstance(parent, nn.ModuleList) else type(module).__name__
        groups.setdefault((re.sub(r"\d+", "*", path), kind), []).append((path, module))
    if not groups:
        raise IsoscopeError(f"No repeated blocks were found in the {name} ({type(stack).__name__}); name them, as in blocks='layers.*'.")
    return max(groups.values(), key=lambda blocks: sum(p.numel() for _, block in blocks for p in block.parameters()))


def _is_only_a_list(module: nn.Module) -> bool:
    """Whether blocks are to be looked for inside a list. A sequence of plain layers (linear, activation, …) is a block itself."""
    if isinstance(module, nn.Sequential):
        return any(True for child in module for _ in child.children())
    return isinstance(module, nn.ModuleList)


def find_norms(stack: nn.Module, blocks: Blocks) -> list[nn.Module]:
    """The norms of a stack outside its blocks; one of them may be the final norm."""
    within = {id(module) for _, block in blocks for module in block.modules()}
    return [module for module in stack.modules() if id(module) not in within and is_norm(module)]


def is_norm(module: nn.Module) -> bool:
    """Whether a module normalises."""
    return "norm" in type(module).__name__.lower()


def is_activation(module: nn.Module) -> bool:
    """Whether a module is a nonlinearity that acts on every number by itself."""
    kind = type(module)
    plain = kind.__module__ in ("torch.nn.modules.activation", "transformers.activations")
    return plain and not any(word in kind.__name__ for word in ("Softmax", "Softmin", "Attention", "GLU"))


def number_stages(blocks: Blocks) -> list[int] | None:
    """The stage of each block if blocks lie in lists within lists, else None.

    >>> number_stages([("stages.0.layers.0", nn.ReLU()), ("stages.1.layers.0", nn.ReLU())])
    [1, 2]
    """
    numbers = [re.findall(r"\d+", path) for path, _ in blocks]
    if not all(len(of_path) > 1 for of_path in numbers):
        return None
    order = list(dict.fromkeys(of_path[0] for of_path in numbers))
    return [order.index(of_path[0]) + 1 for of_path in numbers]


def state_of(output: Any) -> Tensor:
    """The hidden state among the inputs or outputs of a block: (b, t, d), a map (b, d, h, w) or, of a plain module, (b, d)."""
    candidates = list(output.values()) if isinstance(output, dict) else output if isinstance(output, tuple | list) else [output]
    tensors = [value for value in candidates if isinstance(value, Tensor) and value.is_floating_point()]
    for dimensions in ((3, 4), (2,)):
        for tensor in tensors:
            if tensor.dim() in dimensions:
                return tensor
    raise IsoscopeError(
        "A block gives no tensor of shape (batch, positions, dimensions); name other blocks, or give the model a family of its own."
    )


def points_of(tensor: Tensor) -> Tensor:
    """A state as (b, t, d): every position of a map is a point."""
    if tensor.dim() == 4:
        return tensor.flatten(2).transpose(1, 2)
    return tensor[:, None] if tensor.dim() == 2 else tensor


def activation_null(module: nn.Module) -> float:
    """The mean cosine of vectors of independent standard normals behind this activation: (E f)²/E f².

    >>> round(activation_null(nn.ReLU()) * torch.pi, 4)
    1.0
    """
    z = torch.linspace(-8, 8, 16_001, dtype=torch.float64)
    weights = torch.exp(-z * z / 2)
    with torch.inference_mode():
        f = module(z.clone())
    return float((weights @ f) ** 2 / (weights @ f**2 * weights.sum()))
