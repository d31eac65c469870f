"""Files of strangers: none runs a program, takes all memory, or is read as something else without a word."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from slicewise.lab.data import faces, photograph_pairs, read_samples
from slicewise.lab.data.limits import SETTING
from slicewise.lab.errors import UserError
from slicewise.lab.images import read_picture
from tests.command_line import accepted, refused

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


def gray(path, size=(8, 8)):
    Image.new("L", size, 100).save(path)


def sheet(path):
    first, second = Image.new("L", (4, 4)), Image.new("L", (4, 4), 9)
    first.save(path, save_all=True, append_images=[second])


DOORS = {
    "distance": lambda folder: read_samples(str(folder / "set1_source.png")),
    "faces": lambda folder: faces.__wrapped__(str(folder)),
    "photographs": lambda folder: photograph_pairs.__wrapped__(str(folder)),
    "transfer": lambda folder: read_picture(folder / "set1_source.png"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["postscript", "bomb", "truncated", "pages", "cmyk", "nothing"])
def test_every_door_refuses_the_same(tmp_path, monkeypatch, door, kind):
    ran = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *a, **k: ran.append(a))
    file = tmp_path / "set1_source.png"
    gray(tmp_path / "set1_target.png")
    if kind == "postscript":
        file.write_bytes(POSTSCRIPT)
    elif kind == "bomb":
        head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
        chunk = struct.pack(">I", 13) + b"IHDR" + head
        chunk += struct.pack(">I", zlib.crc32(b"IHDR" + head))
        file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk)
    elif kind == "truncated":
        gray(file, (64, 64))
        file.write_bytes(file.read_bytes()[:-30])
    elif kind == "pages":
        sheet(tmp_path / "s.tif")
        (tmp_path / "s.tif").rename(file)
    elif kind == "cmyk":
        Image.new("CMYK", (4, 4)).save(tmp_path / "c.jpg")
        (tmp_path / "c.jpg").rename(file)
    else:
        file.write_bytes(b"")
    with pytest.raises(UserError, match=r"set1_source\.png"):
        DOORS[door](tmp_path)
    assert not ran


def test_a_gray_photograph_of_any_name_is_still_read(tmp_path):
    gray(tmp_path / "a.png")
    assert read_samples(str(tmp_path / "a.png")).values.shape == (64, 1)


def test_an_archive_that_unpacks_to_gigabytes(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (2_500_000, 1)})  # fmt: skip
        archive.writestr("x.npy", head.getvalue() + bytes(20_000_000))
    assert (tmp_path / "bomb.npz").stat().st_size < 50_000
    monkeypatch.setenv(SETTING, "0.01")
    with pytest.raises(UserError, match=rf"bomb\.npz would take 0\.02 GB .*{SETTING}"):
        read_samples(str(tmp_path / "bomb.npz"))
    monkeypatch.setenv(SETTING, "0.1")
    assert len(read_samples(str(tmp_path / "bomb.npz")).values) == 2_500_000
    monkeypatch.setenv(SETTING, "much")
    with pytest.raises(UserError, match="give a number of gigabytes"):
        read_samples(str(tmp_path / "bomb.npz"))


def test_an_array_that_claims_more_than_there_is(tmp_path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 3)})  # fmt: skip
    (tmp_path / "claims.npy").write_bytes(head.getvalue() + bytes(24))
    with zipfile.ZipFile(tmp_path / "claims.npz", "w") as archive:
        archive.writestr("x.npy", head.getvalue() + bytes(24))
    for name in ("claims.npy", "claims.npz"):
        with pytest.raises(UserError, match="claims"):
            read_samples(str(tmp_path / name))


@pytest.mark.parametrize("kind", ["npy", "safetensors", "csv", "gz"])
def test_files_that_are_too_large(tmp_path, monkeypatch, kind):
    monkeypatch.setenv(SETTING, "0.0001")
    file = tmp_path / f"a.{kind}"
    if kind == "npy":
        np.save(file, np.zeros((50_000, 3)))
    elif kind == "safetensors":
        from safetensors.numpy import save_file

        save_file({"a": np.zeros((50_000, 3))}, file)
    elif kind == "csv":
        file.write_text("1,2\n" * 50_000)
    else:
        from slicewise.lab.data.image_sets import _idx

        file = tmp_path / "train-images-idx3-ubyte.gz"
        file.write_bytes(
            gzip.compress(struct.pack(">HBBIII", 0, 8, 3, 1000, 28, 28) + bytes(784_000))
        )
        with pytest.raises(UserError, match=SETTING):
            _idx(tmp_path, "train-images-idx3")
        return
    with pytest.raises(UserError, match=SETTING):
        read_samples(str(file))


def test_a_tiff_is_what_its_tags_say(tmp_path):
    """OME-XML that claims 100,000 pages of a file of one."""
    tifffile = pytest.importorskip("tifffile")
    pixels = np.arange(48, dtype=np.uint16).reshape(4, 4, 3)
    xml = (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0"><Pixels '
        'ID="Pixels:0" DimensionOrder="XYCZT" Type="uint16" SizeX="4" SizeY="4" SizeC="3" SizeZ="100000" SizeT="10000">'
        '<Channel ID="Channel:0" SamplesPerPixel="3"/><TiffData/></Pixels></Image></OME>'
    )
    tifffile.imwrite(
        tmp_path / "lies.tif", pixels, photometric="rgb", description=xml, metadata=None
    )
    assert np.array_equal(read_picture(tmp_path / "lies.tif").pixels, pixels)


def test_a_deep_png_that_unpacks_to_more_than_it_shows(tmp_path):
    from slicewise.lab.images.bit_depth import encode_deep_png

    pixels = np.zeros((4, 4, 3), np.uint16)
    good = encode_deep_png(pixels, None, None, None)
    place = good.index(b"IDAT") - 4
    (size,) = struct.unpack(">I", good[place : place + 4])
    packed = zlib.compress(bytes(50_000_000))
    chunk = struct.pack(">I", len(packed)) + b"IDAT" + packed
    chunk += struct.pack(">I", zlib.crc32(b"IDAT" + packed))
    (tmp_path / "a.png").write_bytes(good[:place] + chunk + good[place + 12 + size :])
    with pytest.raises(UserError, match=r"a\.png"):
        read_picture(tmp_path / "a.png")


# What a table says, by its text and the option; the first line taken for a header where it is numbers.
TABLES = [
    ("0,1,2\n.5,.6,.7\n1,1,1\n", "auto", 2, "0,1,2"),
    ("0,1,2\n.5,.6,.7\n1,1,1\n", "no", 3, None),
    ("1,2,3\n.5,.6,.7\n", "auto", 2, None),
    ("1,2,3\n.5,.6,.7\n", "yes", 1, None),
    ("0\n1\n2\n", "auto", 3, None),
    ("0 1\n5 6\n", "auto", 1, "0,1"),
    ("u,v\n5,6\n", "auto", 1, None),
    ("0,1,2\n", "auto", 1, None),
]


@pytest.mark.parametrize(("text", "header", "rows", "skipped"), TABLES)
def test_headers_of_tables(tmp_path, text, header, rows, skipped):
    (tmp_path / "a.csv").write_text(text)
    found = read_samples(str(tmp_path / "a.csv"), header=header)
    assert (len(found.values), found.header) == (rows, skipped)


def test_a_header_of_numbers_is_told(tmp_path, capsys):
    from slicewise.lab.cli import main

    (tmp_path / "a.csv").write_text("0,1\n5,6\n7,8\n")
    files = [str(tmp_path / "a.csv")] * 2
    assert main(["distance", *files, "-q"]) == 0
    assert "0,1, is taken for a header; --header no" in capsys.readouterr().err
    accepted(capsys, "distance", *files, "-q", "--header", "no")
    assert "--header" in refused(capsys, "distance", *files, "--header", "perhaps")


def test_a_quoted_line_break_is_no_number(tmp_path):
    (tmp_path / "a.csv").write_text('1,2\n"1\n2",3\n4,5\n')
    with pytest.raises(UserError, match=r"line 3, column 1: '1\\n2' is no number"):
        read_samples(str(tmp_path / "a.csv"))


def test_bytes_become_numbers_of_eight(tmp_path, monkeypatch):
    np.save(tmp_path / "pixels.npy", np.zeros((40_000, 3), np.uint8))  # 0.12 MB, 0.96 MB as samples
    monkeypatch.setenv(SETTING, "0.0005")
    with pytest.raises(UserError, match=SETTING):
        read_samples(str(tmp_path / "pixels.npy"))
    monkeypatch.setenv(SETTING, "0.002")
    assert read_samples(str(tmp_path / "pixels.npy")).values.shape == (40_000, 3)


def test_a_table_takes_little_more_than_its_numbers(tmp_path):
    file = tmp_path / "short.csv"
    file.write_text("1,2\n" * 100_000)
    tracemalloc.start()
    read_samples(str(file))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5 * file.stat().st_size + 2**20
