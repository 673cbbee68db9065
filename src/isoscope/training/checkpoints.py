"""The files of a training: one folder per checkpoint, its losses, and the state from which it resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from isoscope.core.errors import IsoscopeError, first_line
from isoscope.core.temporary import delete_path, find_abandoned, temporary_path
from isoscope.trust.safe_io import parse_json, read_json

TRAINING, LOSSES, STATE = "training.json", "loss.csv", "resume.safetensors"


class Loss(NamedTuple):
    """The loss at one step."""

    step: int
    batch: float
    held_out: float
    """On items that are not trained on; NaN between checkpoints."""


class Checkpoints:
    """The checkpoints of one seed of a suite: `SUITE/seed-0/step-100/`."""

    def __init__(self, suite: Path, seed: int) -> None:
        self.suite, self.folder = suite, suite / f"seed-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, _ in find_abandoned(self.folder):
            delete_path(path)

    def claim(self, identity: dict[str, Any]) -> None:
        """Record how the suite is trained. A suite that was trained in another way is refused, so that the two do not mix."""
        path = self.suite / TRAINING
        if not path.exists():
            write_atomically(path, lambda temporary: temporary.write_text(json.dumps(identity, indent=1, ensure_ascii=False), "utf-8"))
            return
        try:
            recorded: Any = read_json(path)
        except (OSError, ValueError) as error:
            raise IsoscopeError(f"{path} is damaged ({error}); delete {self.suite} and train again.") from error
        recorded = recorded if isinstance(recorded, dict) else {}
        if changed := [name for name in identity if recorded.get(name) != identity[name]]:
            raise IsoscopeError(
                f"{self.suite} was trained with {changed[0]} = {recorded.get(changed[0])}, not {identity[changed[0]]}; "
                "give another --out, or delete it."
            )

    def step(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self.folder / f"step-{step}"

    def has_all(self, steps: list[int]) -> bool:
        """Whether the checkpoints of these steps are written."""
        return all(self.step(step).exists() for step in steps)

    def write_checkpoint(self, step: int, network: Any, data: Any, dtype: torch.dtype) -> None:
        """Write a checkpoint, completely or not at all. One that exists is left alone: a resumed training would write the same."""

        def write(folder: Path) -> None:
            folder.mkdir()
            network.config.save_pretrained(folder)
            state = {name: tensor.to(dtype).contiguous() for name, tensor in network.state_dict().items()}
            save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
            data.save(folder)

        if not self.step(step).exists():
            write_atomically(self.step(step), write)

    def save_state(self, step: int, network: Any, optimizer: Any, losses: list[Loss]) -> None:
        """Save the state after this step: weights in full precision, the optimizer's moments of each, and the losses."""
        # The optimizer knows its parameters by identity; in a file they go by name.
        names = {parameter: name for name, parameter in network.named_parameters()}
        state: dict[str, Tensor] = {f"weights/{name}": tensor for name, tensor in network.state_dict().items()}
        for parameter, moments in optimizer.state.items():
            state |= {f"{key}/{names[parameter]}": tensor for key, tensor in moments.items()}
        lines = ["step,loss,held_out", *(f"{at},{loss:.6f},{'' if held != held else f'{held:.6f}'}" for at, loss, held in losses)]
        metadata = {"step": str(step), "losses": json.dumps(losses)}
        # The losses first: if the process is killed in between, the older state writes them again.
        write_atomically(self.folder / LOSSES, lambda temporary: temporary.write_text("\n".join(lines) + "\n", "utf-8"))
        write_atomically(self.folder / STATE, lambda temporary: save_file(state, temporary, metadata=metadata))

    def resume(self, network: Any, optimizer: Any) -> tuple[int, list[Loss]]:
        """Restore network and optimizer. Returns the last step that was done (-1 without a saved state) and the losses up to it."""
        path = self.folder / STATE
        if not path.exists():
            return -1, []
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata()
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            step = int(metadata["step"])
            losses = [Loss(int(at), float(loss), float(held)) for at, loss, held in parse_json(metadata["losses"])]
            network.load_state_dict({name.removeprefix("weights/"): t for name, t in state.items() if name.startswith("weights/")})
            for name, parameter in network.named_parameters():
                moments = {key: state[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in state}
                if any(moments[key].shape != parameter.shape for key in moments if key != "step"):
                    raise ValueError(f"{name} has another shape")
                if moments:
                    optimizer.state[parameter] = moments
        except (OSError, SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
            reason = first_line(error).rstrip(".:")
            raise IsoscopeError(f"{path} is damaged ({reason}); delete {self.folder} and train again.") from error
        return step, losses

    def delete_state(self) -> None:
        """Delete the saved state of a finished training."""
        (self.folder / STATE).unlink(missing_ok=True)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file or folder under a temporary name and rename it, so that it is complete or absent."""
    temporary = temporary_path(path)
    try:
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        raise IsoscopeError(f"Cannot write to {path}: {error.strerror or error}.") from error
    finally:
        delete_path(temporary)
