"""Images: the embedded photographs, and files of images, also in a folder a class as ImageNet has them."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.extras import import_optional
from isoscope.core.source import FileItems, SourceKind, open_files

if TYPE_CHECKING:
    from PIL.Image import Image

ODD = (TypeError, LookupError, ArithmeticError, AttributeError, struct.error, RuntimeError, AssertionError, MemoryError)
"""What Pillow's parsers in Python also raise where a file is garbled."""
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""What is read, whatever a file is called: among Pillow's other formats is one that starts another program."""
EMBEDDED = Path(__file__).parent / "data" / "images"


def read_image(file: BinaryIO, shown: str) -> Image:
    """The first frame of an image, upright and in RGB; errors call it `shown`."""
    pil = import_optional("PIL.Image", shown)
    upright = import_optional("PIL.ImageOps", shown).exif_transpose
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata
            warnings.simplefilter("error", pil.DecompressionBombWarning)
            with pil.open(file, formats=FORMATS) as image:
                return rgb(upright(image), shown)
    except (pil.DecompressionBombError, pil.DecompressionBombWarning) as error:
        most = f"{pil.MAX_IMAGE_PIXELS:,}"
        raise IsoscopeError(f"{shown} has more than {most} pixels, which is refused as a decompression bomb; make it smaller.") from error
    except pil.UnidentifiedImageError as error:
        raise IsoscopeError(f"{shown} is not an image that can be read, or is damaged; write it anew or leave it out.") from error
    except (OSError, SyntaxError, ValueError, EOFError, *ODD) as error:  # what Pillow's formats raise for cut and garbled files
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise IsoscopeError(f"{shown} is damaged or cut short ({reason}); write it anew or leave it out.") from error


def rgb(image: Image, shown: str) -> Image:
    """An image in RGB: 16 bits scaled to 8, what is transparent shown on white."""
    import PIL.Image

    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise IsoscopeError(f"{shown} holds 32-bit values, whose scale is not known; write it anew with 8 or 16 bits.")
        image = PIL.Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))
    elif image.mode == "F":
        raise IsoscopeError(f"{shown} holds floating-point values, whose scale is not known; write it anew with 8 or 16 bits.")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def open_images(spec: str, column: str | None, modality: str) -> FileItems | None:
    """The images that `spec` means, or None; the first is read at once, so that a mistake is told before a model is loaded."""
    return open_files(spec, "images", modality, EMBEDDED, read_image)


ACCEPTS = "`embedded`, a .png, .jpg, .webp, .bmp, .gif or .tif file, a folder (with one below for each class, or not) or pattern of them"
images = SourceKind("images", "images", ACCEPTS, open_images)
