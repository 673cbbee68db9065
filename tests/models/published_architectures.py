"""The published checkpoints of the architectures written here: their names and shapes, and small models with inputs."""

import re
from itertools import product

import torch
from transformers import (
    AutoModelForImageClassification,
    AutoModelForPreTraining,
    AutoModelForSeq2SeqLM,
)

from isoscope.models.loading.architectures import register_architectures
from isoscope.models.loading.architectures.character_bert import (
    CharacterBertConfig,
    CharacterBertForPreTraining,
    CharacterBertModel,
    CharacterTokenizer,
)
from isoscope.models.loading.architectures.manta_lm import MantaConfig, MantaForConditionalGeneration, MantaModel
from isoscope.models.loading.architectures.van import VanConfig, VanForImageClassification, VanModel

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

register_architectures()
