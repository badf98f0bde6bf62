"""What Pillow makes of files: the independent reference of the tests of decoding.

It reads cases, a JSON list of {"file", "fill", "turn"}: fill sets LOAD_TRUNCATED_IMAGES, turn applies the EXIF
orientation. It writes one string a case: width, height and SHA-256 of the RGB pixels, or "error".
"""

import hashlib
import json
import sys
import warnings

import PIL
from PIL import Image, ImageFile, ImageOps

warnings.simplefilter("ignore")


def digest(case: dict[str, object]) -> str:
    ImageFile.LOAD_TRUNCATED_IMAGES = bool(case.get("fill"))
    try:
        im = Image.open(str(case["file"]))
        if case.get("turn"):
            im = ImageOps.exif_transpose(im)
        im = im.convert("RGB")
    except Exception:
        return "error"
    return f"{im.width} {im.height} {hashlib.sha256(im.tobytes()).hexdigest()}"


def main() -> None:
    print(json.dumps({"pillow": PIL.__version__, "answers": [digest(case) for case in json.load(sys.stdin)]}))


main()
