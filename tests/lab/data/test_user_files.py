"""Files become samples, or a line that says why not."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from slicewise.lab.data.user_files import read_samples, read_weights
from slicewise.lab.errors import UserError

TWO = np.array([[1.0, 2.0], [3.0, -4.5], [0.25, 1e-3]])


def values(path, **how):
    found = read_samples(str(path), **how).values
    assert found.dtype == torch.float64
    return found.numpy()


def trouble(source, **how):
    with pytest.raises(UserError) as caught:
        read_samples(str(source), **how)
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int8", "uint64", "bool", ">f8"]
)
def test_arrays_of_every_kind_of_number(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.array([[1, 0], [0, 1], [1, 1]], dtype))
    assert values(tmp_path / "a.npy").tolist() == [[1, 0], [0, 1], [1, 1]]


def test_shapes(tmp_path):
    np.save(tmp_path / "line.npy", np.arange(4.0))
    assert values(tmp_path / "line.npy").shape == (4, 1)
    np.save(tmp_path / "cube.npy", np.arange(24.0).reshape(4, 2, 3))
    assert "--flatten to take each of its 4 entries" in trouble(tmp_path / "cube.npy")
    flat = values(tmp_path / "cube.npy", flatten=True)
    assert flat.tolist() == np.arange(24.0).reshape(4, 6).tolist()
    np.save(tmp_path / "columns.npy", np.asfortranarray(TWO))
    assert (values(tmp_path / "columns.npy") == TWO).all()
    np.save(tmp_path / "one.npy", np.float64(3))
    assert "a single number" in trouble(tmp_path / "one.npy")
    for shape in ((0, 2), (3, 0), (0,)):
        np.save(tmp_path / "none.npy", np.zeros(shape))
        assert "holds no sample" in trouble(tmp_path / "none.npy")


def test_an_array_of_an_archive_by_its_name(tmp_path):
    np.savez(tmp_path / "one.npz", only=TWO)
    assert (values(tmp_path / "one.npz") == TWO).all()
    np.savez_compressed(tmp_path / "two.npz", before=TWO, after=-TWO)
    assert (values(f"{tmp_path}/two.npz:after") == -TWO).all()
    assert read_samples(f"{tmp_path}/two.npz:after").name == "two.npz:after"
    said = trouble(tmp_path / "two.npz")
    assert "2 arrays (before, after)" in said
    assert "two.npz:before" in said
    assert "did you mean 'before'" in trouble(f"{tmp_path}/two.npz:befor")
    assert "choose from" in trouble(f"{tmp_path}/two.npz:")
    np.savez(tmp_path / "none.npz")
    assert "holds no array" in trouble(tmp_path / "none.npz")


def test_a_colon_in_a_file_name_is_part_of_it(tmp_path):
    np.savez(tmp_path / "odd.npz:name.npz", TWO)
    assert (values(tmp_path / "odd.npz:name.npz") == TWO).all()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.csv", "1,2\n3,-4.5\n0.25,1e-3\n"),
        ("header.csv", "height,width\n1,2\n3,-4.5\n0.25,1e-3"),
        ("quoted.csv", '"height, cm","width"\r\n"1","2"\r\n3,-4.5\r\n0.25,1e-3\r\n'),
        ("european.csv", "Höhe, cm;Breite\n1;2\n3;-4.5\n0.25;1e-3\n\n"),
        ("marked.csv", "\ufeff1,2\n3,-4.5\n0.25,1e-3\n"),
        ("spaces.txt", "  1   2\n 3  -4.5\n0.25 1e-3  \n"),
        ("commas.txt", "1, 2\n3, -4.5\n0.25, 1e-3\n"),
        ("commented.txt", "# height width\n1 2\n# in between\n3 -4.5\n0.25 1e-3\n"),
        ("tabs.TSV", "height, cm\twidth\n1\t2\n3\t-4.5\n0.25\t1e-3\n"),
    ],
)
def test_tables(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert values(tmp_path / name).tolist() == TWO.tolist()


def test_a_table_of_one_column_or_one_line(tmp_path):
    (tmp_path / "column.csv").write_text("x\n1\n2\n")
    assert values(tmp_path / "column.csv").tolist() == [[1], [2]]
    (tmp_path / "line.csv").write_text("1,2\n")
    assert values(tmp_path / "line.csv").tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3,four\n", "line 3, column 2: 'four' is no number"),
        ("1,two\n3,4\n", "line 1, column 2: 'two' is no number"),
        ("1,2\n3,\n", "line 2, column 2: '' is no number"),
        ("1,2\n3,4,5\n", "line 2 has 3 columns where the first has 2"),
        ("1.5;2,5\n", "'2,5' is no number"),
        ("a,b\n", "holds no numbers"),
        ("\n \n# nothing\n", "holds no numbers"),
        ("1,2\nnan,3\n", "1 entries that are NaN or infinite, the first in row 2, column 1"),
        ("1,1e999\n", "NaN or infinite"),
        ("", "is empty"),
    ],
)
def test_mistakes_in_tables_are_found(tmp_path, text, said):
    (tmp_path / "a.csv").write_text(text)
    assert said in trouble(tmp_path / "a.csv")


def test_a_table_that_is_no_text(tmp_path):
    (tmp_path / "a.csv").write_bytes("1,2\n".encode("utf-16"))
    assert "is not UTF-8 text" in trouble(tmp_path / "a.csv")


def save_image(path, pixels, mode=None):
    image = Image.fromarray(np.array(pixels, np.uint8))
    (image if mode is None else image.convert(mode)).save(path)


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "ppm", "PNG"])
def test_pixels_are_samples(tmp_path, suffix):
    pixels = [[[255, 0, 0], [0, 51, 255]]]
    save_image(tmp_path / f"a.{suffix}", pixels)
    found = read_samples(str(tmp_path / f"a.{suffix}"))
    assert found.colors
    assert found.values.tolist() == [[1, 0, 0], [0, 0.2, 1]]


def test_gray_transparent_and_deep_images(tmp_path):
    save_image(tmp_path / "gray.png", [[0, 51], [102, 255]])
    gray = read_samples(str(tmp_path / "gray.png"))
    assert gray.values.tolist() == [[0], [0.2], [0.4], [1]]
    assert not gray.colors
    save_image(tmp_path / "clear.png", [[[255, 0, 0, 255], [0, 0, 0, 0], [0, 0, 0, 51]]])
    expected = [[1, 0, 0], [1, 1, 1], [0.8, 0.8, 0.8]]
    assert values(tmp_path / "clear.png").tolist() == expected
    Image.merge("LA", [Image.new("L", (1, 1), 0), Image.new("L", (1, 1), 51)]).save(
        tmp_path / "la.png"
    )
    assert values(tmp_path / "la.png").tolist() == [[0.8]]
    save_image(tmp_path / "few.png", [[[255, 0, 0], [0, 0, 255]]], "P")
    assert values(tmp_path / "few.png").tolist() == [[1, 0, 0], [0, 0, 1]]
    Image.fromarray(np.array([[False, True]])).save(tmp_path / "bits.png")
    assert values(tmp_path / "bits.png").tolist() == [[0], [1]]
    Image.fromarray(np.array([[0, 13107, 65535]], np.uint16)).save(tmp_path / "deep.png")
    assert values(tmp_path / "deep.png").tolist() == [[0], [0.2], [1]]
    Image.fromarray(np.array([[0.5, 1.5]], np.float32)).save(tmp_path / "float.tiff")
    assert "not of 8 or 16 bits" in trouble(tmp_path / "float.tiff")


def test_an_image_of_unreasonable_size_is_not_read(tmp_path, monkeypatch):
    save_image(tmp_path / "a.png", np.zeros((20, 20, 3)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)
    assert "cannot be read as an image: Image size (400 pixels) exceeds" in trouble(
        tmp_path / "a.png"
    )


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}, []], object))
    assert "pickled objects, which could run code" in trouble(tmp_path / "objects.npy")
    np.savez(tmp_path / "objects.npz", a=np.array([None]))
    assert "pickled objects" in trouble(tmp_path / "objects.npz")
    (tmp_path / "raw.npy").write_bytes(pickle.dumps([1.0]))
    assert "is not a valid npy file" in trouble(tmp_path / "raw.npy")


def test_files_that_are_not_what_they_seem(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(1000.0))
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:500])
    assert "cannot be read as an npz file" in trouble(tmp_path / "cut.npz")
    (tmp_path / "damaged.npz").write_bytes(whole[:3000] + b"\0" * 100 + whole[3100:])
    assert "cannot be read as an npz file" in trouble(tmp_path / "damaged.npz")
    np.save(tmp_path / "a.npy", np.arange(1000.0))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:200])
    assert "cannot be read as an npy file" in trouble(tmp_path / "cut.npy")
    (tmp_path / "short.npy").write_bytes(b"\x93NUMPY")
    assert "cannot be read as an npy file" in trouble(tmp_path / "short.npy")
    (tmp_path / "text.npz").write_text("hello")
    assert "is not a valid npz file" in trouble(tmp_path / "text.npz")
    (tmp_path / "a.png").write_text("hello")
    assert "cannot be read as an image" in trouble(tmp_path / "a.png")
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    assert "not real numbers" in trouble(tmp_path / "words.npy")
    np.save(tmp_path / "complex.npy", np.array([1j]))
    assert "not real numbers" in trouble(tmp_path / "complex.npy")
    np.save(tmp_path / "wide.npy", np.array([np.longdouble("1e4000"), 1]))
    assert "NaN or infinite" in trouble(tmp_path / "wide.npy")


def test_names_that_lead_nowhere(tmp_path):
    assert "there is no file" in trouble(tmp_path / "missing.npy")
    assert "there is no file" in trouble("nowhere.npz:a")
    assert "there is no file" in trouble("zero\0byte.npy")
    assert "is a folder" in trouble(tmp_path)
    assert "is a folder" in trouble("")
    (tmp_path / "a.xlsx").write_text("1")
    assert ".csv" in trouble(tmp_path / "a.xlsx")
    (tmp_path / "plain").write_text("1")
    assert "ends in ''" in trouble(tmp_path / "plain")


def test_a_name_cannot_command_a_terminal(tmp_path):
    name = "\x1b[31mred\n.npy"
    assert "\x1b" not in trouble(name)
    np.save(tmp_path / name, TWO)
    assert read_samples(str(tmp_path / name)).name == r"'\x1b[31mred\n.npy'"


def test_weights_are_shares(tmp_path):
    for name, weights in (("line", [1, 3]), ("column", [[1], [3]]), ("row", [[1, 3]])):
        np.save(tmp_path / f"{name}.npy", np.array(weights))
        assert read_weights(str(tmp_path / f"{name}.npy"), 2).tolist() == [0.25, 0.75]
    np.save(tmp_path / "large.npy", np.array([1e308, 1e308]))
    assert read_weights(str(tmp_path / "large.npy"), 2).tolist() == [0.5, 0.5]
    for weights, said in (
        ([1, 2, 3], "there are 2 samples"),
        ([[1, 2], [3, 4]], "there are 2 samples"),
        ([1, -1], "a weight of -1"),
        ([0, 0], "zeros only"),
    ):
        np.save(tmp_path / "bad.npy", np.array(weights))
        with pytest.raises(UserError, match=said):
            read_weights(str(tmp_path / "bad.npy"), 2)


def test_safetensors(tmp_path):
    from safetensors.torch import save_file

    values = torch.arange(6.0).reshape(3, 2)
    save_file({"only": values.bfloat16()}, tmp_path / "one.safetensors")
    save_file({"a": values, "b": values + 1}, tmp_path / "two.safetensors")
    assert torch.equal(read_samples(str(tmp_path / "one.safetensors")).values, values.double())
    assert torch.equal(
        read_samples(str(tmp_path / "two.safetensors:b")).values, values.double() + 1
    )
    assert "2 arrays (a, b)" in trouble(tmp_path / "two.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"0123456789")
    assert "cannot be read as" in trouble(tmp_path / "bad.safetensors")
