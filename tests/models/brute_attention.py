"""What attention is, from another model with the same weights that writes it out (eager): its scores, weights, queries and keys.

Scores are what `softmax` is given, caught by a function put in its place; queries and keys are what the projections give, caught by hooks
on modules that are named here for each architecture. Nothing of it is the tap's way.
"""

import contextlib
import copy
from dataclasses import dataclass

import torch
from torch.nn import functional

from tests.models.zoo import kind_of

LINEAR = {
    "query key": "BERT RoBERTa ALBERT ELECTRA CANINE-s CANINE-c CharacterBERT Swin_v2",
    "q_lin k_lin": "DistilBERT",
    "q k": "MPNet T5 Flan-T5 T5_encoder ByT5 MANTa-LM",
    "query_proj key_proj": "DeBERTa-v2",
    "projection_query projection_key": "CvT",
    "Wqkv Wqkv": "ModernBERT",
    "c_attn c_attn": "GPT-2",
    "query_key_value query_key_value": "GPT-NeoX_(Pythia) Falcon",
    "attention attention": "WavLM",  # gives the weights of its projections to torch: the modules are never called
}
OWN = ("isoscope text, causal", "isoscope text, masked", "isoscope images", "isoscope speech")
NAMES = {title.replace("_", " "): tuple(names.split()) for names, titles in LINEAR.items() for title in titles.split()}
NAMES |= dict.fromkeys(OWN, ("query", "key"))
"""The projections of queries and keys, the last part of their paths; q_proj and k_proj where nothing else is said."""
NORMED = {"Qwen3", "Gemma 3", "OLMo 2", "Swin v2"}
"""Queries and keys are normalised behind the projection."""
SPLIT = {
    "ModernBERT": lambda y, h: y.unflatten(-1, (3, h, -1)).unbind(-3)[:2],
    "GPT-2": lambda y, h: [part.unflatten(-1, (h, -1)) for part in y.chunk(3, -1)[:2]],
    "GPT-NeoX (Pythia)": lambda y, h: y.unflatten(-1, (h, 3, -1)).unbind(-2)[:2],
    "Falcon": lambda y, h: _falcon(y.unflatten(-1, (2, h // 2 + 2, -1))),
}
"""Of architectures with one projection for all: its result as queries and keys (…, h, e)."""
WITHIN = {"characters": "initial_char_encoder", "characters_out": "final_char_encoder"}


def _falcon(y):
    """Two groups, in each its queries, a key and a value."""
    return y[..., :-2, :].flatten(-3, -2), y[..., -2, :]


@dataclass
class Reference:
    """One attention of the reference model."""

    site: tuple
    scores: torch.Tensor  # (b, h, t, s), float64
    weights: torch.Tensor  # (b, h, t, s), as the model computed them
    query: torch.Tensor | None = None  # (b, h, t, e), after a norm of queries and before rotary
    key: torch.Tensor | None = None
    mean_query: torch.Tensor | None = None  # (h, e), from the mean of what the projection is given, of rows that see something
    mean_key: torch.Tensor | None = None

    @property
    def open(self):
        """Which positions are not masked."""
        return (self.scores > self.scores.amax(-1, keepdim=True) - 5000) & (self.scores > -1e6)

    @property
    def seeing(self):
        """(b, t) rows that see something: where attention is local, rows of padding may not, and what follows from them is arbitrary."""
        return self.open.any(-1).any(1)

    @property
    def seen(self):
        """(b, s) keys that some row sees."""
        return self.open.any(-2).any(1)


def eager(small, folder):
    """The same weights, written out."""
    model = kind_of(small).from_pretrained(folder, attn_implementation="eager").eval().base_model
    assert getattr(model.config, "_attn_implementation", "eager") == "eager"
    return model


@contextlib.contextmanager
def softmax_caught(events):
    whole = functional.softmax

    def caught(input, dim=None, *rest, **more):
        output = whole(input, dim, *rest, **more)
        events.append(("softmax", (input.clone(), output.clone()), None, None))
        return output

    functional.softmax = caught
    try:
        yield
    finally:
        functional.softmax = whole


def references(small, model, arguments):
    """Every attention of a forward pass, in order."""
    events = []
    names = NAMES.get(small.title, ("q_proj", "k_proj"))

    def catch(path, sides):
        def hook(module, args, kwargs):
            given = args[0] if args else kwargs["hidden_states"]
            events.extend((side, given.clone(), module, path) for side in sides)

        return hook

    handles = []
    for path, module in model.named_modules():
        sides = [side for side in (0, 1) if path.endswith("." + names[side]) and "frontier" not in path]
        if sides:
            handles.append(module.register_forward_pre_hook(catch(path, sides), with_kwargs=True))
    with torch.inference_mode(), softmax_caught(events):
        model(**arguments)
    for handle in handles:
        handle.remove()
    found, since = [], {}
    for what, value, module, path in events:
        if what != "softmax":
            since.setdefault(what, (value, module, path))  # DeBERTa projects its embeddings of positions too, after the tokens
        elif len(since) == 2:
            found.append((since, value))
            since = {}
    paths = [since[0][2] for since, _ in found]
    with torch.inference_mode():
        return [_reference(small, model, _site(small, paths[: i + 1]), *one) for i, one in enumerate(found)]


def _reference(small, model, site, since, caught):
    scores, weights = (x.unflatten(0, (len(since[0][0]), -1)) if x.dim() == 3 else x for x in caught)
    heads = scores.shape[1]
    attention = dict(model.named_modules())[since[0][2].rpartition(".")[0]]
    one = Reference(site, scores.double(), weights)
    made = []
    for side, counted in enumerate((one.seeing, one.seen)):
        given, module, _ = since[side]
        rows = given.double()
        means = rows[counted][None] if small.title in NORMED else rows[counted].mean(0)[None, None]
        made += [_finish(small, attention, side, _project(small, module, side, x, heads)) for x in (rows, means)]
    one.query, one.mean_query, one.key, one.mean_key = made[0], made[1].mean((0, 2)), made[2], made[3].mean((0, 2))
    return one


def _project(small, module, side, x, heads):
    """(b, t, h, e) W x + b in float64; the width of a head comes from the queries."""
    if small.title == "WavLM":
        module = (module.q_proj, module.k_proj)[side]
    weight = module.weight.double()
    y = x @ (weight if type(module).__name__ == "Conv1D" else weight.T)
    y = y if module.bias is None else y + module.bias.double()
    if small.title in SPLIT:
        return SPLIT[small.title](y, heads)[side]
    grouped = small.config.get("num_key_value_heads", heads) if side else heads
    return y.unflatten(-1, (grouped, -1))


def _finish(small, attention, side, y):
    """(b, h, t, e) what the architecture does to queries and keys between the projection and rotary, such as a norm."""
    e = y.shape[-1]
    if small.title in ("Qwen3", "Gemma 3"):
        y = copy.deepcopy((attention.q_norm, attention.k_norm)[side]).double()(y)
    elif small.title == "OLMo 2":
        y = copy.deepcopy((attention.q_norm, attention.k_norm)[side]).double()(y.flatten(-2)).unflatten(-1, (-1, e))
    elif small.title == "Swin v2":
        y = y / y.norm(dim=-1, keepdim=True)
        if side == 0:
            y = y * attention.logit_scale.double().clamp(max=4.605170185988092).exp().movedim(0, 1)
    elif small.title in ("Whisper", "OPT") and side == 0:
        y = y * e**-0.5
    elif small.title == "DeBERTa-v2" and side == 1:
        y = y / (3 * e) ** 0.5
    return y.transpose(1, 2)


def _site(small, paths):
    """Stack, kind and layer of the last of these paths of projections of queries."""
    stacks = [part.partition(":")[0] for part in small.sites.split()]
    kinds = []
    for i, path in enumerate(paths):
        stack = next((name for name in stacks if path.startswith(WITHIN.get(name, name) + ".")), stacks[0])
        kind = "cross_attention" if "EncDec" in path or "encoder_attn" in path else "attention"
        if not ("CANINE" in small.title and path in paths[i - 1 : i]):  # there one module attends chunk by chunk
            kinds.append((stack, kind))
    return *kinds[-1], kinds.count(kinds[-1])
