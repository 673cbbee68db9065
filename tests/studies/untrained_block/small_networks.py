"""Small untrained networks for tests."""

import torch

from isoscope.studies.untrained_block.experiment import Network
from isoscope.studies.untrained_block.networks import Block, PlainNetwork, Sizes

SMALL = Sizes(d=32, heads=4, length=24, batch=3, vocabulary=50)


def copy_weights(block: Block, sources: dict) -> None:
    """Copy weights and biases of other modules into the parts of a block, by name."""
    with torch.no_grad():
        for name, theirs in sources.items():
            mine = block.get_submodule(name)
            mine.weight.copy_(theirs.weight)
            mine.bias.copy_(theirs.bias)


def draw_network(sizes: Sizes, seed: int = 0, **choices: str) -> PlainNetwork:
    """A plain network with weights and inputs."""
    subject = Network(**choices).make_subject(sizes)
    subject.draw(seed)
    return subject
