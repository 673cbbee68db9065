"""Small trainings and their checkpoints, and a hub on loopback that lists revisions and repositories as the hub does."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import torch
import transformers as t

from tests.conftest import word_tokenizer
from tests.models.loopback_hub import REPOSITORY, Answers, LoopbackHub


def network(kind: str, seed: int = 0):
    torch.manual_seed(seed)
    if kind == "bert":
        size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
        return t.BertForMaskedLM(t.BertConfig(vocab_size=80, max_position_embeddings=64, **size))
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    return t.GPTNeoXForCausalLM(t.GPTNeoXConfig(vocab_size=80, max_position_embeddings=64, bos_token_id=2, eos_token_id=3, **size))


def training(kind: str, steps: list[int], seed: int = 0):
    """(step, model) at each of these steps of a real, very short training."""
    model = network(kind, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(seed)
    for step in range(max(steps) + 1):
        if step in steps:
            yield step, model
        tokens = torch.randint(5, 60, (4, 16), generator=generator)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def save(model, folder: Path, *, around: bool = True) -> Path:
    model.save_pretrained(folder)
    word_tokenizer(folder, around=around)
    return folder


def suite(root: Path, kind: str, steps: list[int], seeds: list[int]) -> Path:
    """`root/seed-0/step-100/`, as `isoscope train` writes them."""
    for seed in seeds:
        for step, model in training(kind, steps, seed):
            save(model, root / f"seed-{seed}" / f"step-{step}", around=kind == "bert")
    return root


class Listing(Answers):
    """A hub that lists, too."""

    def do_GET(self) -> None:  # noqa: N802
        url = urlsplit(self.path)
        if self.hub.down:
            super().do_GET()
        elif found := re.fullmatch(rf"/api/models/{REPOSITORY}/refs", unquote(url.path)):
            revisions = self.hub.repositories.get(found[1])
            if revisions is None:
                self.refuse(401, "RepoNotFound", "Repository not found")
                return
            refs = [
                {"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit.sha}
                for name, commit in revisions.items()
                if name != commit.sha
            ]
            self.send({"branches": refs, "tags": [], "converts": []})
        elif url.path == "/api/models":
            asked = parse_qs(url.query)
            wanted = f"{asked.get('author', ['*'])[0]}/*{asked.get('search', [''])[0]}*"
            self.send([{"_id": "0", "id": name, "modelId": name} for name in self.hub.repositories if fnmatch(name, wanted)])
        else:
            super().do_GET()

    def send(self, found: object) -> None:
        self.token = None
        self.answer(200, json.dumps(found).encode(), {"Content-Type": "application/json"})


class SuiteHub(LoopbackHub):
    """A loopback hub that also says which revisions and repositories it has."""

    def __enter__(self) -> "SuiteHub":
        super().__enter__()
        self.server.RequestHandlerClass = type("Handler", (Listing,), {"hub": self})
        return self

    def weights_of(self) -> list[str]:
        """The paths under which weights were sent, in order."""
        return [seen.path for seen in self.requests if seen.path.startswith("/store/") and seen.method == "GET"]
