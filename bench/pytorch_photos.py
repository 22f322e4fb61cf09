"""A folder of photographs through torchvision: the other side of loader_bench's row `photos`.

  pytorch_photos.py make FOLDER            200 JPEGs of 500 × 375 in FOLDER/train and FOLDER/val
  pytorch_photos.py pillow|tensor FOLDER   answers "time COUNT" with the seconds for COUNT images

`pillow` decodes and resizes with Pillow, ImageFolder's default; `tensor` with torchvision.io.
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision import io
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make(folder):
    """Smooth colours with some noise: JPEGs of about 40 kB, as photographs of this size have."""
    source = np.random.default_rng(1)
    for index in range(200):
        coarse = Image.fromarray(source.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        pixels = np.asarray(coarse.resize((500, 375), Image.BICUBIC), dtype=np.int16)
        noisy = pixels + source.integers(-12, 13, pixels.shape, dtype=np.int16)
        image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
        for split in ("train", "val"):
            path = Path(folder) / split / f"class{index % 10}"
            path.mkdir(parents=True, exist_ok=True)
            image.save(path / f"{index}.jpg", quality=85)


def dataset(way, folder):
    crop = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()]
    normalise = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    if way == "pillow":
        return ImageFolder(Path(folder) / "train", v2.Compose([*crop, v2.ToImage(), *normalise]))
    return ImageFolder(Path(folder) / "train", v2.Compose([*crop, *normalise]),
                       loader=lambda path: io.decode_image(path, mode="RGB"))


def main():
    way, folder = sys.argv[1:]
    if way == "make":
        make(folder)
        return
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(dataset(way, folder), batch_size=25, shuffle=True,
                                         num_workers=0)
    for line in sys.stdin:
        count = int(line.split()[1])
        begin, used, made = time.perf_counter(), time.process_time(), 0
        while made < count:
            for images, _ in loader:
                made += len(images)
                if made >= count:
                    break
        print(f"{time.perf_counter() - begin:.9f} {time.process_time() - used:.9f}", flush=True)


if __name__ == "__main__":
    main()
