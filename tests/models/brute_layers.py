"""What a pass should find, from `output_hidden_states` held whole, in float64."""

import numpy as np
import torch

from isoscope.models.loading.chunk import Chunk


def sequences_of(loaded, source, seq_len):
    """(item, ids, special) of every sequence of a source, in order."""
    from isoscope.models.loading.readers.text import encode_text

    return [(item.id, s.data, s.special) for item in source.items() for s in encode_text(loaded.processor, item.content, seq_len)]


def hidden_states(loaded, sequences):
    """{(stack, kind, layer): [(n, d) of each sequence]} one sequence at a time: no padding, no batch.

    The models give states after the final norm in the last place of `hidden_states`; the state before it is caught by a hook.
    """
    found: dict[tuple, list[np.ndarray]] = {}
    base = loaded.base
    caught: dict[str, torch.Tensor] = {}
    stacks = loaded.family.stacks(base)

    def catch(stack):
        return lambda module, args, output: caught.__setitem__(stack, output[0] if isinstance(output, tuple) else output)

    from isoscope.models.tapping.blocks import find_blocks

    blocks = {name: find_blocks(stack.module, name, stack.blocks) for name, stack in stacks.items()}
    handles = [found[-1][1].register_forward_hook(catch(name)) for name, found in blocks.items()]
    with torch.inference_mode():
        reader = loaded.family.reader(loaded, None)
        for _, ids, special in sequences:
            output = base(**reader.feed([Chunk(ids, len(ids), special=special)]).arguments, output_hidden_states=True)
            for name in stacks:
                key = "hidden_states" if len(stacks) == 1 else f"{name}_hidden_states"
                states = list(output[key])
                depth = len(states) - 1
                before, after = caught[name], states[-1]
                for layer, state in enumerate(states[:-1]):
                    found.setdefault((name, "hidden", layer), []).append(state[0].double().numpy())
                found.setdefault((name, "hidden", depth), []).append(before[0].double().numpy())
                if not torch.equal(before, after):
                    found.setdefault((name, "final", depth + 1), []).append(after[0].double().numpy())
    for handle in handles:
        handle.remove()
    return found


def choose(states, sequences, policy, *, start=False):
    """The points of a policy, one below the other, and the item of each."""
    points, items = [], []
    for state, (item, ids, special) in zip(states, sequences, strict=True):
        flags = np.concatenate([[True], special[:-1]]) if start else special
        first = np.arange(len(ids)) == 0
        keep = {"all": np.ones(len(ids), bool), "no-special": ~flags, "body": ~flags & ~first}[policy]
        points.append(state[keep])
        items += [item] * int(keep.sum())
    return np.concatenate(points), np.array(items)


def brute(points, items):
    """Metrics by their definitions, in float64."""
    n, d = points.shape
    u = points / np.linalg.norm(points, axis=1, keepdims=True)
    s = u.sum(0)
    by_item = [u[items == item] for item in dict.fromkeys(items)]
    within = sum(float(part.sum(0) @ part.sum(0)) for part in by_item)
    pairs = sum(len(part) ** 2 for part in by_item)
    centred = points - points.mean(0)
    values = np.linalg.eigvalsh(centred.T @ centred)[::-1].clip(0)
    sigma = np.sqrt(values)
    p = sigma / sigma.sum()
    raw = np.linalg.svd(points, compute_uv=False)
    q = raw / raw.sum() + 1e-7
    squares = (points**2).sum(1)
    total = points.sum(0)
    own = sum(float((points[items == item].sum(0) ** 2).sum()) for item in dict.fromkeys(items))
    square = max((total @ total - own) / (n**2 - pairs), 0.0)  # ‖mean‖² from pairs of different items
    return {
        "mean_cosine": (s @ s - n) / (n * (n - 1)),
        "between_cosine": (s @ s - within) / (n**2 - pairs),
        "within_cosine": (within - n) / (pairs - n) if pairs > n else np.nan,
        "mean_norm": np.sqrt(squares).mean(),
        "drift_norm": square**0.5,
        "drift_ratio": square / squares.mean(),
        "top_share": values[0] / values.sum(),
        "top_share_linear": sigma[0] / sigma.sum(),
        "effective_rank": np.exp(-(p[p > 0] * np.log(p[p > 0])).sum()),
        "participation_ratio": values.sum() ** 2 / (values**2).sum(),
        "isoscore": (values.sum() ** 2 / (values**2).sum() - 1) / (d - 1),
        "stable_rank": squares.sum() / raw[0] ** 2,
        "rankme": np.exp(-(q * np.log(q)).sum()),
    }
