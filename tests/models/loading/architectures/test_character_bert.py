"""CharacterBERT: its tokenizer and its word vectors, computed in another way."""

import numpy as np
import torch
from scipy.special import expit
from transformers import (
    BertConfig,
    BertModel,
)

from isoscope.models.loading.architectures.character_bert import (
    CharacterTokenizer,
)
from tests.models.published_architectures import LITTLE_BERT, inputs, little


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
