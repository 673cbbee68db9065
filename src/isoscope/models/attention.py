"""The attention tap: every attention of a forward pass, seen where torch computes it, whatever module calls it."""

# mypy: allow-subclassing-any
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.models.autocast import autocast_off
from isoscope.models.hook_guard import HookGuard
from isoscope.models.provenance import Lineage, Node, Provenance, lineage
from isoscope.models.scores import CLOSED, Form, Scores
from isoscope.models.torch_functions import Called, Role, role_of


@dataclass(frozen=True)
class Attended:
    """One call of attention: softmax(scale · q kᵀ + bias), row by row."""

    site: Site
    """`attention` or `cross_attention` of a stack's layer; no head."""
    query: Tensor
    """(b, h, t, e) as attention takes it, after rotary."""
    key: Tensor
    """(b, h_k, s, e); h is a multiple of h_k, and query head i uses key head i // (h // h_k)."""
    scale: float
    """Scores are scale · q kᵀ (+ bias)."""
    bias: Tensor | None
    """The additive part, which broadcasts to (b, h, t, s): a relative bias, a float mask; None where there is none."""
    mask: Tensor | None
    """bool, broadcasts to (b, h, t, s), True where a key is open; None: all are open. A causal flag becomes a mask here."""
    scores: Tensor | None
    """(b, h, t, s), what softmax was given, mask and bias included, where the model writes attention out; else None."""
    plain_query: Tensor
    """As `query`, before rotary but after a norm of queries, if there is one; the same tensor if there is no rotary."""
    plain_key: Tensor
    """As `key`, at the same place."""


NEVER = -1e6
"""No score that is not masked is as low as this; a row of padding may have no others."""


@dataclass(frozen=True)
class _Side:
    """The queries or the keys of a call, in the form (b, h, t, e)."""

    tensor: Tensor
    plain: Tensor
    node: Node
    line: Lineage

    @classmethod
    def of(cls, given: Tensor, node: Node, line: Lineage, form: Form) -> _Side:
        tensor, plain = form(given), line.plain()
        return cls(tensor, tensor if plain is None else form(plain), node, line)

    def distinct(self) -> _Side:
        """Without the copies that grouped queries make of their keys."""
        times, heads = self.line.repeats(), self.tensor.shape[1]
        if times == 1 or heads % times:
            return self
        grouped = self.tensor.unflatten(1, (-1, times))
        if not bool((grouped == grouped[:, :, :1]).all()):
            return self
        tensor = self.tensor[:, ::times]
        return _Side(tensor, tensor if self.plain is self.tensor else self.plain[:, ::times], self.node, self.line)


class AttentionTap(TorchFunctionMode):
    """A context around forward passes in which `receive(call)` gets every attention of every block, before it is computed.

    `where()` says which block runs, as (stack, layer), or None outside all of them; attention outside blocks is not of the tap. It sees
    `scaled_dot_product_attention`, `multi_head_attention_forward` (what `nn.MultiheadAttention` calls), and a softmax behind a product of
    two activations. The model computes what it computes without the tap; what `receive` is given may be written over afterwards, so it is
    to be used at once. Whatever the tap or `receive` raises is raised when the context ends, whatever the model made of it.

    A call is cross-attention where its keys do not derive from the block's own input: of the tensors from outside the block that its
    queries derive from, the one that entered first. Several calls at one site are normal where one module attends piece by piece, as
    CANINE does; two modules of one block that both attend to themselves are refused, because their heads would be mixed.

    Where attention is written out, a position is closed if its score is 5,000 or more below the largest of its row, or below −1,000,000 (in
    float16 −32,752): models write masks with −10,000, −1e9, the smallest number of a type or −∞. Of a float mask given to torch the same
    holds for what is added. Smaller penalties, such as the −100 that Swin puts between windows, are a bias. A row of padding may be
    closed altogether.
    """

    def __init__(self, where: Callable[[], tuple[str, int] | None], receive: Callable[[Attended], None]) -> None:
        super().__init__()
        self.receive = receive
        self.guard = HookGuard()
        self._see_call, self._see_output = self.guard.wrap(self._before_call), self.guard.wrap(self._after_call)
        self._where = where
        self._at: tuple[str, int] | None = None
        self._came = Provenance()
        self._modules: dict[str, int] = {}
        self._mask: tuple[Tensor, Tensor | None, Tensor | None] | None = None
        self._attends: dict[str, Callable[..., None]] = {
            "scaled_dot_product_attention": self._fused,
            "multi_head_attention_forward": self._packed,
            "softmax": self._written,
            "special_softmax": self._written,
        }

    def __exit__(self, *raised: Any) -> None:
        self._enter(None)
        self._mask = None
        super().__exit__(*raised)
        self.guard.raise_own_error()

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Look at one function of torch, and call it."""
        kwargs = kwargs or {}
        called = self._see_call(func, args, kwargs)
        output = func(*args, **kwargs)
        if called is not None:
            self._see_output(called, output)
        return output

    def _before_call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Called | None:
        """Look at a call before it is made; None where what it gives is of no use."""
        at = self._where()
        if at != self._at:
            self._enter(at)
        if at is None:
            return None
        role, name = role_of(func)
        if role is Role.SKIP:
            return None
        called = Called(role, name, func, args, kwargs)
        if role is Role.ATTENTION:
            self._attends[name](*args, **kwargs)
        elif called.writes and isinstance(args[0], Tensor):
            self._came.written(args[0])
        return called

    def _after_call(self, called: Called, output: Any) -> None:
        self._came.made(called, output)

    def _enter(self, at: tuple[str, int] | None) -> None:
        self._at = at
        self._came.clear()
        self._modules.clear()

    def _give(self, query: _Side, key: _Side, weight: int | None, **rest: Any) -> None:
        stack, layer = self._at or ("", 0)
        kind = "attention" if key.node.leaves & query.node.first else "cross_attention"
        if weight is not None and self._modules.setdefault(kind, weight) != weight:
            raise IsoscopeError(
                f"Layer {layer} of the {stack} holds more than one module of {kind.replace('_', '-')}; name smaller blocks, as in "
                "blocks='layers.*.attention.*', so that each holds one."
            )
        q, k = query.tensor, key.tensor
        if q.shape[1] % k.shape[1] or q.shape[0] != k.shape[0] or q.shape[-1] != k.shape[-1]:
            raise self._refuse(f"keys of shape {tuple(k.shape)} do not fit queries of shape {tuple(q.shape)}")
        with autocast_off():
            self.receive(Attended(Site(stack, kind, layer), q, k, plain_query=query.plain, plain_key=key.plain, **rest))

    def _refuse(self, why: str) -> IsoscopeError:
        stack, layer = self._at or ("", 0)
        return IsoscopeError(f"The attention of layer {layer} of the {stack} cannot be followed: {why}; measure without attention.")

    def _fused(
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
        nodes = self._came.node(query), self._came.node(key)
        lines = lineage(nodes[0]), lineage(nodes[1])
        lead = tuple(query.shape[:-2])
        heads = lines[0].heads() or 1 if len(lead) == 1 else 1
        sides = [_Side.of(x, node, line, lambda x: _four(x, heads)) for x, node, line in zip((query, key), nodes, lines, strict=True)]
        bias, mask = None, None
        if is_causal:
            mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()[None, None]
        elif attn_mask is not None:
            bias, mask = (None if x is None else _over(x, lead, heads) for x in self._split(attn_mask))
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        self._give(sides[0], sides[1].distinct(), lines[0].weight, scale=scale, bias=bias, mask=mask, scores=None)

    def _split(self, mask: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """What a mask adds to scores and which positions it leaves open. Models hand the same mask to every layer."""
        if mask.dtype == torch.bool:
            return None, mask
        if self._mask is None or self._mask[0] is not mask:
            is_open = _open(mask)
            bias = mask.masked_fill(~is_open, 0)
            self._mask = (mask, bias if bool(bias.any()) else None, None if bool(is_open.all()) else is_open)
        return self._mask[1:]

    def _packed(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        embed_dim_to_check: int,
        num_heads: int,
        in_proj_weight: Tensor | None,
        in_proj_bias: Tensor | None,
        bias_k: Tensor | None,
        bias_v: Tensor | None,
        add_zero_attn: bool,
        dropout_p: float,
        out_proj_weight: Tensor,
        out_proj_bias: Tensor | None,
        training: bool = True,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        use_separate_proj_weight: bool = False,
        q_proj_weight: Tensor | None = None,
        k_proj_weight: Tensor | None = None,
        v_proj_weight: Tensor | None = None,
        static_k: Tensor | None = None,
        **__: Any,
    ) -> None:
        """`multi_head_attention_forward`: projections and attention in one, with (t, b, d) or (t, d)."""
        if bias_k is not None or add_zero_attn or static_k is not None:
            raise self._refuse("bias_k, add_zero_attn and static_k of nn.MultiheadAttention put in keys that no position has")
        if not use_separate_proj_weight and in_proj_weight is not None:
            q_proj_weight, k_proj_weight, _v = in_proj_weight.chunk(3)
        if q_proj_weight is None or k_proj_weight is None:
            raise self._refuse("nn.MultiheadAttention has no weights for queries and keys")
        b_q, b_k = (None, None) if in_proj_bias is None else in_proj_bias.chunk(3)[:2]
        sides = []
        for given, weight, bias in ((query, q_proj_weight, b_q), (key, k_proj_weight, b_k)):
            made = functional.linear(given if given.dim() == 3 else given[:, None], weight, bias)
            made = made.unflatten(-1, (num_heads, -1)).permute(1, 2, 0, 3)
            node = self._came.node(given)
            sides.append(_Side(made, made, node, Lineage([node], [], node)))
        b, h, t, e = sides[0].tensor.shape
        added = None
        for closed, form in ((attn_mask, (-1, h, t, key.shape[0])), (key_padding_mask, (b, 1, 1, key.shape[0]))):
            if closed is not None:
                x = torch.zeros_like(closed, dtype=query.dtype).masked_fill(closed, -torch.inf) if closed.dtype == torch.bool else closed
                x = x[None, None] if x.dim() == 2 and closed is attn_mask else x.reshape(form)
                added = x if added is None else added + x
        bias, mask = (None, None) if added is None else self._split(added)
        whose = id(q_proj_weight if use_separate_proj_weight else in_proj_weight)
        self._give(sides[0], sides[1], whose, scale=e**-0.5, bias=bias, mask=mask, scores=None)

    def _written(self, input: Tensor, dim: int | None = None, *_: Any, **__: Any) -> None:
        """A softmax; it is attention where its argument comes from a product of two activations."""
        node = self._came.seen(input)
        if node is None or node.scores is None or dim is None:
            return
        scores, axis = node.scores, dim % input.dim()
        if scores.lost:
            raise self._refuse("its scores are cut or joined before the softmax")
        *lead, rows, columns = scores.order
        if axis == rows:  # keys by queries
            scores = scores.but(
                operands=scores.operands[::-1],
                nodes=scores.nodes[::-1],
                forms=scores.forms[::-1],
                order=(*lead, columns, rows),
                factors=(),
                biased=scores.biased or bool(scores.factors),
            )
        if axis in (rows, columns):
            self._give_scores(scores, input.permute(scores.order))

    def _give_scores(self, scores: Scores, given: Tensor) -> None:
        lines = lineage(scores.nodes[0]), lineage(scores.nodes[1])
        folded = given.dim() == 3
        heads = (scores.lead[1] if len(scores.lead) == 2 else lines[0].heads() or 1) if folded else 1
        whole = _four(given, heads)
        b, h, t, s = whole.shape
        query_form, key_form = scores.forms

        def rows(x: Tensor) -> Tensor:
            x = query_form(x)
            for factor in scores.factors:
                x = x * factor
            return x.expand(*scores.lead, *x.shape[-2:]).reshape(b, h, *x.shape[-2:])

        def columns(x: Tensor) -> Tensor:
            x = key_form(x)
            shared = x.dim() == 4 and x.shape[:2] == (b, 1)
            return x if shared else x.expand(*scores.lead, *x.shape[-2:]).reshape(b, h, *x.shape[-2:])

        sizes = query_form(scores.operands[0]).shape[-2], key_form(scores.operands[1]).shape[-2]
        if sizes != (t, s) or torch.Size(scores.lead).numel() != b * h:
            raise self._refuse(f"scores of shape {tuple(given.shape)} do not fit {sizes[0]} queries and {sizes[1]} keys")
        query = _Side.of(scores.operands[0], scores.nodes[0], lines[0], rows)
        key = _Side.of(scores.operands[1], scores.nodes[1], lines[1], columns).distinct()
        mask = _open(whole) if scores.masked or scores.biased else None
        bias = None
        if scores.biased:
            keys = key.tensor.repeat_interleave(h // key.tensor.shape[1], 1)
            bias = whole - scores.factor * (query.tensor @ keys.mT).to(whole.dtype)
            bias = bias if mask is None else bias.masked_fill(~mask, 0)
        if mask is not None and bool(mask.all()):
            mask = None
        self._give(query, key, lines[0].weight, scale=scores.factor, bias=bias, mask=mask, scores=whole)


def _open(scores: Tensor) -> Tensor:
    """Which positions of each row are not closed: not so far below the row's largest, nor lower than any score."""
    top = scores.amax(-1, keepdim=True)
    return (scores > top + CLOSED) & (scores > max(torch.finfo(scores.dtype).min / 2, NEVER))


def _four(x: Tensor, heads: int) -> Tensor:
    """As (b, h, …, …); `heads` of them lie in the first axis where there are three axes."""
    if x.dim() == 2:
        return x[None, None]
    return x.unflatten(0, (-1, heads)) if x.dim() == 3 else x.flatten(0, -4) if x.dim() > 4 else x


def _over(mask: Tensor, lead: tuple[int, ...], heads: int) -> Tensor:
    """A mask over scores (*lead, t, s) as one that broadcasts to (b, h, t, s)."""
    if len(lead) > 2 or (len(lead) == 1 and mask.dim() == 3 and mask.shape[0] > 1):
        return _four(mask.expand(*lead, *mask.shape[-2:]), heads)
    return mask[(None,) * (4 - mask.dim())]
