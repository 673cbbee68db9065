"""Trainings of a few seconds."""

from isoscope.training.run_training import run_training

SMALL = {"width": 32, "heads": 1, "layers": 2, "length": 32, "batch": 4}


def train_small(name, out, data, **more):
    return run_training(name, out, data, threads=1, quiet=True, **(SMALL | {"steps": 12} | more))


def weights(suite, seed=0):
    return {path.parent.name: path.read_bytes() for path in sorted((suite / f"seed-{seed}").glob("step-*/model.safetensors"))}
