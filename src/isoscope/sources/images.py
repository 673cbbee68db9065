"""Images: the embedded photographs, and image files, also in one folder per class as in ImageNet."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from isoscope.core.errors import IsoscopeError, first_line, import_optional
from isoscope.sources._item_files import file_items_kind

if TYPE_CHECKING:
    from PIL.Image import Image

GARBLED = (TypeError, LookupError, ArithmeticError, AttributeError, struct.error, RuntimeError, AssertionError, MemoryError)
"""Exceptions that Pillow's parsers, which are written in Python, also raise for a garbled file."""
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""The formats that are read, whatever a file is called. One of Pillow's other formats starts an external program."""


def read_image(file: BinaryIO, shown: str) -> Image:
    """The first frame of an image, upright and in RGB; errors call it `shown`."""
    pil = import_optional("PIL.Image", shown)
    upright = import_optional("PIL.ImageOps", shown).exif_transpose
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata
            # Between its limit and twice that, Pillow only warns and decodes; a warning that is an error stops it before it decodes.
            warnings.simplefilter("error", pil.DecompressionBombWarning)
            with pil.open(file, formats=FORMATS) as image:
                return to_rgb(upright(image), shown)
    except (pil.DecompressionBombError, pil.DecompressionBombWarning) as error:
        most = f"{pil.MAX_IMAGE_PIXELS:,}"
        raise IsoscopeError(f"{shown} has more than {most} pixels, which is refused as a decompression bomb; make it smaller.") from error
    except pil.UnidentifiedImageError as error:
        raise IsoscopeError(f"{shown} is not an image that can be read, or is damaged; write it again or leave it out.") from error
    except (OSError, SyntaxError, ValueError, EOFError, *GARBLED) as error:
        raise IsoscopeError(f"{shown} is damaged or cut short ({first_line(error)}); write it again or leave it out.") from error


def to_rgb(image: Image, shown: str) -> Image:
    """An image in RGB: 16 bits are scaled to 8, and transparent parts are shown on white."""
    import PIL.Image

    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise IsoscopeError(f"{shown} holds 32-bit values, whose scale is not known; write it again with 8 or 16 bits.")
        # 65535 = 257 · 255, so this rounds to the nearest of 256 levels.
        image = PIL.Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))
    elif image.mode == "F":
        raise IsoscopeError(f"{shown} holds floating-point values, whose scale is not known; write it again with 8 or 16 bits.")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


ACCEPTS = "`embedded`, a .png, .jpg, .webp, .bmp, .gif or .tif file, a folder (with one below for each class, or not) or pattern of them"
images = file_items_kind("images", ACCEPTS, Path(__file__).parent / "data" / "images", read_image)
