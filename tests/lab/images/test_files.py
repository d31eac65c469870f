"""Photographs in files: what is read of them, what is written back, what is refused."""

from __future__ import annotations

import io
import struct
import zlib
from importlib.util import find_spec

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image, ImageCms, features

import slicewise as sw
from slicewise.lab.errors import UserError
from slicewise.lab.images.before_after import before_after, palette
from slicewise.lab.images.files import (
    Picture,
    check_kind,
    convert_profile,
    encode_picture,
    read_mask,
    read_picture,
)
from slicewise.lab.images.frames import Frames, as_rgb, palette_sw2, palette_w2


def noise(*shape, dtype=np.uint8):
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, shape, dtype=dtype)


def saved(path, pixels, mode=None, **options):
    image = Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(path, **options)
    return path


def png(width, height, *, bits=8, kind=2, rows=b""):
    """A PNG file written out by hand, its pixels as given."""

    def chunk(name, content):
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp", ".ppm"])
def test_pixels_come_as_they_are(tmp_path, suffix):
    pixels = noise(5, 7, 3)
    assert np.array_equal(read_picture(saved(tmp_path / f"a{suffix}", pixels)).pixels, pixels)


@pytest.mark.parametrize(
    ("mode", "channels"),
    [("L", 1), ("LA", 2), ("RGBA", 4), ("P", 3), ("1", 1)],
)
def test_modes(tmp_path, mode, channels):
    image = Image.fromarray(noise(5, 7, 3)).convert(mode)
    image.save(tmp_path / "a.png")
    found = read_picture(tmp_path / "a.png").pixels
    wanted = image.convert({1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels])
    assert np.array_equal(found.squeeze(), np.asarray(wanted))


def test_transparent_palettes(tmp_path):
    image = Image.fromarray(noise(5, 7, 3)).quantize(8)
    image.save(tmp_path / "a.png", transparency=3)
    found = read_picture(tmp_path / "a.png").pixels
    assert found.shape == (5, 7, 4)
    assert np.array_equal(found[:, :, 3] == 0, np.asarray(image) == 3)


def test_turned_as_exif_says(tmp_path):
    pixels = noise(5, 7, 3)
    exif = Image.Exif()
    exif[274], exif[271] = 6, "a camera"  # to be turned by 90°, clockwise
    picture = read_picture(saved(tmp_path / "a.png", pixels, exif=exif))
    assert np.array_equal(picture.pixels, np.rot90(pixels, -1))
    again = Image.open(io.BytesIO(encode_picture(picture, ".png"))).getexif()
    assert again.get(274, 1) == 1  # not turned twice
    assert again[271] == "a camera"


def test_sixteen_bits_stay_in_tiff(tmp_path):
    for shape in ((5, 7, 3), (5, 7), (5, 7, 4)):
        pixels = noise(*shape, dtype=np.uint16)
        kind = "minisblack" if len(shape) == 2 else "rgb"
        extra = ["unassalpha"] if shape[-1] == 4 else None
        tifffile.imwrite(tmp_path / "a.tif", pixels, photometric=kind, extrasamples=extra)
        picture = read_picture(tmp_path / "a.tif")
        assert np.array_equal(picture.pixels.squeeze(), pixels)
        if len(shape) == 3:
            (tmp_path / "b.tif").write_bytes(encode_picture(picture, ".tif"))
            assert np.array_equal(read_picture(tmp_path / "b.tif").pixels, pixels)


def test_sixteen_bits_of_gray(tmp_path):
    pixels = noise(5, 7, dtype=np.uint16)
    picture = read_picture(saved(tmp_path / "a.png", pixels))
    assert picture.deep
    assert np.array_equal(picture.pixels[:, :, 0], pixels)


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_sixteen_bits_stay_in_png(tmp_path, channels):
    pixels = noise(5, 7, channels, dtype=np.uint16)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = Picture("a", pixels, profile if channels > 2 else None, None, (300.0, 300.0))
    check_kind(tmp_path / "a.png", picture)
    (tmp_path / "a.png").write_bytes(encode_picture(picture, ".png"))
    again = read_picture(tmp_path / "a.png")
    assert np.array_equal(again.pixels, pixels)
    assert again.profile == picture.profile
    assert again.dpi == pytest.approx((300, 300), rel=1e-3)
    # Pillow reads it too, if only 8 bits of it.
    with Image.open(tmp_path / "a.png") as image:
        eight = np.asarray(image.convert({2: "LA", 3: "RGB", 4: "RGBA"}[channels]))
        assert np.abs(eight.astype(int) - pixels // 256).max() <= 1
    assert read_picture(tmp_path / "a.png", reduce=True).pixels.dtype == np.uint8
    with pytest.raises(UserError, match=r"name in \.tif or \.png"):
        check_kind(tmp_path / "a.jpg", picture)


def test_every_filter_of_png_is_undone(tmp_path):
    """Rows filtered as the specification says, one way each."""
    pixels = noise(10, 7, 3, dtype=np.uint16)
    raw = pixels.astype(">u2").view(np.uint8).reshape(10, -1).astype(int)
    rows = b""
    for y, kind in enumerate((0, 1, 2, 3, 4) * 2):
        left = np.concatenate([np.zeros(6, int), raw[y, :-6]])
        above = raw[y - 1] if y else np.zeros_like(raw[0])
        corner = np.concatenate([np.zeros(6, int), above[:-6]])
        near = [abs(left + above - corner - one) for one in (left, above, corner)]
        paeth = np.choose(np.argmin(near, axis=0), [left, above, corner])
        guess = (0 * left, left, above, (left + above) // 2, paeth)[kind]
        rows += bytes([kind]) + ((raw[y] - guess) % 256).astype(np.uint8).tobytes()
    (tmp_path / "a.png").write_bytes(png(7, 10, bits=16, rows=rows))
    assert np.array_equal(read_picture(tmp_path / "a.png").pixels, pixels)


@pytest.mark.skipif(not features.check("avif"), reason="Pillow was built without AVIF")
def test_avif_is_read_and_written(tmp_path):
    smooth = np.linspace(0, 255, 32)[None, :, None].repeat(32, 0).repeat(3, 2).astype(np.uint8)
    picture = read_picture(saved(tmp_path / "a.avif", smooth, quality=100))
    assert np.abs(picture.pixels.astype(int) - smooth).max() <= 3
    (tmp_path / "b.avif").write_bytes(encode_picture(picture, ".avif"))
    assert np.abs(read_picture(tmp_path / "b.avif").pixels.astype(int) - smooth).mean() <= 2


def test_heic_is_read_upright_with_what_it_tells(tmp_path):
    heif = pytest.importorskip("pillow_heif", reason="pillow-heif reads HEIC")
    heif.register_heif_opener()
    smooth = np.zeros((24, 40, 3), np.uint8)  # lighter to the right, bluer downwards
    smooth[..., 0] = np.linspace(0, 255, 40)
    smooth[..., 2] = np.linspace(0, 255, 24)[:, None]
    about = Image.Exif()
    about[0x010F] = "a camera"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    made = Image.fromarray(smooth)
    made.save(
        tmp_path / "a.heic", quality=-1, chroma=444, exif=about.tobytes(), icc_profile=profile
    )
    picture = read_picture(tmp_path / "a.heic")
    assert picture.pixels.shape == smooth.shape
    assert np.abs(picture.pixels.astype(int) - smooth).max() <= 3  # rounded in YCbCr, and back
    assert picture.profile == profile
    (tmp_path / "b.jpg").write_bytes(encode_picture(picture, ".jpg"))
    with Image.open(tmp_path / "b.jpg") as written:
        assert written.getexif()[0x010F] == "a camera"
    about[0x0112] = 6  # to be turned by a quarter, clockwise
    made.save(tmp_path / "c.heic", quality=-1, chroma=444, exif=about.tobytes())
    turned = read_picture(tmp_path / "c.heic").pixels
    assert turned.shape == (40, 24, 3)
    assert np.abs(turned.astype(int) - np.rot90(smooth, -1)).max() <= 3


def test_heic_keeps_its_alpha(tmp_path):
    heif = pytest.importorskip("pillow_heif", reason="pillow-heif reads HEIC")
    heif.register_heif_opener()
    pixels = np.full((16, 16, 4), 128, np.uint8)
    pixels[:8, :, 3] = 0
    Image.fromarray(pixels).save(tmp_path / "a.heic", quality=-1)
    picture = read_picture(tmp_path / "a.heic")
    assert picture.has_alpha
    assert np.abs(picture.pixels[..., 3].astype(int) - pixels[..., 3]).max() <= 2


def test_heic_without_its_package_says_which(tmp_path):
    if find_spec("pillow_heif") is not None:
        pytest.skip("it is installed")
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    with pytest.raises(UserError, match="pip install pillow-heif"):
        read_picture(tmp_path / "a.heic")


@pytest.mark.parametrize("kind", ["P6", "P3"])
def test_sixteen_bits_of_ppm_are_not_lost_either(tmp_path, kind):
    pixels = noise(5, 7, 3, dtype=np.uint16)
    body = " ".join(map(str, pixels.ravel())).encode() if kind == "P3" else pixels.tobytes()
    (tmp_path / "a.ppm").write_bytes(f"{kind} 7 5 65535\n".encode() + body)
    with pytest.raises(UserError, match="save it as TIFF"):
        read_picture(tmp_path / "a.ppm")
    assert read_picture(tmp_path / "a.ppm", reduce=True).pixels.dtype == np.uint8


def test_deep_tiffs_that_would_be_misread_are_refused(tmp_path):
    pixels = noise(9, 4, 4, dtype=np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extrasamples=["assocalpha"])
    with pytest.raises(UserError, match="multiplied by their alpha"):
        read_picture(tmp_path / "a.tif")
    pixels = noise(3, 9, 3, dtype=np.uint16)
    tifffile.imwrite(tmp_path / "b.tif", pixels, photometric="rgb", planarconfig="separate")
    with pytest.raises(UserError, match="channels last"):
        read_picture(tmp_path / "b.tif")


@pytest.mark.skipif(find_spec("imagecodecs") is not None, reason="then it can be read")
def test_a_deep_tiff_in_a_compression_that_is_not_here(tmp_path):
    saved(tmp_path / "a.tif", noise(5, 7, dtype=np.uint16), compression="tiff_lzw")
    with pytest.raises(UserError, match="pip install imagecodecs, or save it with ZIP"):
        read_picture(tmp_path / "a.tif")


def test_exif_goes_into_tiff_and_comes_out_of_it(tmp_path):
    exif = Image.Exif()
    exif[256], exif[271], exif[274] = 9999, "a camera", 6  # a wrong width, and a turn
    exif.get_ifd(0x8769)[36867] = "2020:01:02 03:04:05"
    picture = read_picture(saved(tmp_path / "a.jpg", noise(5, 7, 3), exif=exif))
    (tmp_path / "b.tif").write_bytes(encode_picture(picture, ".tif"))
    again = read_picture(tmp_path / "b.tif")
    assert np.array_equal(again.pixels, picture.pixels)
    (tmp_path / "c.jpg").write_bytes(encode_picture(again, ".jpg"))
    for name in ("b.tif", "c.jpg"):
        with Image.open(tmp_path / name) as image:
            found = image.getexif()
            assert image.size == (5, 7)
            assert found[271] == "a camera"
            assert found.get(274, 1) == 1
            assert found.get_ifd(0x8769)[36867] == "2020:01:02 03:04:05"


def test_what_a_format_has_no_room_for(tmp_path):
    for suffix, side in ((".jpg", 65_500), (".webp", 16_383)):
        check_kind(tmp_path / f"a{suffix}", Picture("a", noise(side, 1, 3)))
        with pytest.raises(UserError, match=f"can be {side}"):
            check_kind(tmp_path / f"a{suffix}", Picture("a", noise(1, side + 1, 3)))
    check_kind(tmp_path / "a.bmp", Picture("a", noise(5, 7, 3)))
    with pytest.raises(UserError, match="no room for it"):
        check_kind(tmp_path / "a.bmp", Picture("a", noise(5, 7, 3), b"a profile"))


def test_the_target_is_brought_into_the_profile_of_the_source():
    lab_like = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    pixels = noise(5, 7, 3)
    source, target = Picture("s", pixels), Picture("t", pixels, lab_like)
    turned = convert_profile(target, source)
    # sRGB told and sRGB assumed are one; what rounding does is a level.
    assert np.abs(turned.pixels.astype(int) - pixels).max() <= 1
    assert convert_profile(target, target).pixels is pixels
    with pytest.raises(UserError, match="color profile of t or s"):
        convert_profile(Picture("t", pixels, b"\0" * 16 + b"RGB " + b"\0" * 200), source)


def test_the_target_is_converted_and_the_right_way_round():
    """A profile whose first channel is green, the second blue, the third red: what it means is plain to see."""
    usual = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    turned = usual.replace(b"rXYZ", b"held").replace(b"gXYZ", b"rXYZ").replace(b"bXYZ", b"gXYZ")
    turned = turned.replace(b"held", b"bXYZ")
    pixels = noise(5, 7, 3)
    to_usual = convert_profile(Picture("t", pixels, turned), Picture("s", pixels)).pixels
    assert np.abs(to_usual.astype(int) - np.roll(pixels, 1, axis=2)).max() <= 2
    to_turned = convert_profile(Picture("t", pixels), Picture("s", pixels, turned))
    assert np.abs(to_turned.pixels.astype(int) - np.roll(pixels, -1, axis=2)).max() <= 2
    assert to_turned.profile == turned


def test_a_profile_is_written_back(tmp_path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = read_picture(saved(tmp_path / "a.png", noise(5, 7, 3), icc_profile=profile))
    assert picture.profile == profile
    for suffix in (".png", ".jpg", ".webp", ".tif"):
        again = Image.open(io.BytesIO(encode_picture(picture, suffix)))
        assert again.info["icc_profile"] == profile


def test_transparency_is_not_lost(tmp_path):
    clear = Picture("a", noise(5, 7, 4))
    for suffix in (".png", ".tif"):
        again = np.asarray(Image.open(io.BytesIO(encode_picture(clear, suffix))))
        assert np.array_equal(again, clear.pixels)
    for suffix in (".jpg", ".bmp"):
        with pytest.raises(UserError, match="transparent"):
            check_kind(tmp_path / f"a{suffix}", clear)


def test_second_pictures_of_phones_are_no_animation(tmp_path):
    first, second = (Image.fromarray(noise(16, 16, 3)[::step].copy()) for step in (1, -1))
    first.save(tmp_path / "a.jpg", "MPO", save_all=True, append_images=[second])
    with Image.open(tmp_path / "a.jpg") as image:
        assert image.format == "MPO"
    assert read_picture(tmp_path / "a.jpg").pixels.shape == (16, 16, 3)


def broken_files():
    whole = io.BytesIO()
    Image.fromarray(noise(64, 64, 3)).save(whole, "PNG")
    jpeg = io.BytesIO()
    Image.fromarray(noise(64, 64, 3)).save(jpeg, "JPEG")
    frames = [Image.fromarray(noise(8, 8, 3)), Image.fromarray(noise(8, 8, 3)[::-1].copy())]
    moving = io.BytesIO()
    frames[0].save(moving, "GIF", save_all=True, append_images=frames[1:])
    press = io.BytesIO()
    Image.fromarray(noise(8, 8, 3)).convert("CMYK").save(press, "JPEG")
    floats = io.BytesIO()
    tifffile.imwrite(floats, np.ones((8, 8), np.float32))
    integers = io.BytesIO()
    Image.fromarray(np.ones((8, 8), np.int32)).save(integers, "TIFF")
    random = np.random.default_rng(1)
    return {
        "empty.png": (b"", "cannot be read as an image"),
        "text.png": (b"this is no picture", "cannot be read as an image"),
        "script.eps": (
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
            "cannot be read as an image",
        ),
        "noise.jpg": (random.bytes(3000), "cannot be read as an image"),
        "cut.png": (whole.getvalue()[:2000], "cannot be read"),
        "cut.jpg": (jpeg.getvalue()[:800], "cannot be read"),
        "head.png": (whole.getvalue()[:20], ""),
        "bomb.png": (png(60_000, 60_000, rows=b"\0" * 1000), "too large"),
        "short.png": (png(500, 500, rows=b"\0" * 10), "cannot be read"),
        "nothing.png": (png(0, 0), ""),
        "moving.gif": (moving.getvalue(), "holds 2 pictures"),
        "press.jpg": (press.getvalue(), "CMYK"),
        "floats.tif": (floats.getvalue(), ""),
        "integers.tif": (integers.getvalue(), ""),
    }


@pytest.mark.parametrize("name", broken_files())
def test_what_is_refused(tmp_path, name):
    content, said = broken_files()[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as trouble:
        read_picture(tmp_path / name)
    line = str(trouble.value)
    assert name in line
    assert said in line
    assert "\n" not in line


def test_damaged_bytes_never_end_in_another_error(tmp_path):
    """One byte in many is another: the file is read, or refused in a line."""
    rng = np.random.default_rng(0)
    outcomes = set()
    for kind in ("PNG", "JPEG", "TIFF", "GIF", "WEBP", "BMP"):
        file = io.BytesIO()
        Image.fromarray(noise(24, 24, 3)).save(file, kind)
        for _ in range(40):
            content = bytearray(file.getvalue())
            for place in rng.integers(0, len(content), rng.integers(1, 6)):
                content[place] = rng.integers(0, 256)
            (tmp_path / "damaged").write_bytes(content)
            try:
                read_picture(tmp_path / "damaged")
                outcomes.add("read")
            except UserError:
                outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def test_missing_and_folders(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_picture(tmp_path / "none.png")
    with pytest.raises(UserError, match="is a folder"):
        read_picture(tmp_path)


def test_masks(tmp_path):
    gray = noise(5, 7)
    assert np.array_equal(read_mask(saved(tmp_path / "a.png", gray)), gray)
    assert np.array_equal(read_mask(saved(tmp_path / "b.png", gray, "RGB")), gray)
    with pytest.raises(UserError, match="colored"):
        read_mask(saved(tmp_path / "c.png", noise(5, 7, 3)))
    with pytest.raises(UserError, match="transparency"):
        read_mask(saved(tmp_path / "d.png", noise(5, 7, 4)))


def test_frames_are_read_one_at_a_time(tmp_path):
    for i in range(3):
        saved(tmp_path / f"{i}.png", np.full((4, 5, 3), i, np.uint8))
    (tmp_path / "notes.txt").write_text("not a frame")
    (tmp_path / "._0.png").write_text("what a system keeps beside a frame")
    (tmp_path / "small.png").mkdir()
    frames = Frames.of_folder(tmp_path)
    assert [int(frame[0, 0, 0]) for frame in frames] == [0, 1, 2]
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    saved(tmp_path / "3.png", noise(4, 5, 3), icc_profile=profile)
    with pytest.raises(UserError, match="another color profile"):
        list(Frames.of_folder(tmp_path))


def test_palette_sw2_is_steady():
    """It is SW_2 of all pixels, whatever the order in which they are."""
    first, second = noise(30, 40, 3), (noise(20, 50, 3) // 2)
    found = palette_sw2(first, second)
    assert palette_sw2(np.rot90(first), second) == pytest.approx(found, abs=1e-9)
    x, y = (torch.from_numpy(i.reshape(-1, 3).astype(np.float64)) for i in (first, second))
    wanted = float(sw.sliced_wasserstein(x, y, n_slices=4000, generator=0))
    assert found == pytest.approx(wanted, rel=0.02)
    assert palette_sw2(first, first) == 0
    deep = first.astype(np.uint16) * 257
    assert palette_sw2(deep, second) == pytest.approx(found, abs=0.5)
    assert np.isnan(palette_sw2(first, np.zeros((4, 4, 4), np.uint8)))


def test_palette_w2_is_exact():
    dark, light = np.full((3, 3, 3), 10, np.uint8), np.full((4, 4, 4), 13, np.uint8)
    assert palette_w2(dark, light, 0, n=20) == pytest.approx(np.sqrt(27))
    assert np.isnan(palette_w2(dark, np.zeros((4, 4, 4), np.uint8), 0))


def test_before_and_after_is_drawn():
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:, 15:] = (200, 10, 30)
    assert palette(pixels) == [([0, 0, 0], 0.25), ([200, 10, 30], 0.75)]
    image = Image.open(
        io.BytesIO(before_after([("before", pixels), ("a name that is too long " * 9, pixels)]))
    )
    counts = {color: n for n, color in image.getcolors(10**7)}
    assert counts[(200, 10, 30)] > 2 * 300 * 300


@pytest.mark.parametrize("bits", [np.uint8, np.uint16])
def test_what_is_transparent_is_not_compared(bits):
    """Under transparent pixels any color may lie: neither the picture nor its palette is to show it."""
    pixels = np.zeros((40, 60, 4), bits)
    pixels[:, :15] = np.iinfo(bits).max * np.array([1, 0, 0, 1])
    pixels[:, 15:] = np.iinfo(bits).max * np.array([0, 0, 1, 0])
    shown = as_rgb(pixels)
    assert palette(shown) == [([255, 0, 0], 1.0)]
    image = Image.open(io.BytesIO(before_after([("before", shown)])))
    counts = {color: n for n, color in image.getcolors(10**7)}
    assert (0, 0, 255) not in counts
    assert counts[(255, 255, 255)] > 300 * 300
    assert palette(shown[:, 15:]) == []
    gray = as_rgb(np.full((2, 3, 2), np.iinfo(bits).max // 5, bits))
    assert np.array_equal(gray, np.full((2, 3, 4), 51, np.uint8))
