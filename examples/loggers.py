"""Send the numbers of a watch to a tracker by its name, or to an object of your own: anything with log(step, values) and close().

python examples/loggers.py [wandb | trackio | mlflow | tensorboard]
"""

import sys

import torch
from watch_plain import Network

import isoscope


class Lines:
    def log(self, step: int, values: dict[str, float]) -> None:
        print(step, *(f"{name}={value:.3f}" for name, value in values.items() if name.startswith("mean_cosine/hidden")))

    def close(self) -> None:
        print("closed")


if __name__ == "__main__":
    torch.manual_seed(0)
    with isoscope.watch(Network(), every=1, data=torch.randint(0, 64, (16, 16)), out="runs/logged", log=[Lines(), *sys.argv[1:]]) as w:
        w.step()  # after the optimiser's
