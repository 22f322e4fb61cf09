"""Writes images/ and images.safetensors with Pillow and torchvision (versions in requirements.txt).

images/ has a small file of each kind. The tensors are what Pillow and torchvision make of them:

    decoded/FILE           [height, width, 3]: Image.open(FILE).convert("RGB")
    evaluated/SIZE/FILE    [3, 16, 16]: Resize(SIZE), CenterCrop(16); 19 and 21 leave out odd numbers of pixels
    part/L,T,W,H/FILE      [3, 16, 16]: resized_crop of that box to 16 x 16
    jitter/OP,FACTOR       [3, 16, 16]: adjust_OP (of the hue: by a turn) of part/7,9,16,16/photo.png as a uint8 tensor
    operation/OP,MAGNITUDE [3, 13, 16]: that operation of AutoAugment and its like on its first 13 rows
    equalized              [3, 26, 37]: photo.png, equalized
    policy/NAME            [25, 2, 3]: an AutoAugment's operations (a place in `operations`), probabilities and magnitudes
    possible/TRANSFORM     [N]: hashes of all that an automatic augmentation may make of the photo's [3, 16, 20] at (3, 2)

Run it again only to change them.
"""

import pathlib
import struct
import zlib

import numpy
import torch
from PIL import Image
from safetensors.numpy import save_file
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import (
    AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide, _apply_op)

here = pathlib.Path(__file__).parent
folder = here / "images"
folder.mkdir(exist_ok=True)
width, height = 37, 26


def photo():
    """Smooth colours with edges and some noise."""
    y, x = numpy.mgrid[0:height, 0:width].astype(float)
    noise = numpy.random.default_rng(1).integers(-12, 13, (height, width, 3))
    red = 127 + 120 * numpy.sin(x / 5 + y / 9)
    green = 255 * x / width
    blue = numpy.where((x - 18) ** 2 + (y - 12) ** 2 < 60, 240, 40 + 4 * y)
    return numpy.clip(numpy.stack([red, green, blue], axis=2) + noise, 0, 255).astype("uint8")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(header, rows, *more):
    """A PNG file of a kind that Pillow does not write; `rows` with their filter bytes."""
    return b"".join(
        [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), *more,
         chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")])


def raw_rows(pixels):
    return b"".join(b"\0" + row.tobytes() for row in pixels)


def adam7(pixels):
    starts = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    return b"".join(raw_rows(numpy.ascontiguousarray(pixels[top::down, left::right]))
                    for left, top, right, down in starts)


pixels = photo()
image = Image.fromarray(pixels)
image.save(folder / "photo.jpg", quality=90)
image.save(folder / "full_colour.jpg", quality=95, subsampling=0)
image.save(folder / "progressive.jpeg", quality=80, progressive=True)
image.convert("L").save(folder / "grey.jpg", quality=85)
image.convert("CMYK").save(folder / "cmyk.jpg", quality=85)
rotated = Image.Exif()
rotated[0x0112] = 6
image.save(folder / "rotated.jpg", quality=85, exif=rotated)

image.save(folder / "photo.png")
alpha = Image.fromarray((255 * numpy.mgrid[0:height, 0:width][1] // width).astype("uint8"))
with_alpha = image.copy()
with_alpha.putalpha(alpha)
with_alpha.save(folder / "alpha.png")
grey_alpha = image.convert("L")
grey_alpha.putalpha(alpha)
grey_alpha.save(folder / "grey_alpha.png")
image.convert("L").save(folder / "grey.png")
image.quantize(20).save(folder / "palette.png", transparency=3)
image.convert("1").save(folder / "bits.png")
values = pixels.astype(">u2") * 200 + 77
(folder / "sixteen.png").write_bytes(png(struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0), raw_rows(values)))
small_values = pixels[..., 0].astype(">u2") * 3
(folder / "grey_sixteen.png").write_bytes(
    png(struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0), raw_rows(small_values)))
(folder / "interlaced.png").write_bytes(
    png(struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1), adam7(pixels), chunk(b"gAMA", struct.pack(">I", 100000))))

tensors = {}
for path in sorted(folder.iterdir()):
    with Image.open(path) as file:
        opened = file.convert("RGB")
    tensors[f"decoded/{path.name}"] = numpy.asarray(opened)
channels_first = lambda one: numpy.ascontiguousarray(numpy.asarray(one).transpose(2, 0, 1))  # noqa: E731
for name in ["photo.jpg", "photo.png"]:
    with Image.open(folder / name) as file:
        opened = file.convert("RGB")
    for size in [19, 20, 21]:
        evaluate = v2.Compose([v2.Resize(size), v2.CenterCrop(16)])
        tensors[f"evaluated/{size}/{name}"] = channels_first(evaluate(opened))
    for box in [(3, 2, 30, 22), (10, 5, 9, 12), (0, 0, 37, 26), (7, 9, 16, 16), (36, 25, 1, 1)]:
        left, top, wide, high = box
        part = F.resized_crop(opened, top, left, high, wide, [16, 16])
        tensors["part/" + ",".join(map(str, box)) + "/" + name] = channels_first(part)
as_tensor = torch.from_numpy(tensors["part/7,9,16,16/photo.png"])
for operation in ["brightness", "contrast", "saturation"]:
    for factor in [0.0, 0.6, 1.0, 1.4]:
        changed = getattr(F, f"adjust_{operation}")(as_tensor, factor)
        tensors[f"jitter/{operation},{factor}"] = changed.numpy()
for turn in [-0.5, -0.1, 0.0, 0.3]:
    tensors[f"jitter/hue,{turn}"] = F.adjust_hue(as_tensor, turn).contiguous().numpy()
few_rows = as_tensor[:, :13].contiguous()
moved = [("ShearX", 0.3), ("ShearX", -0.71), ("ShearY", 0.23), ("ShearY", -0.99), ("TranslateX", 5.9), ("TranslateX", -3.2),
         ("TranslateY", 2.0), ("TranslateY", -40.0), ("Rotate", 30.0), ("Rotate", -112.5)]
factors = [(name, factor) for name in ["Brightness", "Color", "Contrast", "Sharpness"] for factor in [-0.93, 0.63]]
others = [("Posterize", 2), ("Posterize", 8), ("Solarize", 85.0), ("Solarize", 255.0), ("AutoContrast", 0.0),
          ("Invert", 0.0), ("Identity", 0.0)]
for name, magnitude in moved + factors + others:
    changed = _apply_op(few_rows, name, magnitude, InterpolationMode.NEAREST, None)
    tensors[f"operation/{name},{magnitude}"] = changed.contiguous().numpy()
whole = torch.from_numpy(channels_first(tensors["decoded/photo.png"]))
tensors["equalized"] = F.equalize(whole).contiguous().numpy()


def hashed(image):
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in image.contiguous().numpy().tobytes():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def applied(image, space, name, numbers):
    """What an operation makes of the image with these magnitudes, and their opposites if it has a sign."""
    magnitudes, signed = space[name]
    for number in numbers if magnitudes.ndim > 0 else [None]:
        magnitude = 0.0 if number is None else float(magnitudes[number])
        for sign in [1, -1] if signed else [1]:
            yield _apply_op(image, name, sign * magnitude, InterpolationMode.NEAREST, None)


operations = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
              "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert"]
small = whole[:, 2:18, 3:23].contiguous()
trivial, rand = TrivialAugmentWide(), RandAugment()
wide, moderate = trivial._augmentation_space(31), rand._augmentation_space(31, (16, 20))
possible = {
    "trivial_augment": [one for name in wide for one in applied(small, wide, name, range(31))],
    "rand_augment": [two for name in moderate for one in applied(small, moderate, name, [9])
                     for other in moderate for two in applied(one, moderate, other, [9])],
}
for policy in [AutoAugmentPolicy.IMAGENET, AutoAugmentPolicy.CIFAR10]:
    auto = AutoAugment(policy)
    space, found = auto._augmentation_space(10, (16, 20)), []
    for pair in auto.policies:
        images = [small]
        for name, probability, number in pair:
            after = [one for image in images for one in applied(image, space, name, [number])]
            kept = images if probability < 1 else []
            images = kept + (after if probability > 0 else [])
        found += images
    possible[f"auto_augment_{policy.value}"] = found
    tensors[f"policy/{policy.value}"] = numpy.array(
        [[[operations.index(name), probability, number or 0] for name, probability, number in pair]
         for pair in auto.policies])
for name, images in possible.items():
    hashes = sorted({hashed(image) for image in images})
    tensors[f"possible/{name}"] = numpy.array(hashes, dtype="uint64").view("int64")
save_file(tensors, here / "images.safetensors")
