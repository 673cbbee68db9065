"""OpenAI's Whisper checkpoints compute what their tensors say."""

import math
from importlib.resources import files

import pytest
import torch
from torch.nn import functional

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.whisper_checkpoint import read_whisper
from isoscope.models.naming.model_name import resolve_model

DIMS = {"n_mels": 5, "n_audio_ctx": 12, "n_audio_state": 8, "n_audio_head": 2, "n_audio_layer": 2}
DIMS |= {"n_text_ctx": 10, "n_text_state": 8, "n_text_head": 4, "n_text_layer": 3}


def whisper_state(dims, seed=0):
    """Random weights under OpenAI's names."""
    generator = torch.Generator().manual_seed(seed)
    d, state = dims["n_audio_state"], {}

    def linear(name, rows, columns, *, bias=True):
        state[f"{name}.weight"] = torch.randn(rows, columns, generator=generator) * 0.3
        if bias:
            state[f"{name}.bias"] = torch.randn(rows, generator=generator) * 0.3

    def norm(name):
        state[f"{name}.weight"] = 1 + torch.randn(d, generator=generator) * 0.3
        state[f"{name}.bias"] = torch.randn(d, generator=generator) * 0.3

    for stack, layers in (("encoder", dims["n_audio_layer"]), ("decoder", dims["n_text_layer"])):
        for layer in range(layers):
            block = f"{stack}.blocks.{layer}"
            for attention in ("attn", "cross_attn")[: 1 + (stack == "decoder")]:
                norm(f"{block}.{attention}_ln")
                for name in ("query", "key", "value", "out"):
                    linear(f"{block}.{attention}.{name}", d, d, bias=name != "key")
            norm(f"{block}.mlp_ln")
            linear(f"{block}.mlp.0", 4 * d, d)
            linear(f"{block}.mlp.2", d, 4 * d)
    for name, inputs in (("conv1", dims["n_mels"]), ("conv2", d)):
        state[f"encoder.{name}.weight"] = torch.randn(d, inputs, 3, generator=generator) * 0.3
        state[f"encoder.{name}.bias"] = torch.randn(d, generator=generator) * 0.3
    norm("encoder.ln_post")
    norm("decoder.ln")
    state["encoder.positional_embedding"] = torch.randn(dims["n_audio_ctx"], d, generator=generator)
    state["decoder.positional_embedding"] = torch.randn(dims["n_text_ctx"], d, generator=generator)
    state["decoder.token_embedding.weight"] = torch.randn(dims["n_vocab"], d, generator=generator)
    return state


def attend(x, memory, state, name, heads, *, causal=False):
    def project(y, part):
        out = functional.linear(y, state[f"{name}.{part}.weight"], state.get(f"{name}.{part}.bias"))
        return out.view(len(y), heads, -1).transpose(0, 1)

    q, k, v = project(x, "query"), project(memory, "key"), project(memory, "value")
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores + torch.full(scores.shape[1:], -torch.inf).triu(1)
    mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(x), -1)
    return functional.linear(mixed, state[f"{name}.out.weight"], state[f"{name}.out.bias"])


def norm(x, state, name):
    return functional.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])


def feed_forward(x, state, block):
    inner = functional.gelu(
        functional.linear(norm(x, state, f"{block}.mlp_ln"), state[f"{block}.mlp.0.weight"], state[f"{block}.mlp.0.bias"])
    )
    return x + functional.linear(inner, state[f"{block}.mlp.2.weight"], state[f"{block}.mlp.2.bias"])


def whisper_by_hand(mel, tokens, dims, state):
    """Logits from OpenAI's tensors: mel is n_mels × 2·n_audio_ctx, tokens a list."""
    x = functional.gelu(functional.conv1d(mel, state["encoder.conv1.weight"], state["encoder.conv1.bias"], padding=1))
    x = functional.gelu(functional.conv1d(x, state["encoder.conv2.weight"], state["encoder.conv2.bias"], stride=2, padding=1))
    x = x.T + state["encoder.positional_embedding"]
    for layer in range(dims["n_audio_layer"]):
        block = f"encoder.blocks.{layer}"
        inner = norm(x, state, f"{block}.attn_ln")
        x = feed_forward(x + attend(inner, inner, state, f"{block}.attn", dims["n_audio_head"]), state, block)
    memory = norm(x, state, "encoder.ln_post")
    table = state["decoder.token_embedding.weight"]
    y = table[tokens] + state["decoder.positional_embedding"][: len(tokens)]
    for layer in range(dims["n_text_layer"]):
        block = f"decoder.blocks.{layer}"
        inner = norm(y, state, f"{block}.attn_ln")
        y = y + attend(inner, inner, state, f"{block}.attn", dims["n_text_head"], causal=True)
        y = y + attend(norm(y, state, f"{block}.cross_attn_ln"), memory, state, f"{block}.cross_attn", dims["n_text_head"])
        y = feed_forward(y, state, block)
    return norm(y, state, "decoder.ln") @ table.T


def load_whisper(path):
    from transformers import WhisperForConditionalGeneration

    config, state = read_whisper(path)
    model, report = WhisperForConditionalGeneration.from_pretrained(
        None, config=config, state_dict=state, output_loading_info=True, dtype=torch.float32
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    return model.eval()


@pytest.mark.parametrize(("n_vocab", "end", "start"), [(51864, 50256, 50257), (51865, 50257, 50258), (51866, 50257, 50258)])
def test_whisper_computes_what_its_tensors_say(tmp_path, n_vocab, end, start):
    dims = DIMS | {"n_vocab": n_vocab}
    state = whisper_state(dims)
    torch.save({"dims": dims, "model_state_dict": state}, tmp_path / "made.pt")
    model = load_whisper(tmp_path / "made.pt")
    assert (model.config.eos_token_id, model.config.pad_token_id, model.config.decoder_start_token_id) == (end, end, start)
    assert model.config.bos_token_id == 50257
    mel, tokens = torch.randn(5, 24, generator=torch.Generator().manual_seed(1)), [start, 7, 1234, end]
    with torch.no_grad():
        found = model(input_features=mel[None], decoder_input_ids=torch.tensor([tokens])).logits[0]
    torch.testing.assert_close(found, whisper_by_hand(mel, tokens, dims, state), rtol=1e-4, atol=1e-4)


def test_whisper_alone_in_a_folder_and_next_to_other_files(tmp_path):
    dims = DIMS | {"n_vocab": 51864}
    path = tmp_path / "tiny.pt"
    torch.save({"dims": dims, "model_state_dict": whisper_state(dims)}, path)
    alone = resolve_model(str(path))
    assert (alone.whisper, alone.gguf, alone.folder, alone.name) == ("tiny.pt", None, tmp_path, "tiny")
    (tmp_path / "notes.txt").write_text("of somebody else")
    there = resolve_model(str(tmp_path))
    assert (there.whisper, there.weights, there.name) == ("tiny.pt", alone.weights, tmp_path.name)
    assert resolve_model(f"untrained:{path}").weights != alone.weights
    torch.save({"dims": dims, "model_state_dict": whisper_state(dims, seed=1)}, path)
    assert resolve_model(str(path)).weights != alone.weights


def test_a_pt_that_is_not_whisper(tmp_path):
    path = tmp_path / "other.pt"
    for content in ({"weight": torch.ones(2)}, [1], {"dims": {}, "model_state_dict": {}}):
        torch.save(content, path)
        with pytest.raises(IsoscopeError, match=r"other\.pt (is not a Whisper checkpoint|does not give all sizes)"):
            read_whisper(path)
    path.write_bytes(b"rubbish")
    with pytest.raises(IsoscopeError, match=r"other\.pt (is damaged|holds a pickle that is more)"):
        read_whisper(path)


@pytest.fixture(scope="session")
def whisper_tiny():
    """Whisper tiny.en, as OpenAI saved it."""
    from isoscope.packages.download import package_path

    return next(package_path("whisper-tiny.en").glob("*.pt"))


@pytest.mark.models
def test_real_whisper_hears_english(whisper_tiny):
    import soundfile
    from transformers import WhisperFeatureExtractor

    speech, rate = soundfile.read(files("isoscope") / "sources" / "data" / "speech" / "sense-and-sensibility-0880.flac")
    model = load_whisper(whisper_tiny)
    features = WhisperFeatureExtractor()(speech, sampling_rate=rate, return_tensors="pt").input_features
    ids = [model.config.decoder_start_token_id]
    with torch.no_grad():
        heard = model.model.encoder(features)
        while ids[-1] != model.config.eos_token_id and len(ids) < 40:
            ids.append(int(model(encoder_outputs=heard, decoder_input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    pieces = {679: " He", 373: " was", 407: " not", 281: " an", 1468: " old", 12: "-", 2777: "sp", 1335: "osed", 1862: " young"}
    pieces |= {582: " man", 13: ".", 50257: "", 50362: "", 50256: ""}  # the start, no timestamps, the end
    # The speaker says "He was not an ill-disposed young man."
    assert "".join(pieces.get(one, f"<{one}>") for one in ids) == " He was not an old-sposed young man."
