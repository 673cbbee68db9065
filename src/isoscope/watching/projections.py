"""The weights that make queries and keys, found by following attention back to them, and the size of their gradients."""

# mypy: allow-subclassing-any
from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from isoscope.measuring.single_pass import Pass
from isoscope.models.tapping.attention_tap import MULTI_HEAD_ATTENTION, AttentionTap
from isoscope.models.tapping.lineage import Lineage, Node, trace_lineage
from isoscope.models.tapping.torch_functions import Role
from isoscope.watching.sharded import is_divided, sharding_modules

if TYPE_CHECKING:
    from isoscope.models.tapping.lineage import AttentionSide

NAMED = {
    "query": re.compile(r"^(w_?q|q|q_?(proj|projection|lin|linear)|quer(y|ies)(_\w+)?)$", re.IGNORECASE),
    "key": re.compile(r"^(w_?k|k|k_?(proj|projection|lin|linear)|keys?(_(?!value)\w+)?)$", re.IGNORECASE),
}
"""Names of modules that make queries and keys, for models in which following tensors does not find them."""

BY_NAME = "its weight was found by name"
WHOLE = "of the whole weight, whatever else it makes"


@dataclass(frozen=True)
class Projection:
    """The part of a weight that makes queries or keys."""

    owner: nn.Module
    """The module that holds the weight. FSDP2 puts a part of it in its place after a forward pass, which is what has a gradient."""
    name: str
    outputs: Tensor | None = None
    """Which of its outputs; None: all of them."""
    width: int = 0
    """How many outputs it has."""
    note: str = ""
    """How it was found, if a reader should know."""

    def squared_gradient(self) -> float:
        """The sum of the squares of its gradient; NaN if it has none. All processes that hold a part of it must ask together."""
        gradient = getattr(self.owner, self.name).grad
        if gradient is None:
            return float("nan")
        if is_divided(gradient):
            gradient = gradient.full_tensor()
        if self.outputs is not None:
            gradient = gradient.index_select(0 if gradient.shape[0] == self.width else 1, self.outputs.to(gradient.device))
        return float(gradient.detach().float().square().sum())


Projections = dict[tuple[str, int], list[Projection]]
"""By query or key and layer: the projections that make them."""


def gradient_norms(projections: Projections) -> dict[tuple[str, int], float]:
    """The norm of the gradient of the weights that make the queries and the keys of each layer; those without a gradient are left out."""
    sums = {place: sum(part.squared_gradient() for part in parts) for place, parts in projections.items()}
    return {place: total**0.5 for place, total in sums.items() if not math.isnan(total)}


def find_projections(single_pass: Pass, run: Callable[[], object], stack: str) -> Projections:
    """The projections of every layer with self-attention: found by following its queries and keys back, or else by name."""
    module = single_pass.feeder.stacks[stack].module
    tap = ProjectionTap(single_pass.tap.running)
    with noting_owners(module, tap.owners):
        single_pass.follow(run, tap)
    blocks, depth = single_pass.tap.stacks[stack], single_pass.tap.depth[stack]
    for layer in range(1, depth + 1) if len(blocks) == depth else ():
        for kind, pattern in NAMED.items():
            if (kind, layer) in tap.attended and (kind, layer) not in tap.projections:
                parts = [(path.split("."), weight) for path, weight in blocks[layer - 1][1].named_parameters() if weight.dim() > 1]
                named = [tap.make(weight, note=BY_NAME) for path, weight in parts if len(path) > 1 and pattern.match(path[-2])]
                if found := [projection for projection in named if projection is not None]:
                    tap.projections[kind, layer] = found
    return tap.projections


@contextlib.contextmanager
def noting_owners(module: nn.Module, owners: dict[int, tuple[nn.Module, str]]) -> Iterator[None]:
    """Note within this context which module holds each parameter, and under which name; `owners` goes by the parameters' identity."""

    def note(whole: nn.Module, *_: Any) -> None:
        for part in whole.modules():
            owners.update((id(weight), (part, name)) for name, weight in part.named_parameters(recurse=False))

    note(module)
    # FSDP2 puts whole parameters in place before each forward pass. Its hooks come first, so these see what the forward pass sees.
    handles = [part.register_forward_pre_hook(note) for part in sharding_modules(module)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class ProjectionTap(AttentionTap):
    """A tap of attention that keeps which weights made queries and keys, and nothing else."""

    def __init__(self, where: Callable[[], tuple[str, int] | None]) -> None:
        super().__init__(where, lambda call: None)
        self.projections: Projections = {}
        self.attended: set[tuple[str, int]] = set()
        self.owners: dict[int, tuple[nn.Module, str]] = {}

    def make(self, weight: nn.Parameter, outputs: Tensor | None = None, width: int = 0, note: str = "") -> Projection | None:
        """A projection by this weight; None if no module holds it."""
        owner = self.owners.get(id(weight))
        return None if owner is None else Projection(*owner, outputs, width, note)

    def _deliver(self, query: AttentionSide, key: AttentionSide, weight_id: int | None, **rest: Any) -> None:
        if key.node.leaves & query.node.first:
            for kind, side in (("query", query), ("key", key)):
                self._note(kind, self._find_projection(side.line))

    def _see_multi_head_attention(self, *args: Any, **kwargs: Any) -> None:
        given = MULTI_HEAD_ATTENTION.bind(*args, **kwargs).arguments
        if self._graph.node_of(given["query"]).first & self._graph.node_of(given["key"]).leaves:
            whole, d = given["in_proj_weight"], int(given["embed_dim_to_check"])
            for i, kind in enumerate(("query", "key")):
                separate = given.get(f"{kind[0]}_proj_weight") if given.get("use_separate_proj_weight") else None
                made = self.make(whole, torch.arange(i * d, (i + 1) * d), 3 * d) if separate is None else self.make(separate)
                self._note(kind, made)

    def _note(self, kind: str, made: Projection | None) -> None:
        place = (kind, (self._block or ("", 0))[1])
        self.attended.add(place)
        if made is not None and all((made.owner, made.name) != (other.owner, other.name) for other in self.projections.get(place, [])):
            self.projections.setdefault(place, []).append(made)

    def _find_projection(self, line: Lineage) -> Projection | None:
        """The projection at the beginning of a lineage, past norms of queries and keys; None if its weight is not a parameter."""
        own = line.nodes[0].first
        while True:
            parents = line.end.parents
            weights = [held for parent in parents if parent.parameter and isinstance(held := parent.ref(), nn.Parameter)]
            matrix = next((held for held in weights if held.dim() > 1), None)
            if matrix is not None:
                outputs, width = _outputs(line), line.end.shape[-1]
                if outputs is None:
                    return self.make(matrix, note=WHOLE)
                return self.make(matrix, None if len(outputs) == width else outputs, width)
            # No weight here: a norm or a scaling of queries. Continue with the state that it read, unless it mixes in another one.
            before = next((parent for parent in parents if parent.leaves & own), None)
            if before is None or any(not parent.leaves and not parent.parameter for parent in parents):
                return None
            line = trace_lineage(before)


def _outputs(line: Lineage) -> Tensor | None:
    """Which outputs of the projection reach the end of the lineage: their numbers go the way that the states went."""
    chain: list[Node] = line.nodes[::-1]
    x = torch.arange(line.end.shape[-1]).expand(line.end.shape).contiguous()
    for node, rotated in zip(chain[1:], line.rotated[::-1], strict=True):
        if node.role is Role.SHAPE and node.replay is not None and not rotated:
            # The numbers of the outputs are sent through the same reshapes and slices as the outputs themselves.
            func, rest, kwargs, which = node.replay
            made = func(x, *rest, **kwargs)
            made = made if which is None else made[which]
            x = made if made.dtype == x.dtype else x  # a cast would round numbers
        if node.shape != tuple(x.shape):
            return None
    return x.unique()
