"""What is written beside the pixels, for every format and depth: nothing a photograph tells is lost on the way."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from slicewise.lab.errors import UserError
from slicewise.lab.images.files import Picture, check_kind, encode_picture, read_picture
from slicewise.lab.images.metadata import turned_upright
from slicewise.lab.images.tiff import encode_tiff
from tests.lab.images.test_files import noise, saved

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
CAMERA, DAY, PLACE = (271, "a camera"), (36867, "2020:01:02 03:04:05"), (2, (48.0, 8.0, 1.5))
FACTS = ("profile", "exif", "dpi", "alpha")
KEPT = {
    (".png", 8): {"profile", "exif", "dpi", "alpha"},
    (".jpg", 8): {"profile", "exif", "dpi"},
    (".webp", 8): {"profile", "exif", "dpi", "alpha"},
    (".tif", 8): {"profile", "exif", "dpi", "alpha"},
    (".tif", 16): {"profile", "exif", "dpi", "alpha"},
    (".bmp", 8): {"dpi"},
}
# What a format has no room for is refused; but for EXIF in BMP, which says nothing of the pixels.
LOST = {(".bmp", 8): {"exif"}}


def exif(turn=1):
    found = Image.Exif()
    found[274] = turn
    found[CAMERA[0]] = CAMERA[1]
    found.get_ifd(0x8769)[DAY[0]] = DAY[1]
    found.get_ifd(0x8825).update({1: "N", PLACE[0]: PLACE[1]})
    return found.tobytes()


def tells(found):
    """Does EXIF tell what `exif` does?"""
    inside = found.get_ifd(0x8769).get(DAY[0]), found.get_ifd(0x8825).get(PLACE[0])
    return (found.get(CAMERA[0]), *inside) == (CAMERA[1], DAY[1], PLACE[1])


def picture(fact, bits):
    """One that has this fact alone."""
    dtype = np.uint8 if bits == 8 else np.uint16
    pixels = noise(5, 7, 4 if fact == "alpha" else 3, dtype=dtype)
    given = {"profile": PROFILE, "exif": exif(), "dpi": (300.0, 150.0)}
    return Picture("a", pixels, **{name: given[name] for name in given if name == fact})


def has(fact, path, given):
    """Is the fact in the file, for other programs and for us?"""
    again = read_picture(path)
    if fact == "alpha":
        return np.array_equal(again.pixels[:, :, 3], given.pixels[:, :, 3])
    if path.suffix == ".tif":  # Pillow opens none of 16 bits
        with tifffile.TiffFile(path) as file:
            tags = file.pages[0].tags
            place = {"profile": 34675, "dpi": 282, "exif": 34665}[fact]
            assert place in tags
            if fact == "exif":
                assert tags[34665].value["DateTimeOriginal"] == DAY[1]
    else:
        with Image.open(path) as image:
            found = image.getexif()
            density = image.info.get("dpi", (found.get(282), found.get(283)))
            known = {"profile": image.info.get("icc_profile") == PROFILE, "exif": tells(found)}
            known["dpi"] = density == pytest.approx((300, 150), rel=1e-4)
            assert known[fact]
    loaded = Image.Exif()
    loaded.load(again.exif or b"")
    return {
        "profile": again.profile == PROFILE,
        "exif": tells(loaded),
        "dpi": again.dpi is not None and again.dpi == pytest.approx((300, 150), rel=1e-4),
    }[fact]


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(("suffix", "bits"), KEPT)
def test_each_fact_is_kept_or_refused(tmp_path, suffix, bits, fact):
    given = picture(fact, bits)
    place = tmp_path / f"a{suffix}"
    if fact in KEPT[suffix, bits]:
        check_kind(place, given)
        place.write_bytes(encode_picture(given, suffix))
        assert has(fact, place, given)
    elif fact in LOST.get((suffix, bits), ()):
        check_kind(place, given)
        encode_picture(given, suffix)
    else:
        with pytest.raises(UserError, match="give a name"):
            check_kind(place, given)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_turned_once_with_all_it_tells(tmp_path, suffix, turn):
    pixels = noise(16, 24, 3)
    given = {"exif": exif(turn), "dpi": (300, 150), "icc_profile": PROFILE}
    found = read_picture(saved(tmp_path / f"a{suffix}", pixels, **given))
    wanted = turned_upright(pixels, turn)
    assert found.pixels.shape == wanted.shape
    if suffix in (".png", ".tif"):
        assert np.array_equal(found.pixels, wanted)
    if suffix != ".webp":  # which has no room of its own for it
        wide = (150, 300) if turn > 4 else (300, 150)
        assert found.dpi == pytest.approx(wide, rel=1e-4)
    (tmp_path / "b.tif").write_bytes(encode_picture(found, ".tif"))
    (tmp_path / "c.png").write_bytes(encode_picture(found, ".png"))
    for again in ("b.tif", "c.png"):
        with Image.open(tmp_path / again) as image:
            assert image.getexif().get(274, 1) == 1
            assert tells(image.getexif())
            assert image.size == wanted.shape[1::-1]
        assert np.array_equal(read_picture(tmp_path / again).pixels, found.pixels)


@pytest.mark.parametrize("turn", range(1, 9))
def test_turns_are_those_of_exif(turn):
    """Pillow knows what the eight numbers mean."""
    from PIL import ImageOps

    image = Image.fromarray(noise(5, 7, 3))
    image.getexif()[274] = turn
    assert np.array_equal(
        turned_upright(noise(5, 7, 3), turn), np.asarray(ImageOps.exif_transpose(image))
    )


@pytest.mark.parametrize("turn", [1, 3, 6])
def test_sixteen_bits_are_turned_too(tmp_path, turn):
    pixels = noise(5, 7, 3, dtype=np.uint16)
    tag = (274, "H", 1, turn, True)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extratags=[tag])
    found = read_picture(tmp_path / "a.tif")
    assert np.array_equal(found.pixels, turned_upright(pixels, turn))
    (tmp_path / "b.tif").write_bytes(encode_picture(found, ".tif"))
    assert np.array_equal(read_picture(tmp_path / "b.tif").pixels, found.pixels)


def test_no_thumbnail_of_the_old_colors(tmp_path):
    """It would be shown in folders; and what lies beside it does not move."""
    order, place = "<", 8 + 2 + 2 * 12 + 4
    entry = struct.Struct(f"{order}HHLL")
    head = b"II*\0" + struct.pack(f"{order}LH", 8, 2)
    own = entry.pack(271, 2, 9, place) + entry.pack(274, 3, 1, 6)
    behind = struct.pack(f"{order}L", place + 10) + b"a camera\0\0"
    thumbnail = struct.pack(f"{order}H", 1) + entry.pack(513, 4, 1, 60) + b"\0" * 4
    raw = b"Exif\0\0" + head + own + behind + thumbnail
    found = read_picture(saved(tmp_path / "a.jpg", noise(5, 7, 3), exif=raw))
    assert found.pixels.shape == (7, 5, 3)
    assert found.exif is not None
    assert len(found.exif) == len(raw)
    with Image.open(io.BytesIO(encode_picture(found, ".jpg"))) as image:
        again = image.getexif()
        assert (again[271], again[274]) == ("a camera", 1)
        assert again.get_ifd(1) == {}


def test_exif_cut_short_is_left_out(tmp_path):
    cut = saved(tmp_path / "a.jpg", noise(5, 7, 3), exif=exif()[:40])
    assert read_picture(cut).exif is None


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tiffs_of_many_strips(channels, dtype):
    """Read by another's program to the same numbers, and packed: smooth pixels take less room."""
    smooth = np.add.outer(np.arange(900), np.arange(1100))[:, :, None] + np.arange(channels) * 9
    for pixels in (smooth.astype(dtype), noise(900, 1100, channels, dtype=dtype)):
        content = encode_tiff(pixels, None, None, None)
        with tifffile.TiffFile(io.BytesIO(content)) as file:
            assert len(file.pages[0].dataoffsets) > 3
            assert np.array_equal(file.pages[0].asarray().reshape(pixels.shape), pixels)
        if pixels.dtype == np.uint8:
            again = np.asarray(Image.open(io.BytesIO(content)))
            assert np.array_equal(again.reshape(pixels.shape), pixels)
    assert (
        len(encode_tiff(smooth.astype(dtype), None, None, None)) < smooth.astype(dtype).nbytes / 20
    )


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
@pytest.mark.parametrize("first", [".jpg", ".tif"])
def test_names_are_kept_letter_for_letter(tmp_path, first, suffix):
    """EXIF says ASCII, programs write UTF-8: "© Müller" became "?? M??ller" on its way through a TIFF."""
    author = "© Müller".encode()
    given = Image.Exif()
    given[315] = author
    how = {"exif": given.tobytes()} if first == ".jpg" else {"tiffinfo": {315: author}}
    source = saved(tmp_path / f"a{first}", noise(5, 7, 3), **how)
    assert author in source.read_bytes()
    assert author + b"\0" in encode_picture(read_picture(source), suffix)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_what_cannot_be_written_costs_no_photograph(tmp_path, suffix, caplog):
    """Numbers where words belong, words where numbers do: left out of a TIFF, which is said, and the rest is told."""
    entry = struct.Struct("<HHL4s")
    odd = [entry.pack(270, 11, 1, struct.pack("<f", 0.5)), entry.pack(271, 2, 4, b"cam\0")]
    odd += [entry.pack(282, 2, 2, b"x\0\0\0"), entry.pack(283, 3, 2, b"\1\0\2\0")]
    raw = b"Exif\0\0II*\0" + struct.pack("<LH", 8, len(odd)) + b"".join(odd) + b"\0" * 4
    given = read_picture(saved(tmp_path / "a.png", noise(5, 7, 3), exif=raw))
    assert given.dpi is None
    (tmp_path / f"b{suffix}").write_bytes(encode_picture(given, suffix))
    said = [one for one in caplog.messages if "tag 282 is left out, it cannot be written" in one]
    assert len(said) == (suffix == ".tif")
    with Image.open(tmp_path / f"b{suffix}") as image:
        assert image.getexif()[271] == "cam"
    assert read_picture(tmp_path / f"b{suffix}").pixels.shape == (5, 7, 3)


def test_what_only_calls_itself_exif_is_left_out(tmp_path):
    found = read_picture(saved(tmp_path / "a.jpg", noise(5, 7, 3), exif=b"Exif\0\0" + b"\0" * 40))
    assert found.exif is None
    encode_picture(found, ".tif")


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("turn", [3, 6, 7])
def test_plain_tiffs_are_turned_whole(tmp_path, channels, turn):
    """Pillow maps those of one or four channels into memory, and had their rows by the turned width."""
    pixels = noise(5, 7, channels)
    given = pixels[:, :, 0] if channels == 1 else pixels
    found = read_picture(saved(tmp_path / "a.tif", given, tiffinfo={274: turn}))
    assert np.array_equal(found.pixels, turned_upright(pixels, turn))


def test_exif_too_long_for_a_jpeg_is_refused_at_once(tmp_path):
    """Pillow says so when it writes, after all the work."""
    given = Image.Exif()
    given[270] = "a" * 70_000
    found = read_picture(saved(tmp_path / "a.png", noise(5, 7, 3), exif=given.tobytes()))
    with pytest.raises(UserError, match=r"65533: give a name in \.png"):
        check_kind(tmp_path / "b.jpg", found)
    for suffix in (".png", ".tif", ".webp"):
        check_kind(tmp_path / f"b{suffix}", found)
        encode_picture(found, suffix)
