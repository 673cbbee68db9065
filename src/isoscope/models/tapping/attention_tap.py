"""The attention tap: sees every attention of a forward pass where torch computes it, whatever module calls it."""

# mypy: allow-subclassing-any
from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.models.model_errors import HookGuard
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.lineage import AttentionSide, Lineage, trace_lineage
from isoscope.models.tapping.tap import autocast_off
from isoscope.models.tapping.tensor_graph import TensorGraph
from isoscope.models.tapping.torch_functions import Role, TorchCall, is_on_host, role_of
from isoscope.models.tapping.written_scores import CLOSED, Scores

MULTI_HEAD_ATTENTION = inspect.signature(functional.multi_head_attention_forward)
LOWEST_SCORE = -1e6
"""A score below this is masked, even in a row of padding in which all scores are."""


class AttentionTap(TorchFunctionMode):
    """A context around forward passes in which `receive(call)` gets every attention of every block, before it is computed.

    `where()` returns the running block as (stack, layer), or None outside all blocks; attention outside blocks is ignored. The tap sees
    `scaled_dot_product_attention`, `multi_head_attention_forward` (which `nn.MultiheadAttention` calls), and a softmax of a product of two
    activations. The model computes exactly what it computes without the tap. The model may overwrite the tensors of a call afterwards, so
    `receive` must use them at once. An exception of the tap or of `receive` is raised when the context ends, even if the model caught it.

    A call is cross-attention if its keys do not derive from the block's own input. Of the tensors from outside the block from which its
    queries derive, the block's own input is the one that entered first. Several calls at one site are normal if one module attends window
    by window, as in CANINE. Two modules of one block that both attend to the block's input are refused, because their heads would be mixed.

    If attention is written out, a position is closed if its score is 5,000 or more below the largest of its row, or below −1,000,000 (in
    float16 −32,752): models write masks as −10,000, −1e9, the smallest number of a type or −∞. The same holds for the numbers of a float
    mask. Smaller penalties, such as the −100 that Swin puts between windows, are a bias. All positions of a row of padding may be closed.
    """

    def __init__(self, where: Callable[[], tuple[str, int] | None], receive: Callable[[AttentionCall], None]) -> None:
        super().__init__()
        self.receive = receive
        self.wants_bias = True
        """Whether a bias is computed of scores that a model writes out: only attention with other queries needs it."""
        self.guard = HookGuard()
        self._see_call, self._see_output = self.guard.wrap(self._before_call), self.guard.wrap(self._after_call)
        self._where = where
        self._block: tuple[str, int] | None = None
        self._graph = TensorGraph()
        self._weight_ids: dict[str, int] = {}
        self._mask: tuple[Tensor, Tensor | None, Tensor | None] | None = None
        self._causal: Tensor | None = None
        self._device_masks: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}
        self._see_attention: dict[str, Callable[..., None]] = {
            "scaled_dot_product_attention": self._see_fused_attention,
            "multi_head_attention_forward": self._see_multi_head_attention,
            "softmax": self._see_softmax,
            "special_softmax": self._see_softmax,
        }

    def __exit__(self, *raised: Any) -> None:
        self._enter(None)
        self._mask = self._causal = None
        self._device_masks.clear()
        super().__exit__(*raised)
        self.guard.raise_own_error()

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Look at one torch function, and call it."""
        # A mode is off while it handles a function, so torch functions that the tap itself calls are not seen here.
        kwargs = kwargs or {}
        call = self._see_call(func, args, kwargs)
        output = func(*args, **kwargs)
        if call is not None:
            self._see_output(call, output)
        return output

    def _before_call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TorchCall | None:
        """Look at a call before it is made; None if its result need not be recorded."""
        block = self._where()
        if block != self._block:
            self._enter(block)
        if block is None:
            return None
        role, name = role_of(func)
        if role is Role.SKIP:
            return None
        call = TorchCall(role, name, func, args, kwargs)
        if role is Role.ATTENTION:
            # Before the call, while its inputs are certainly unchanged.
            self._see_attention[name](*args, **kwargs)
        elif call.writes and isinstance(written := next(iter(call.values), None), Tensor):
            self._graph.copy_before_write(written)
        return call

    def _after_call(self, call: TorchCall, output: Any) -> None:
        self._graph.record_call(call, output)

    def _enter(self, block: tuple[str, int] | None) -> None:
        # Leaves are counted per block, and a node must not keep the tensors of an earlier block alive.
        self._block = block
        self._graph.clear()
        self._weight_ids.clear()

    def _deliver(self, query: AttentionSide, key: AttentionSide, weight_id: int | None, **rest: Any) -> None:
        """Give a call to `receive`. The weight of the queries tells whether another module attends in the same block."""
        stack, layer = self._block or ("", 0)
        kind = "attention" if key.node.leaves & query.node.first else "cross_attention"
        if weight_id is not None and self._weight_ids.setdefault(kind, weight_id) != weight_id:
            raise IsoscopeError(
                f"Layer {layer} of the {stack} holds more than one module of {kind.replace('_', '-')}; name smaller blocks, as in "
                "blocks='layers.*.attention.*', so that each holds one."
            )
        q, k = query.tensor, key.tensor
        if q.shape[1] % k.shape[1] or q.shape[0] != k.shape[0] or q.shape[-1] != k.shape[-1]:
            raise self._cannot_follow(f"keys of shape {tuple(k.shape)} do not fit queries of shape {tuple(q.shape)}")
        with autocast_off():
            self.receive(AttentionCall(Site(stack, kind, layer), q, k, plain_query=query.plain, plain_key=key.plain, **rest))

    def _cannot_follow(self, why: str) -> IsoscopeError:
        stack, layer = self._block or ("", 0)
        return IsoscopeError(f"The attention of layer {layer} of the {stack} cannot be followed: {why}; measure without attention.")

    def _see_fused_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        """`scaled_dot_product_attention`."""
        lead = tuple(query.shape[:-2])
        nodes = self._graph.node_of(query), self._graph.node_of(key)
        lines = trace_lineage(nodes[0]), trace_lineage(nodes[1])
        heads = lines[0].count_heads() or 1 if len(lead) == 1 else 1
        queries, keys = (
            AttentionSide.from_tensor(tensor, node, line, lambda x: _as_four_axes(x, heads))
            for tensor, node, line in zip((query, key), nodes, lines, strict=True)
        )
        bias, mask = None, None
        if is_causal:
            mask = self._causal_mask(query.shape[-2], key.shape[-2], query.device)
        elif attn_mask is not None:
            bias, mask = (None if x is None else _broadcast_mask(x, lead, heads) for x in self._split_mask(attn_mask))
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        self._deliver(queries, keys.without_copies(), lines[0].weight_id, scale=scale, bias=bias, mask=mask, scores=None)

    def _causal_mask(self, t: int, s: int, device: torch.device) -> Tensor:
        """(1, 1, t, s) which keys each query may see. All layers get the same tensor."""
        last = self._causal
        if last is None or (*last.shape[2:], last.device) != (t, s, device):
            self._causal = last = torch.ones(t, s, dtype=torch.bool, device=device).tril()[None, None]
        return last

    def _split_mask(self, mask: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The bias in a mask and the positions it leaves open. Models give every layer the same mask, so the last result is kept."""
        if mask.dtype == torch.bool:
            return None, mask
        if not is_on_host(mask):
            # Its numbers cannot be looked at, so it counts as both. Layers may make views of their own of the same numbers.
            key = mask.data_ptr(), mask.shape, mask.stride()
            if key not in self._device_masks:
                self._device_masks[key] = mask, mask > CLOSED
            return self._device_masks[key]
        if self._mask is None or self._mask[0] is not mask:
            is_open = _open_positions(mask)
            bias = mask.masked_fill(~is_open, 0)
            self._mask = (mask, bias if bool(bias.any()) else None, None if bool(is_open.all()) else is_open)
        return self._mask[1:]

    def _see_multi_head_attention(self, *args: Any, **kwargs: Any) -> None:
        """`multi_head_attention_forward`: projections and attention in one function, with inputs (t, b, d) or (t, d).

        The projections within this function are not seen, because the mode is off while it runs. They are computed here once more.
        """
        bound = MULTI_HEAD_ATTENTION.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        query, key = given["query"], given["key"]
        if given["bias_k"] is not None or given["add_zero_attn"] or given["static_k"] is not None:
            raise self._cannot_follow("bias_k, add_zero_attn and static_k of nn.MultiheadAttention put in keys that no position has")
        separate, packed = given["use_separate_proj_weight"], given["in_proj_weight"]
        weights = [given["q_proj_weight"], given["k_proj_weight"]] if separate or packed is None else packed.chunk(3)[:2]
        if any(weight is None for weight in weights):
            raise self._cannot_follow("nn.MultiheadAttention has no weights for queries and keys")
        biases = (None, None) if given["in_proj_bias"] is None else given["in_proj_bias"].chunk(3)[:2]
        inputs = [tensor if tensor.dim() == 3 else tensor[:, None] for tensor in (query, key)]
        if query is key and not separate and packed is not None:  # both in one product, as the module computes them
            both = slice(0, 2 * len(packed) // 3)
            bias = None if given["in_proj_bias"] is None else given["in_proj_bias"][both]
            outputs = list(functional.linear(inputs[0].transpose(0, 1), packed[both], bias).chunk(2, -1))
        else:
            outputs = [functional.linear(x.transpose(0, 1), w, bias) for x, w, bias in zip(inputs, weights, biases, strict=True)]
        sides = []
        for tensor, output in zip((query, key), outputs, strict=True):
            projected = output.unflatten(-1, (given["num_heads"], -1)).transpose(1, 2)
            node = self._graph.node_of(tensor)
            sides.append(AttentionSide(projected, projected, node, Lineage([node], [], node)))
        b, h, t, e = sides[0].tensor.shape
        s = key.shape[0]
        added = [
            x[None, None] if name == "attn_mask" and x.dim() == 2 else x.reshape(shape)
            for name, shape in (("attn_mask", (-1, h, t, s)), ("key_padding_mask", (b, 1, 1, s)))
            if (x := _as_additive_mask(given[name], query.dtype)) is not None
        ]
        bias, mask = self._split_mask(sum(added[1:], added[0])) if added else (None, None)
        weight_id = id(given["q_proj_weight"] if separate else packed)
        self._deliver(sides[0], sides[1], weight_id, scale=e**-0.5, bias=bias, mask=mask, scores=None)

    def _see_softmax(self, input: Tensor, dim: int | None = None, *_: Any, **__: Any) -> None:
        """A softmax. It is attention if its argument comes from a product of two activations."""
        node = self._graph.find_node(input)
        if node is None or node.scores is None or dim is None:
            return
        scores, axis = node.scores, dim % input.dim()
        if scores.lost:
            raise self._cannot_follow("its scores are cut or joined before the softmax")
        *lead, rows, columns = scores.order
        if axis == rows:
            # The model computed k qᵀ: the softmax over its rows makes them the keys. Factors of rows no longer belong to queries.
            scores = replace(
                scores,
                operands=scores.operands[::-1],
                nodes=scores.nodes[::-1],
                forms=scores.forms[::-1],
                order=(*lead, columns, rows),
                factors=(),
                biased=scores.biased or bool(scores.factors),
            )
        if axis in (rows, columns):
            self._deliver_scores(scores, input.permute(scores.order))

    def _deliver_scores(self, scores: Scores, given: Tensor) -> None:
        """Deliver attention that a model writes out; `given` (…, t, s) is the input of its softmax."""
        lines = trace_lineage(scores.nodes[0]), trace_lineage(scores.nodes[1])
        folded = given.dim() == 3
        heads = (scores.lead[1] if len(scores.lead) == 2 else lines[0].count_heads() or 1) if folded else 1
        given = _as_four_axes(given, heads)
        b, h, t, s = given.shape
        query_form, key_form = scores.forms

        def as_queries(x: Tensor) -> Tensor:
            x = query_form(x)
            for factor in scores.factors:
                x = x * factor
            return x.expand(*scores.lead, *x.shape[-2:]).reshape(b, h, *x.shape[-2:])

        def as_keys(x: Tensor) -> Tensor:
            x = key_form(x)
            is_shared = x.dim() == 4 and x.shape[:2] == (b, 1)  # one key head for all query heads stays one
            return x if is_shared else x.expand(*scores.lead, *x.shape[-2:]).reshape(b, h, *x.shape[-2:])

        sizes = query_form(scores.operands[0]).shape[-2], key_form(scores.operands[1]).shape[-2]
        if sizes != (t, s) or torch.Size(scores.lead).numel() != b * h:
            raise self._cannot_follow(f"scores of shape {tuple(given.shape)} do not fit {sizes[0]} queries and {sizes[1]} keys")
        query = AttentionSide.from_tensor(scores.operands[0], scores.nodes[0], lines[0], as_queries)
        key = AttentionSide.from_tensor(scores.operands[1], scores.nodes[1], lines[1], as_keys).without_copies()
        mask = _open_positions(given) if scores.masked or scores.biased else None
        bias = None
        if scores.biased and self.wants_bias:
            # Whatever was done to the scores besides scaling them is the difference to the scaled product.
            keys = key.tensor.repeat_interleave(h // key.tensor.shape[1], 1)
            bias = given - scores.factor * (query.tensor @ keys.mT).to(given.dtype)
            bias = bias if mask is None else bias.masked_fill(~mask, 0)
        if mask is not None and is_on_host(mask) and bool(mask.all()):
            mask = None
        self._deliver(query, key, lines[0].weight_id, scale=scores.factor, bias=bias, mask=mask, scores=given)


def _open_positions(scores: Tensor) -> Tensor:
    """Which positions of each row are open: not far below the row's largest score, and not lower than any score."""
    largest = scores.amax(-1, keepdim=True)
    return (scores > largest + CLOSED) & (scores > max(torch.finfo(scores.dtype).min / 2, LOWEST_SCORE))


def _as_additive_mask(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A mask of nn.MultiheadAttention as numbers to add; its bool masks are True where a position is closed."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)


def _as_four_axes(x: Tensor, heads: int) -> Tensor:
    """As (b, h, …, …). A tensor of three axes holds `heads` heads in its first one."""
    if x.dim() == 2:
        return x[None, None]
    return x.unflatten(0, (-1, heads)) if x.dim() == 3 else x.flatten(0, -4) if x.dim() > 4 else x


def _broadcast_mask(mask: Tensor, lead: tuple[int, ...], heads: int) -> Tensor:
    """A mask over scores (*lead, t, s) as one that broadcasts to (b, h, t, s)."""
    if len(lead) > 2 or (len(lead) == 1 and mask.dim() == 3 and mask.shape[0] > 1):
        return _as_four_axes(mask.expand(*lead, *mask.shape[-2:]), heads)
    return mask[(None,) * (4 - mask.dim())]
