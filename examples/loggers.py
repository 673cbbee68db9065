"""Loggers for Weights & Biases and for trackio, ten lines each: any object with log(step, values) and close() will do.

python examples/loggers.py [wandb | trackio]
"""

import sys

import torch
from watch_plain import Network

import isoscope


class WeightsAndBiases:
    def __init__(self, project: str) -> None:
        import wandb

        self.run = wandb.init(project=project)

    def log(self, step: int, values: dict[str, float]) -> None:
        self.run.log(values, step=step)

    def close(self) -> None:
        self.run.finish()


class Trackio:
    def __init__(self, project: str) -> None:
        import trackio

        self.run = trackio.init(project=project)

    def log(self, step: int, values: dict[str, float]) -> None:
        self.run.log(values, step=step)

    def close(self) -> None:
        self.run.finish()


class Lines:
    def log(self, step: int, values: dict[str, float]) -> None:
        print(step, *(f"{name}={value:.3f}" for name, value in values.items() if name.startswith("mean_cosine/hidden")))

    def close(self) -> None:
        print("closed")


if __name__ == "__main__":
    chosen = {"wandb": WeightsAndBiases, "trackio": Trackio}.get(sys.argv[-1])
    torch.manual_seed(0)
    logger = chosen("isoscope") if chosen else Lines()
    with isoscope.watch(Network(), every=1, data=torch.randint(0, 64, (16, 16)), out="runs/logged", log=logger) as w:
        w.step()  # after the optimiser's
