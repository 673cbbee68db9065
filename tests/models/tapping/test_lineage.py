"""Architectures that normalise queries and keys: these are taken after the norm and before rotary."""

import pytest
import torch

from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.tapping.attention_tap import AttentionTap
from isoscope.models.tapping.tap import Tap
from tests.models.zoo import ZOO, build


@pytest.mark.parametrize("title", ["Gemma 3", "Qwen3"])
def test_queries_and_keys_are_what_their_norm_gives(title, tmp_path):
    small = next(one for one in ZOO if one.title == title)
    model = load_model(resolve_model(str(build(small, tmp_path / "model"))), device="cpu")
    reader = model.family.reader(model, None)
    fed = reader.feed(reader.chunks("the of and to a in that is was he for it with as his on be at by i")).arguments
    seen, calls = [], []

    def catch(module, args, output):
        seen.append((args[0].clone(), output.clone()))

    norms = [module for path, module in model.base.named_modules() if path.endswith((".q_norm", ".k_norm"))]
    handles = [norm.register_forward_hook(catch) for norm in norms]
    tap = Tap(model.family.stacks(model.base), lambda site, state: None)
    with torch.inference_mode():
        tap.begin()
        with tap.attach(), AttentionTap(tap.running, calls.append):
            model.base(**fed)
    for handle in handles:
        handle.remove()
    assert len(calls) == 3
    assert len(seen) == 6
    for call, queries, keys in zip(calls, seen[::2], seen[1::2], strict=True):
        for plain, rotated, (projected, normed) in (
            (call.plain_query, call.query, queries),
            (call.plain_key, call.key, keys),
        ):
            heads = small.config["num_attention_heads"] if rotated is call.query else small.config["num_key_value_heads"]
            before, after = (x if x.shape[1] == heads else x.transpose(1, 2) for x in (projected, normed))
            assert torch.equal(plain, after)
            assert (plain - before).abs().max() > 0.1
            turned = (plain - rotated).abs().amax((0, 1, 3))
            assert turned[0] == 0  # rotary leaves the first position as it is
            assert (turned[1:] > 0.1).all()
