"""What a training leaves behind: a folder a checkpoint, its losses, and the state from which it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from isoscope.core.bounded import parse_json, read_json
from isoscope.core.errors import IsoscopeError
from isoscope.core.temporary import delete_path, find_abandoned, temporary_path

TRAINING, LOSS, STATE = "training.json", "loss.csv", "resume.safetensors"


class Checkpoints:
    """The checkpoints of one seed of a suite: `SUITE/seed-0/step-100/`."""

    def __init__(self, suite: Path, seed: int) -> None:
        self.suite, self.folder = suite, suite / f"seed-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, _ in find_abandoned(self.folder):
            delete_path(path)

    def claim(self, made: dict[str, Any]) -> None:
        """Say how the suite is made; one that was made otherwise is not mixed with it."""
        path = self.suite / TRAINING
        if path.exists():
            try:
                before: Any = read_json(path)
            except (OSError, ValueError) as error:
                raise IsoscopeError(f"{path} is damaged ({error}); delete {self.suite} and train again.") from error
            before = before if isinstance(before, dict) else {}
            if changed := [name for name in made if before.get(name) != made[name]]:
                raise IsoscopeError(
                    f"{self.suite} was trained with {changed[0]} = {before.get(changed[0])}, not {made[changed[0]]}; "
                    "give another --out, or delete it."
                )
        else:
            _put(path, lambda there: there.write_text(json.dumps(made, indent=1, ensure_ascii=False), "utf-8"))

    def step(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self.folder / f"step-{step}"

    def write(self, step: int, network: Any, data: Any, dtype: torch.dtype) -> None:
        """Write a checkpoint, whole or not at all."""

        def act(folder: Path) -> None:
            folder.mkdir()
            network.config.save_pretrained(folder)
            state = {name: tensor.to(dtype).contiguous() for name, tensor in network.state_dict().items()}
            save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
            data.save(folder)

        if not self.step(step).exists():
            _put(self.step(step), act)

    def save(self, step: int, network: Any, optimizer: Any, losses: list[tuple[int, float, float]]) -> None:
        """Keep the state after this step, by which the training goes on as if it had not stopped."""
        names = {parameter: name for name, parameter in network.named_parameters()}
        state: dict[str, Tensor] = {f"weights/{name}": tensor for name, tensor in network.state_dict().items()}
        for parameter, found in optimizer.state.items():
            state |= {f"{key}/{names[parameter]}": tensor for key, tensor in found.items()}
        lines = ["step,loss,held_out", *(f"{at},{loss:.6f},{'' if held != held else f'{held:.6f}'}" for at, loss, held in losses)]
        _put(self.folder / LOSS, lambda there: there.write_text("\n".join(lines) + "\n", "utf-8"))
        _put(self.folder / STATE, lambda there: save_file(state, there, metadata={"step": str(step), "losses": json.dumps(losses)}))

    def resume(self, network: Any, optimizer: Any) -> tuple[int, list[tuple[int, float, float]]]:
        """Put network and optimiser where they were; the step that was done last (-1: none) and the losses up to it."""
        path = self.folder / STATE
        if not path.exists():
            return -1, []
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata()
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            step, losses = int(about["step"]), [(int(at), float(loss), float(held)) for at, loss, held in parse_json(about["losses"])]
            network.load_state_dict({name.removeprefix("weights/"): t for name, t in state.items() if name.startswith("weights/")})
            for name, parameter in network.named_parameters():
                found = {key: state[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in state}
                if any(found[key].shape != parameter.shape for key in found if key != "step"):
                    raise ValueError(f"{name} has another shape")
                if found:
                    optimizer.state[parameter] = found
        except (OSError, SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise IsoscopeError(f"{path} is damaged ({said.rstrip('.:')}); delete {self.folder} and train again.") from error
        return step, losses

    def finish(self) -> None:
        """Nothing is left to go on from."""
        (self.folder / STATE).unlink(missing_ok=True)


def _put(path: Path, act: Any) -> None:
    """Write a file or folder under another name and rename it: it is there whole or not at all."""
    temporary = temporary_path(path)
    try:
        act(temporary)
        temporary.replace(path)
    except OSError as error:
        raise IsoscopeError(f"Cannot write to {path}: {error.strerror or error}.") from error
    finally:
        delete_path(temporary)
