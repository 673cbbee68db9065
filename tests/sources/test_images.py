"""Images: one way into RGB from every mode and format, named by class and file, one held at a time, and a sentence for every mistake."""

import io
import shutil
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources import open_source


def picture(width=40, height=24):
    """Smooth colours that no two corners share."""
    y, x = np.mgrid[0:height, 0:width]
    return PIL.Image.fromarray(np.stack([x * 255 // width, y * 255 // height, 255 - x * 255 // width], -1).astype(np.uint8))


def save(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return str(path)


def only(spec):
    (item,) = open_source(spec).items()
    assert isinstance(item.content, PIL.Image.Image)
    assert item.content.mode == "RGB"
    return np.asarray(item.content).astype(int)


@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("a.png", {}, 0),
        ("a.BMP", {}, 0),
        ("a.tif", {}, 0),
        ("a.tiff", {"compression": "tiff_lzw"}, 0),
        ("a.webp", {"lossless": True}, 0),
        ("a.jpg", {"quality": 95, "subsampling": 0}, 12),
        ("a.jpeg", {"quality": 95, "subsampling": 0}, 12),
        ("a.gif", {}, 40),
    ],
)
def test_every_format_gives_the_same_picture(tmp_path, name, options, tolerance):
    assert np.abs(only(save(tmp_path / name, picture(), **options)) - np.asarray(picture())).max() <= tolerance


def test_grey_palette_and_cmyk(tmp_path):
    grey = PIL.Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    assert (only(save(tmp_path / "a.png", grey)) == np.asarray(grey)[..., None]).all()
    palette = picture().quantize(16)
    assert (only(save(tmp_path / "b.png", palette)) == np.asarray(palette.convert("RGB"))).all()
    bilevel = grey.convert("1")
    assert set(np.unique(only(save(tmp_path / "c.png", bilevel)))) == {0, 255}
    red = only(save(tmp_path / "d.jpg", PIL.Image.new("CMYK", (8, 8), (0, 255, 255, 0)), quality=95))
    assert np.abs(red - [255, 0, 0]).max() < 8


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path, suffix):
    values = np.array([[0, 128, 257, 32_896, 65_535, 1000]], np.uint16)
    result = only(save(tmp_path / f"a.{suffix}", PIL.Image.fromarray(values)))
    assert result[0, :, 0].tolist() == [0, 0, 1, 128, 255, 4]


def test_transparent_parts_are_white(tmp_path):
    image = PIL.Image.new("RGBA", (3, 1))
    for x, pixel in enumerate([(10, 20, 30, 255), (10, 20, 30, 0), (0, 0, 0, 51)]):
        image.putpixel((x, 0), pixel)
    assert only(save(tmp_path / "a.png", image))[0].tolist() == [[10, 20, 30], [255, 255, 255], [204, 204, 204]]
    palette = PIL.Image.new("P", (2, 1))
    palette.putpalette([0, 0, 0, 200, 100, 50])
    palette.putpixel((1, 0), 1)
    assert only(save(tmp_path / "b.png", palette, transparency=0))[0].tolist() == [[255, 255, 255], [200, 100, 50]]


def test_a_photograph_is_turned_upright(tmp_path):
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    result = only(save(tmp_path / "a.png", picture(), exif=exif))
    assert (result == np.rot90(np.asarray(picture()), -1)).all()


def test_the_first_frame_of_an_animation(tmp_path):
    frames = [PIL.Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    assert only(save(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:]))[0, 0].tolist() == [255, 0, 0]


def test_folders_of_classes(tmp_path):
    for name in ("val/n02/b.JPEG", "val/n01/z.png", "val/n01/a.webp", "val/n02/b.png"):
        save(tmp_path / name, picture())
    (tmp_path / "val" / "labels.txt").write_text("n01 n02")
    source = open_source(str(tmp_path), modality="images")
    assert source.modality == "images"
    assert [item.id for item in source.items()] == ["n01/a.webp", "n01/z.png", "n02/b.JPEG", "n02/b.png"]
    shutil.copytree(tmp_path / "val", tmp_path / "elsewhere/copy")
    copy = open_source(str(tmp_path / "elsewhere"), modality="images")
    assert copy.fingerprint == source.fingerprint
    assert [item.id for item in copy.items()] == [item.id for item in source.items()]
    assert [item.id for item in open_source(str(tmp_path / "val" / "n0*" / "*.png")).items()] == ["n01/z.png", "n02/b.png"]
    (tmp_path / "elsewhere/copy/n01/a.webp").write_bytes((tmp_path / "val/n01/z.png").read_bytes())
    assert open_source(str(tmp_path / "elsewhere"), modality="images").fingerprint != source.fingerprint


def test_one_image_is_held_at_a_time(tmp_path):
    """The most memory of a process that reads 60 images of 3 MB, above that of one that reads two."""
    save(tmp_path / "few/00.png", picture(1000, 1000))
    shutil.copy(tmp_path / "few/00.png", tmp_path / "few/01.png")
    (tmp_path / "many").mkdir()
    for i in range(60):
        shutil.copy(tmp_path / "few/00.png", tmp_path / f"many/{i:02}.png")
    code = (
        "import resource, sys; from isoscope.sources import open_source\n"
        "print(sum(item.content.width for item in open_source(sys.argv[1], modality='images').items()))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    few, many = (
        [
            int(line)
            for line in subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout.split()
        ]
        for path in (str(tmp_path / "few"), str(tmp_path / "many"))
    )
    assert (few[0], many[0]) == (2000, 60_000)
    assert many[1] - few[1] < 20_000  # KB; all of them would be 180,000


def cut(path, **options):
    image = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    image.save(buffer, **options)
    path.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])


@pytest.mark.parametrize(
    ("name", "kind"), [("a.png", "PNG"), ("a.jpg", "JPEG"), ("a.webp", "WEBP"), ("a.bmp", "BMP"), ("a.gif", "GIF"), ("a.tif", "TIFF")]
)
def test_a_file_that_was_cut_short(tmp_path, name, kind):
    cut(tmp_path / name, format=kind)
    with pytest.raises(
        IsoscopeError, match=rf"{name} is (damaged or cut short \(.+\)|not an image that can be read, or is damaged); write it again"
    ):
        open_source(str(tmp_path / name))


def test_damaged_or_unsuitable_images_are_refused_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(IsoscopeError, match=r"a\.png is not an image that can be read, or is damaged"):
        open_source(str(tmp_path / "a.png"))
    with pytest.raises(
        IsoscopeError, match=r"f\.tif holds floating-point values, whose scale is not known; write it again with 8 or 16 bits"
    ):
        open_source(save(tmp_path / "f.tif", PIL.Image.fromarray(np.ones((4, 4), np.float32))))
    with pytest.raises(IsoscopeError, match=r"i\.tif holds 32-bit values"):
        open_source(save(tmp_path / "i.tif", PIL.Image.fromarray(np.full((4, 4), 70_000, np.int32))))
    save(tmp_path / "good" / "a.png", picture())
    cut(tmp_path / "good" / "b.jpg", format="JPEG")
    with pytest.raises(IsoscopeError, match=r"b\.jpg is damaged or cut short"):
        list(open_source(str(tmp_path / "good"), modality="images").items())
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 900)
    with pytest.raises(IsoscopeError, match=r"a\.png has more than 900 pixels, which is refused as a decompression bomb; make it smaller"):
        open_source(str(tmp_path / "good" / "a.png"))  # 960 pixels: not twice the limit, of which Pillow would only warn
    with pytest.raises(IsoscopeError, match=r"has more than 900 pixels"):
        open_source(save(tmp_path / "bomb.png", picture(80, 80)))


def test_the_package_is_missing(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png", picture())
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(IsoscopeError, match=r"a\.png needs the package pillow: pip install 'isoscope\[vision\]'\.$"):
        open_source(path)


def test_the_embedded_photographs():
    source = open_source("embedded", modality="images")
    photographs = {item.id: np.asarray(item.content).astype(float) for item in source.items()}
    assert (source.name, source.modality, len(photographs)) == ("embedded", "images", 15)
    assert all(224 <= min(pixels.shape[:2]) <= 256 and pixels.shape[2] == 3 for pixels in photographs.values())
    # Each shows something, and no two are the same or parts of one.
    small = [pixels[:224, :224].mean(2) for pixels in photographs.values()]
    assert all(pixels.std() > 2 for pixels in small)
    correlations = np.corrcoef([pixels[::4, ::4].ravel() for pixels in small])
    assert np.abs(correlations[np.triu_indices(15, 1)]).max() < 0.9
    assert sum(path.stat().st_size for path in source.files) < 400_000
