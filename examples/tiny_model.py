"""Make a small model with random weights and a tokenizer of words, to try things on without a download.

python examples/tiny_model.py FOLDER
"""

import sys
from pathlib import Path

WORDS = "the of and to a in that is was it for with as his on be at by i this had not are but from or have an they which"


def tiny_model(folder: Path, seed: int = 0) -> Path:
    """A BERT of two layers and 32 dimensions, as a hub would give it: config.json, weights, tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS.split(), *"bcdefghjklmnopqrstuvwxyz,.;:!?"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    marks = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **marks).save_pretrained(folder)
    torch.manual_seed(seed)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64}
    BertModel(BertConfig(vocab_size=len(vocabulary), **size)).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(tiny_model(Path(sys.argv[1])))
