"""The architectures written here: names, shapes and sizes of the published checkpoints."""

import json

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
)

from isoscope.models.loading.architectures import register_architectures
from isoscope.models.loading.architectures.character_bert import (
    CharacterBertConfig,
    CharacterBertForPreTraining,
)
from isoscope.models.loading.architectures.manta_lm import MantaConfig, MantaForConditionalGeneration
from isoscope.models.loading.architectures.van import VanConfig, VanForImageClassification
from tests.models.published_architectures import (
    AUTO,
    BASE,
    KINDS,
    LITTLE_BERT,
    LITTLE_MANTA,
    LITTLE_VAN,
    MANTA_BASE,
    MANTA_PLAIN,
    MANTA_SMALL,
    VAN,
    character_bert_names,
    inputs,
    little,
    little_names,
    manta_names,
    on_meta,
    shapes,
    van_names,
)


@pytest.mark.parametrize(("name", "millions"), [("tiny", 4.1), ("small", 13.9), ("base", 26.6), ("large", 44.8)])
def test_van_has_the_names_shapes_and_size_of_the_published_checkpoints(name, millions):
    model = on_meta(VanForImageClassification, VanConfig(**VAN[name], num_labels=1000))
    assert shapes(model) == van_names(**VAN[name], labels=1000)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == millions  # the authors' table


def test_character_bert_has_the_names_and_shapes_of_the_published_checkpoint():
    model = on_meta(CharacterBertForPreTraining, CharacterBertConfig())
    assert shapes(model) == character_bert_names()
    assert sum(name.startswith("cls.") for name in shapes(model)) == 9  # as the authors' own test counts them


@pytest.mark.parametrize(("config", "megabytes"), [(MANTA_BASE, 1024), (MANTA_SMALL, 228)])
def test_manta_has_the_names_shapes_and_size_of_the_published_checkpoints(config, megabytes):
    model = on_meta(MantaForConditionalGeneration, MantaConfig(**MANTA_PLAIN, **config))
    assert shapes(model) == manta_names(**config)
    # The published files hold one table of bytes less than separate storage would need (docs/architectures.md).
    held = sum(p.numel() for p in model.parameters()) - model.lm_head.weight.numel()
    assert int(4 * held / 1e6) == megabytes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("auto", ["base", "head"])
def test_a_checkpoint_with_the_published_names_loads_whole(kind, auto, tmp_path):
    """The file is written from the declared names, not from the model; its own code, declared in auto_map, is not asked for."""
    generator = torch.Generator().manual_seed(3)
    state = {name: torch.randn(shape, generator=generator) for name, shape in little_names(kind).items()}
    for name in state:
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(7)
    if kind == "manta":
        state["decoder.embed_tokens.weight"] = state["decoder_embeddings.weight"]
        state["encoder.frontier_predictor.local_transformer.embeddings.position_ids"] = torch.arange(61)[None]
    if kind == "character_bert":
        state["character_bert.embeddings.position_ids"] = torch.arange(16)[None]
    torch.save(state, tmp_path / "pytorch_model.bin")
    config = {"van": LITTLE_VAN, "character_bert": LITTLE_BERT, "manta": MANTA_PLAIN | LITTLE_MANTA}[kind] | {"model_type": kind}
    if kind == "van":
        config = {key: value for key, value in config.items() if key != "num_labels"} | {"id2label": {str(i): str(i) for i in range(3)}}
    classes = dict.fromkeys(("AutoModel", AUTO[kind].__name__), f"modeling_{kind}.Other")
    (tmp_path / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoConfig": f"configuration_{kind}.Other", **classes}}))

    found, report = (AutoModel if auto == "base" else AUTO[kind]).from_pretrained(
        tmp_path, output_loading_info=True, trust_remote_code=False
    )

    assert type(found) is (BASE[kind] if auto == "base" else type(little(kind)))
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    left = {name.partition(".")[0] for name in report["unexpected_keys"]}
    assert left <= ({"cls", "classifier", "lm_head"} if auto == "base" else set())
    for name, tensor in found.state_dict().items():
        original = state[name] if name in state else state[f"{found.base_model_prefix}.{name}"]
        assert torch.equal(tensor, original), name


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_gives_the_same_bits(kind, tmp_path):
    model = little(kind)
    model.save_pretrained(tmp_path)
    loaded = AUTO[kind].from_pretrained(tmp_path).eval()
    weights = loaded.state_dict()
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[name], own) for name, own in model.state_dict().items())
    # As they lie in the file some processors add them up in another order, so they are put where a fresh model has its own.
    again = type(model)(loaded.config).eval()
    again.load_state_dict(weights)
    with torch.inference_mode():
        before, after = model(**inputs(kind), output_hidden_states=True), again(**inputs(kind), output_hidden_states=True)
    flat = [*before.to_tuple()]
    assert len(flat) == len(after.to_tuple())
    for one, other in zip(flat, after.to_tuple(), strict=True):
        for a, b in zip(one if isinstance(one, tuple) else [one], other if isinstance(other, tuple) else [other], strict=True):
            assert torch.isfinite(a.double()).all()
            assert torch.equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_fresh_weights_give_finite_states_that_depend_on_the_input(kind):
    torch.manual_seed(0)
    model = type(little(kind))(little(kind).config).eval()
    with torch.inference_mode():
        first, second = (model(**given).to_tuple()[0] for given in (inputs(kind), {k: x.flip(1) for k, x in inputs(kind).items()}))
    assert torch.isfinite(first).all()
    assert first.std() > 1e-4
    assert (first - second).std() > 0.01 * first.std()


def test_registering_twice_changes_nothing():
    assert register_architectures() == register_architectures()
    assert AutoConfig.for_model("van").__class__ is VanConfig
    assert set(register_architectures()) >= {"VanForImageClassification", "CharacterBertForPreTraining", "MantaForConditionalGeneration"}
