"""The architectures written here: names and shapes of the published checkpoints, and the unusual pieces computed in another way."""

import json
import math
import re
from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import erf, expit
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForImageClassification,
    AutoModelForPreTraining,
    AutoModelForSeq2SeqLM,
    BertConfig,
    BertModel,
    LongformerModel,
    T5Config,
    T5Model,
)

from isoscope.core.errors import IsoscopeError
from isoscope.models.architectures import register
from isoscope.models.architectures.character_bert import (
    CharacterBertConfig,
    CharacterBertForPreTraining,
    CharacterBertModel,
    CharacterTokenizer,
)
from isoscope.models.architectures.manta_lm import MantaConfig, MantaForConditionalGeneration, MantaModel
from isoscope.models.architectures.van import VanConfig, VanForImageClassification, VanModel

# One line: a name, and a shape in numbers or named sizes. (a b) stands for each in turn.
# Sources: transformers 4.30, models/van and its conversion script (VAN); helboukkouri/character-bert on GitHub, its checkpoint test, and
# transformers pull request 10053 (CharacterBERT); NathanGodey/transformers, models/manta at 108c43a, with Longformer and T5 of transformers
# 4.29 (MANTa-LM). Configurations: the hub's config.json. docs/architectures.md says what could be checked and what is inferred.

VAN_STAGE = """
embeddings.convolution.weight d before patch patch
embeddings.convolution.bias d
embeddings.normalization.(weight bias running_mean running_var) d
embeddings.normalization.num_batches_tracked
normalization.(weight bias) d
"""
VAN_LAYER = """
(pre_normomalization post_normalization).(weight bias running_mean running_var) d
(pre_normomalization post_normalization).num_batches_tracked
attention.(pre_projection.conv post_projection).weight d d 1 1
attention.(pre_projection.conv post_projection).bias d
attention.attention_layer.attention.depth_wise.weight d 1 5 5
attention.attention_layer.attention.depth_wise_dilated.weight d 1 7 7
attention.attention_layer.attention.point_wise.weight d d 1 1
attention.attention_layer.attention.(depth_wise depth_wise_dilated point_wise).bias d
(attention_scaling mlp_scaling).weight d
mlp.in_dense.weight wide d 1 1
mlp.depth_wise.weight wide 1 3 3
mlp.(in_dense depth_wise).bias wide
mlp.out_dense.weight d wide 1 1
mlp.out_dense.bias d
"""
BERT_LAYER = """
attention.self.(query key value).weight d d
attention.self.(query key value).bias d
attention.output.dense.weight d d
attention.output.dense.bias d
attention.output.LayerNorm.(weight bias) d
intermediate.dense.weight wide d
intermediate.dense.bias wide
output.dense.weight d wide
output.dense.bias d
output.LayerNorm.(weight bias) d
"""
CHARACTER_EMBEDDINGS = """
word_embeddings._char_embedding_weights 263 16
word_embeddings._projection.weight d filters
word_embeddings._projection.bias d
word_embeddings._highways._layers.(0 1).weight both filters
word_embeddings._highways._layers.(0 1).bias both
position_embeddings.weight positions d
token_type_embeddings.weight 2 d
LayerNorm.(weight bias) d
"""
BERT_HEADS = """
character_bert.pooler.dense.weight d d
character_bert.pooler.dense.bias d
cls.predictions.bias words
cls.predictions.transform.dense.weight d d
cls.predictions.transform.dense.bias d
cls.predictions.transform.LayerNorm.(weight bias) d
cls.predictions.decoder.weight words d
cls.predictions.decoder.bias words
cls.seq_relationship.weight 2 d
cls.seq_relationship.bias 2
"""
LONGFORMER_GLOBAL = """
attention.self.(query_global key_global value_global).weight d d
attention.self.(query_global key_global value_global).bias d
"""
MANTA = """
encoder.byte_embeddings.weight 384 byte
encoder.frontier_predictor.local_transformer.embeddings.word_embeddings.weight 1 byte
encoder.frontier_predictor.local_transformer.embeddings.position_embeddings.weight places byte
encoder.frontier_predictor.local_transformer.embeddings.token_type_embeddings.weight 2 byte
encoder.frontier_predictor.local_transformer.embeddings.LayerNorm.(weight bias) byte
encoder.frontier_predictor.local_transformer.pooler.dense.weight byte byte
encoder.frontier_predictor.local_transformer.pooler.dense.bias byte
encoder.frontier_predictor.output_projection.weight 1 byte
encoder.frontier_predictor.output_projection.bias 1
encoder.pooler.conv_layers.0.weight 1 1 3 byte
encoder.pooler.out_projection.weight d byte
encoder.pooler.out_projection.bias d
encoder.t5_encoder.final_layer_norm.weight d
decoder_embeddings.weight 384 d
decoder.embed_tokens.weight 384 d
decoder.final_layer_norm.weight d
lm_head.weight 384 d
"""
T5_ATTENTION = """
(q k v).weight inner d
o.weight d inner
"""
T5_WIDE = """
DenseReluDense.(wi_0 wi_1).weight wide d
DenseReluDense.wo.weight d wide
"""

VAN = {
    "tiny": {"hidden_sizes": [32, 64, 160, 256], "depths": [3, 3, 5, 2]},
    "small": {"hidden_sizes": [64, 128, 320, 512], "depths": [2, 2, 4, 2]},
    "base": {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 3, 12, 3]},
    "large": {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 5, 27, 3]},
}
MANTA_PLAIN = {
    "model_type": "manta",
    "feed_forward_proj": "gated-gelu",
    "dense_act_fn": "gelu_new",
    "is_gated_act": True,
    "dropout_rate": 0.1,
}
MANTA_BASE = {
    "byte_embedding_dim": 128,
    "d_ff": 3072,
    "d_kv": 64,
    "d_model": 768,
    "num_heads": 12,
    "num_layers": 12,
    "num_decoder_layers": 12,
}
MANTA_BASE |= {"frontier_predictor_num_layers": 2, "max_length_encoder_decoder": 512, "max_length_inputs": 2048}
MANTA_SMALL = {"byte_embedding_dim": 64, "d_ff": 2048, "d_kv": 64, "d_model": 512, "num_heads": 8, "num_layers": 6, "num_decoder_layers": 6}
MANTA_SMALL |= {"frontier_predictor_num_layers": 1, "max_length_encoder_decoder": 256, "max_length_inputs": 1024}
LITTLE_VAN = {"hidden_sizes": [4, 6, 8, 10], "depths": [1, 2, 1, 1], "num_labels": 3, "layer_scale_init_value": 0.7}
LITTLE_BERT = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20, "mlm_vocab_size": 30}
LITTLE_BERT |= {"max_position_embeddings": 16, "cnn_filters": [[1, 4], [3, 5]]}
LITTLE_MANTA = {"byte_embedding_dim": 16, "d_ff": 20, "d_kv": 6, "d_model": 24, "num_heads": 4, "num_layers": 2, "num_decoder_layers": 3}
LITTLE_MANTA |= {"frontier_predictor_num_layers": 2, "frontier_predictor_num_attention_heads": 2, "frontier_predictor_attention_window": 4}
LITTLE_MANTA |= {"max_length_encoder_decoder": 30, "max_length_inputs": 60}


def expand(table, prefix="", **sizes):
    """{name: shape} of a table."""
    found = {}
    for line in table.split("\n"):
        if line:
            name, shape = re.fullmatch(r"((?:\([^)]*\)|\S)+)(.*)", line).groups()
            choices = [part.split() if place % 2 else [part] for place, part in enumerate(re.split(r"[()]", name))]
            for chosen in product(*choices):
                found[prefix + "".join(chosen)] = tuple(sizes.get(word) or int(word) for word in shape.split())
    return found


def van_names(hidden_sizes, depths, labels):
    """What a checkpoint of VAN holds."""
    found = expand("van.layernorm.(weight bias) d\nclassifier.weight labels d\nclassifier.bias labels", d=hidden_sizes[-1], labels=labels)
    for index, (d, depth, ratio) in enumerate(zip(hidden_sizes, depths, (8, 8, 4, 4), strict=True)):
        stage = f"van.encoder.stages.{index}."
        before, patch = (hidden_sizes[index - 1], 3) if index else (3, 7)
        found |= expand(VAN_STAGE, stage, d=d, before=before, patch=patch)
        for layer in range(depth):
            found |= expand(VAN_LAYER, f"{stage}layers.{layer}.", d=d, wide=d * ratio)
    return found


def character_bert_names(
    d=768, layers=12, wide=3072, words=100_000, positions=512, filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
):
    """What a checkpoint of CharacterBERT holds."""
    width = sum(n for _, n in filters)
    found = expand(CHARACTER_EMBEDDINGS, "character_bert.embeddings.", d=d, filters=width, both=2 * width, positions=positions)
    for index, (size, n) in enumerate(filters):
        conv = f"character_bert.embeddings.word_embeddings.char_conv_{index}."
        found |= {conv + "weight": (n, 16, size), conv + "bias": (n,)}
    for layer in range(layers):
        found |= expand(BERT_LAYER, f"character_bert.encoder.layer.{layer}.", d=d, wide=wide)
    return found | expand(BERT_HEADS, d=d, words=words)


def manta_names(
    byte_embedding_dim,
    d_model,
    d_ff,
    d_kv,
    num_heads,
    num_layers,
    num_decoder_layers,
    frontier_predictor_num_layers,
    max_length_inputs,
    **rest,
):
    """What a checkpoint of MANTa-LM holds."""
    window = rest.get("frontier_predictor_attention_window", 16)
    found = expand(MANTA, byte=byte_embedding_dim, d=d_model, places=(max_length_inputs // window + 1) * window + 1)
    for layer in range(frontier_predictor_num_layers):
        prefix = f"encoder.frontier_predictor.local_transformer.encoder.layer.{layer}."
        found |= expand(BERT_LAYER + LONGFORMER_GLOBAL, prefix, d=byte_embedding_dim, wide=4 * byte_embedding_dim)
    for stack, depth, parts in (
        ("encoder.t5_encoder", num_layers, ("SelfAttention",)),
        ("decoder", num_decoder_layers, ("SelfAttention", "EncDecAttention")),
    ):
        found[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = (32, num_heads)
        for layer in range(depth):
            block = f"{stack}.block.{layer}.layer."
            for place, part in enumerate(parts):
                found |= expand(T5_ATTENTION, f"{block}{place}.{part}.", d=d_model, inner=d_kv * num_heads)
            found |= expand(T5_WIDE, f"{block}{len(parts)}.", d=d_model, wide=d_ff)
            found |= {f"{block}{place}.layer_norm.weight": (d_model,) for place in range(len(parts) + 1)}
    return found


def little_names(kind):
    """The names at the small configurations of these tests."""
    if kind == "van":
        return van_names(LITTLE_VAN["hidden_sizes"], LITTLE_VAN["depths"], 3)
    if kind == "character_bert":
        return character_bert_names(12, 2, 20, 30, 16, LITTLE_BERT["cnn_filters"])
    return manta_names(**LITTLE_MANTA)


def shapes(model):
    """{name: shape} of what a model saves."""
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def on_meta(kind, config):
    """A model without memory."""
    with torch.device("meta"):
        return kind(config)


def stirred(model, seed=0):
    """The model with every number drawn at random, norms and buffers too, and nothing random in its pass."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
                if name.endswith("running_var") or ("norm" in name.lower() and name.endswith("weight")):
                    tensor.abs_().add_(0.5)
    return model.eval()


def little(kind, seed=0):
    """A small model with stirred weights."""
    made = {
        "van": lambda: VanForImageClassification(VanConfig(**LITTLE_VAN)),
        "character_bert": lambda: CharacterBertForPreTraining(CharacterBertConfig(**LITTLE_BERT)),
        "manta": lambda: MantaForConditionalGeneration(MantaConfig(**MANTA_PLAIN, **LITTLE_MANTA)),
    }
    return stirred(made[kind](), seed)


def inputs(kind, seed=1):
    """Something to feed a small model."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "van":
        return {"pixel_values": torch.randn(2, 3, 64, 96, generator=generator)}
    if kind == "character_bert":
        return {"input_ids": torch.from_numpy(CharacterTokenizer().ids(["[CLS]", "élan", "a", "b" * 70, "[MASK]", ".", "[SEP]"]))[None]}
    ids = torch.randint(3, 259, (2, 43), generator=generator)
    return {"input_ids": ids, "decoder_input_ids": ids[:, :11]}


KINDS = ("van", "character_bert", "manta")
AUTO = {"van": AutoModelForImageClassification, "character_bert": AutoModelForPreTraining, "manta": AutoModelForSeq2SeqLM}
BASE = {"van": VanModel, "character_bert": CharacterBertModel, "manta": MantaModel}


@pytest.fixture(autouse=True, scope="module")
def _registered():
    register()


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


@pytest.mark.parametrize("gone", ["decoder_embeddings.weight", "decoder.embed_tokens.weight"])
def test_mantas_decoder_table_may_stand_under_either_name(gone, tmp_path):
    model = little("manta")
    model.save_pretrained(tmp_path)
    state = {name: tensor for name, tensor in model.state_dict().items() if name != gone}
    (tmp_path / "model.safetensors").unlink()
    torch.save(state, tmp_path / "pytorch_model.bin")
    found, report = MantaModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert torch.equal(found.decoder.embed_tokens.weight, model.decoder_embeddings.weight)
    assert found.decoder.embed_tokens is found.decoder_embeddings


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
    assert register() == register()
    assert AutoConfig.for_model("van").__class__ is VanConfig
    assert set(register()) >= {"VanForImageClassification", "CharacterBertForPreTraining", "MantaForConditionalGeneration"}


# VAN


def convolve(x, conv):
    """A convolution as a sum over the places of its kernel: (b, c, h, w) with the weights of a Conv2d."""
    w, bias = conv.weight.detach().double().numpy(), conv.bias.detach().double().numpy()
    stride, pad, step, groups = conv.stride[0], conv.padding[0], conv.dilation[0], conv.groups
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    high, wide = ((size - step * (w.shape[2] - 1) - 1) // stride + 1 for size in x.shape[2:])
    y = np.zeros((len(x), w.shape[0], high, wide))
    for i, j in product(range(w.shape[2]), range(w.shape[3])):
        seen = x[:, :, i * step : i * step + stride * high : stride, j * step : j * step + stride * wide : stride][:, :, :high, :wide]
        y += np.einsum("gof,bgfhw->bgohw", *_grouped(w[:, :, i, j], seen, groups)).reshape(y.shape)
    return y + bias[:, None, None]


def _grouped(w, x, groups):
    return w.reshape(groups, -1, w.shape[1]), x.reshape(len(x), groups, -1, *x.shape[2:])


def batch_norm(x, norm):
    """What a BatchNorm2d does once trained."""
    mean, var, weight, bias = (
        t.detach().double().numpy()[:, None, None] for t in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )
    return (x - mean) / np.sqrt(var + norm.eps) * weight + bias


def gelu(x):
    """x·Φ(x)."""
    return x * (1 + erf(x / math.sqrt(2))) / 2


def van_by_hand(model, x):
    """Scores of a VanForImageClassification in float64, and the map that leaves each block."""
    maps = []
    for stage in model.van.encoder.stages:
        x = batch_norm(convolve(x, stage.embeddings.convolution), stage.embeddings.normalization)
        for block in stage.layers:
            scale, wide = (t.weight.detach().double().numpy()[:, None, None] for t in (block.attention_scaling, block.mlp_scaling))
            n = batch_norm(x, block.pre_normomalization)
            inner = gelu(convolve(n, block.attention.pre_projection.conv))
            large = block.attention.attention_layer.attention
            gate = convolve(convolve(convolve(inner, large.depth_wise), large.depth_wise_dilated), large.point_wise)
            x = x + scale * (n + convolve(inner * gate, block.attention.post_projection))
            n = gelu(convolve(convolve(batch_norm(x, block.post_normalization), block.mlp.in_dense), block.mlp.depth_wise))
            x = x + wide * convolve(n, block.mlp.out_dense)
            maps.append(x)
        norm = stage.normalization
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + norm.eps)
        x = x * norm.weight.detach().double().numpy()[:, None, None] + norm.bias.detach().double().numpy()[:, None, None]
    head = model.classifier
    return x.mean((2, 3)) @ head.weight.detach().double().numpy().T + head.bias.detach().double().numpy(), maps


def test_van_computes_what_sums_over_its_kernels_compute():
    model, image = little("van"), inputs("van")["pixel_values"]
    caught = []
    handles = [
        block.register_forward_hook(lambda module, args, output: caught.append(output))
        for stage in model.van.encoder.stages
        for block in stage.layers
    ]
    with torch.inference_mode():
        found = model(image, output_hidden_states=True)
    for handle in handles:
        handle.remove()
    scores, maps = van_by_hand(model, image.double().numpy())
    np.testing.assert_allclose(found.logits.numpy(), scores, rtol=1e-3, atol=1e-4)
    assert [tuple(map_.shape) for map_ in found.hidden_states] == [(2, 4, 16, 24), (2, 6, 8, 12), (2, 8, 4, 6), (2, 10, 2, 3)]
    for got, expected in zip(caught, maps, strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_the_large_kernel_sees_a_field_of_23_pixels():
    """5 × 5 and then 7 × 7 at every third pixel reach 2 + 9 to each side."""
    gate = stirred(little("van").van.encoder.stages[0].layers[0].attention.attention_layer)
    point = torch.zeros(1, 4, 41, 41)
    with torch.inference_mode():
        blank = gate.attention(point)
        point[0, :, 20, 20] = 1
        rows = (gate.attention(point) != blank).any(dim=1)[0].any(dim=1).nonzero().flatten()
    assert (int(rows.min()), int(rows.max())) == (9, 31)


# CharacterBERT


def test_character_ids_are_those_of_the_published_mapper():
    """Byte + 1 between 259 and 260, filled with 261; marks 257, 258 and 262; padding all zero; 48 bytes of a word at most."""
    tokenizer = CharacterTokenizer()
    rows = tokenizer.ids(["é", "x" * 60, "[CLS]", "[SEP]", "[MASK]", "[PAD]"])
    assert rows.shape == (6, 50)
    assert rows[0, :5].tolist() == [259, 0xC3 + 1, 0xA9 + 1, 260, 261]
    assert rows[1].tolist() == [259, *[ord("x") + 1] * 48, 260]
    assert rows[2:5, :4].tolist() == [[259, 257, 260, 261], [259, 258, 260, 261], [259, 262, 260, 261]]
    assert not rows[5].any()
    assert (rows[[0, 2, 3, 4], 4:] == 261).all()
    assert tokenizer.special(rows).tolist() == [False, False, True, True, True, True]


def test_words_are_those_of_berts_basic_tokenizer():
    from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer

    text = "The naïve café, re-opened in 1999…\tcosts $3.50!  «Œuvre» 東京 is\u200b Tokyo's\n[MASK] Straße; ﬁn x²_y"
    assert CharacterTokenizer().words(text) == BasicTokenizer(do_lower_case=True).tokenize(text)
    assert CharacterTokenizer(lower_case=False).words(text) == BasicTokenizer(do_lower_case=False).tokenize(text)
    assert not CharacterTokenizer().special(CharacterTokenizer().ids(CharacterTokenizer().words("[CLS] [PAD]"))).any()


def test_the_tokenizer_follows_the_checkpoint(tmp_path):
    assert CharacterTokenizer.from_folder(tmp_path).words("Ab") == ["ab"]
    (tmp_path / "tokenizer_config.json").write_text('{"max_word_length": 20, "do_lower_case": false}')
    tokenizer = CharacterTokenizer.from_folder(tmp_path)
    assert tokenizer.words("Ab") == ["Ab"]
    assert tokenizer.ids(["Ab"]).shape == (1, 20)


def test_word_vectors_are_the_largest_answers_through_the_highway():
    model = little("character_bert").character_bert
    cnn = model.embeddings.word_embeddings
    ids = inputs("character_bert")["input_ids"]
    with torch.inference_mode():
        found = cnn(ids)[0].numpy()
    weights = {name: tensor.detach().double().numpy() for name, tensor in cnn.state_dict().items()}
    for word, got in zip(ids[0].numpy(), found, strict=True):
        characters = weights["_char_embedding_weights"][word]  # (50, 16)
        answers = []
        for index, (size, filters) in enumerate(LITTLE_BERT["cnn_filters"]):
            w, b = weights[f"char_conv_{index}.weight"], weights[f"char_conv_{index}.bias"]
            for f in range(filters):
                best = max((characters[start : start + size] * w[f].T).sum() for start in range(50 - size + 1))
                answers.append(max(0.0, best + b[f]))
        x = np.array(answers)
        for layer in range(2):
            w, b = weights[f"_highways._layers.{layer}.weight"], weights[f"_highways._layers.{layer}.bias"]
            fresh, gate = np.maximum(w[:9] @ x + b[:9], 0), expit(w[9:] @ x + b[9:])
            x = gate * x + (1 - gate) * fresh
        np.testing.assert_allclose(got, weights["_projection.weight"] @ x + weights["_projection.bias"], rtol=1e-4, atol=1e-5)


def test_behind_its_word_vectors_character_bert_is_bert():
    model = little("character_bert").character_bert
    sizes = {key: value for key, value in LITTLE_BERT.items() if key not in ("mlm_vocab_size", "cnn_filters")}
    bert = BertModel(BertConfig(**sizes, vocab_size=1)).eval()
    missing = bert.load_state_dict(model.state_dict(), strict=False).missing_keys
    assert missing == ["embeddings.word_embeddings.weight"]
    ids = inputs("character_bert")["input_ids"]
    with torch.inference_mode():
        ours = model(ids, output_hidden_states=True)
        theirs = bert(inputs_embeds=model.embeddings.word_embeddings(ids), output_hidden_states=True)
    assert len(ours.hidden_states) == 3
    for a, b in zip(ours.hidden_states, theirs.hidden_states, strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(ours.pooler_output, theirs.pooler_output)


def test_padding_changes_nothing_in_character_bert():
    model, tokenizer = little("character_bert"), CharacterTokenizer()
    alone = tokenizer.ids(["[CLS]", "short", "[SEP]"])
    other = tokenizer.ids(["[CLS]", "a", "longer", "text", ".", "[SEP]"])
    padded = np.concatenate([alone, tokenizer.ids(["[PAD]"] * 3)])
    mask = torch.tensor([[1, 1, 1, 0, 0, 0], [1] * 6])
    with torch.inference_mode():
        together = model(torch.from_numpy(np.stack([padded, other])), attention_mask=mask).prediction_logits
        by_itself = model(torch.from_numpy(alone)[None]).prediction_logits
        unmasked = model(torch.from_numpy(padded)[None]).prediction_logits
    torch.testing.assert_close(together[:1, :3], by_itself)
    assert not torch.allclose(unmasked[:, :3], by_itself, atol=1e-3)


# MANTa-LM


def blocks_by_hand(model, frontiers, vectors):
    """The pooled blocks of one row, one number at a time, as the published code has it for a row alone."""
    n, d = vectors.shape
    mean, variance, means, spreads = 0.0, 0.0, [], []
    for s in range(n):
        p = frontiers[s] if s else 0.0
        mean, variance = mean + p, variance + p * (1 - p)
        means.append(mean)
        spreads.append(math.sqrt(variance + 5e-6))
    blocks = min(n, int(max(m + 3 * s for m, s in zip(means, spreads, strict=True))) + 1)
    share = np.zeros((blocks, n))
    for s in range(n):
        heights = np.array([math.exp(-((means[s] - j) ** 2) / (2 * spreads[s])) for j in range(blocks)])
        share[:, s] = heights / heights.sum()
    kernel = model.encoder.pooler.conv_layers[0].weight[0, 0].detach().double().numpy()  # (3, d)
    pooled = np.zeros((blocks, d))
    for j, channel in product(range(blocks), range(d)):
        pooled[j, channel] = max(
            sum(kernel[k, channel] * vectors[s + k - 1, channel] * share[j, s + k - 1] for k in range(3) if 0 <= s + k - 1 < n)
            for s in range(n)
        )
    out = model.encoder.pooler.out_projection
    return pooled[: model.config.max_length_encoder_decoder] @ out.weight.detach().double().numpy().T + out.bias.detach().double().numpy()


def manta_with_frontiers(rate):
    """A small model whose frontiers are about as likely as asked for."""
    model = little("manta")
    with torch.no_grad():
        model.encoder.frontier_predictor.output_projection.bias.fill_(math.log(rate / (1 - rate)))
    return model


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.95])
def test_blocks_are_pooled_as_published(rate):
    model, ids = manta_with_frontiers(rate), inputs("manta")["input_ids"][:1]
    with torch.inference_mode():
        blocks, there, frontiers = model.encoder.segment(ids)
        vectors = model.encoder.byte_embeddings(ids)[0].double().numpy()
    expected = blocks_by_hand(model, frontiers[0].double().numpy(), vectors)
    assert there.shape == (1, len(expected))
    assert there.all()
    np.testing.assert_allclose(blocks[0].numpy(), expected, rtol=1e-4, atol=1e-5)
    assert (len(expected) == 30) == (rate == 0.95)  # then it is cut at max_length_encoder_decoder


def test_frontiers_are_those_of_longformer_left_to_fill_up_by_itself():
    model, ids = little("manta"), inputs("manta")["input_ids"]
    predictor = model.encoder.frontier_predictor
    assert isinstance(predictor.local_transformer, LongformerModel)
    with torch.inference_mode():
        x = model.encoder.byte_embeddings(ids)
        states = predictor.local_transformer(inputs_embeds=x).last_hidden_state
        expected = torch.sigmoid(predictor.output_projection(states))[..., 0]
        torch.testing.assert_close(predictor(x, torch.ones_like(ids)), expected)
        ids[:, 30] = 5
        near = (predictor(model.encoder.byte_embeddings(ids), torch.ones_like(ids)) - expected).abs().amax(dim=0) > 1e-7
    assert near.nonzero().flatten().tolist() == list(range(26, 35))  # two layers that see two bytes to each side


def test_behind_its_blocks_manta_is_t5():
    model, fed = little("manta"), inputs("manta")
    sizes = {key: LITTLE_MANTA[key] for key in ("d_ff", "d_kv", "d_model", "num_heads", "num_layers", "num_decoder_layers")}
    t5 = T5Model(T5Config(**sizes, vocab_size=384, feed_forward_proj="gated-gelu")).eval()
    named = {
        name.replace("encoder.t5_encoder.", "encoder.").replace("decoder_embeddings.", "shared."): t
        for name, t in model.state_dict().items()
    }
    assert set(t5.load_state_dict(named, strict=False).missing_keys) <= {"encoder.embed_tokens.weight"}
    with torch.inference_mode():
        blocks, _, _ = model.encoder.segment(fed["input_ids"][:1])
        theirs = t5(
            inputs_embeds=blocks, decoder_inputs_embeds=model.decoder_embeddings(fed["decoder_input_ids"][:1]), output_hidden_states=True
        )
        ours = model(fed["input_ids"][:1], decoder_input_ids=fed["decoder_input_ids"][:1], output_hidden_states=True)
        scores = model.lm_head(theirs.last_hidden_state)
    torch.testing.assert_close(ours.logits, scores)
    for stack in ("encoder_hidden_states", "decoder_hidden_states"):
        for a, b in zip(ours[stack], theirs[stack], strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_padding_and_neighbours_change_nothing_in_manta(rate):
    model, fed = manta_with_frontiers(rate), inputs("manta")
    ids, mask = fed["input_ids"], torch.ones_like(fed["input_ids"])
    ids[0, 18:], mask[0, 18:] = 0, 0
    with torch.inference_mode():
        together = model(ids, attention_mask=mask, decoder_input_ids=fed["decoder_input_ids"])
        for row, length in ((0, 18), (1, 43)):
            alone = model(ids[row : row + 1, :length], decoder_input_ids=fed["decoder_input_ids"][row : row + 1])
            blocks = alone.block_mask.shape[1]
            assert together.block_mask[row].tolist() == [1] * blocks + [0] * (together.block_mask.shape[1] - blocks)
            torch.testing.assert_close(
                together.encoder_last_hidden_state[row, :blocks], alone.encoder_last_hidden_state[0], rtol=1e-4, atol=1e-4
            )
            torch.testing.assert_close(together.logits[row], alone.logits[0], rtol=1e-4, atol=1e-4)
    assert together.block_mask[0].sum() < together.block_mask[1].sum()


def test_what_manta_cannot_take_is_said():
    model = little("manta")
    with pytest.raises(IsoscopeError, match="at most 60 bytes; got 61"):
        model.encoder.segment(torch.full((1, 61), 5))
    with pytest.raises(IsoscopeError, match="padded on the right"):
        model.encoder.segment(torch.full((1, 4), 5), torch.tensor([[0, 1, 1, 1]]))
    with pytest.raises(IsoscopeError, match="max pooling"):
        MantaConfig(pooling_mean_pool=True)
    with pytest.raises(IsoscopeError, match="odd size"):
        MantaConfig(pooling_kernel_size=2)
