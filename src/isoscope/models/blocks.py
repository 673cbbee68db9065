"""Where the blocks of a stack are, found from its structure: no family needs to name them."""

from __future__ import annotations

from torch import nn

from isoscope.core.errors import IsoscopeError


def find_blocks(stack: nn.Module, name: str) -> list[nn.Module]:
    """The repeated blocks of a stack: the longest list of modules of one class that lies inside no other such list.

    >>> [type(block).__name__ for block in find_blocks(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 3), "encoder")]
    ['TransformerEncoderLayer', 'TransformerEncoderLayer', 'TransformerEncoderLayer']
    """
    best: list[nn.Module] = []
    inside: list[str] = []
    for path, module in stack.named_modules():
        if not isinstance(module, nn.ModuleList) or any(path.startswith(outer + ".") for outer in inside):
            continue
        inside.append(path)
        blocks = list(module)
        if blocks and len({type(block) for block in blocks}) == 1 and len(blocks) > len(best):
            best = blocks
    if not best:
        raise IsoscopeError(f"No repeated blocks were found in the {name} ({type(stack).__name__}).")
    return best


def find_norms(stack: nn.Module, blocks: list[nn.Module]) -> list[nn.Module]:
    """The norms of a stack that lie outside its blocks; one of them may be the final norm."""
    within = {id(module) for block in blocks for module in block.modules()}
    return [module for module in stack.modules() if id(module) not in within and "norm" in type(module).__name__.lower()]
