"""Latents from files of every layout, and what is said where one is wrong."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from slicewise.lab.errors import UserError
from slicewise.lab.experiments.latent.cells import BaselineCell
from slicewise.lab.experiments.latent.tasks import LatentTask
from slicewise.lab.latents import faces
from slicewise.lab.latents.choice import LatentChoice
from slicewise.lab.latents.layouts import load
from slicewise.lab.latents.pictures import (
    axes_for,
    explained_variance,
    in_the_plane,
    made_by,
    mosaic,
    participation_ratio,
    translated,
    views,
)
from slicewise.lab.latents.sets import subset_sizes, task_of, tasks
from tests.command_line import accepted, refused

SHARED = Path(__file__).parents[4] / "shared" / "data"
stored = pytest.mark.skipif(
    not (SHARED / "stylegan_ffhq_w512_part0.npz").exists(),
    reason="no latents beside the repository",
)
decoding = pytest.mark.skipif(faces.missing() is not None, reason="needs `make faces`")


def rows(n=60, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


@pytest.fixture(autouse=True)
def _fresh():
    load.cache_clear()  # files of one name change from test to test


@pytest.fixture
def alae(tmp_path):
    """The layout of the public latents, in small."""
    age = np.arange(60) - 5.0  # −5 … 54
    np.save(tmp_path / "latents.npy", rows())
    np.save(tmp_path / "gender.npy", np.array(["male", "female", ""] * 20))
    np.save(tmp_path / "age.npy", age)
    return tmp_path


def wrong(path, **options):
    with pytest.raises((UserError, ValueError)) as found:
        load(str(path), **options)
    return str(found.value)


def test_the_public_layout(alae):
    found = load(str(alae))
    np.testing.assert_array_equal(found.rows.numpy(), rows())
    assert [task.name for task in tasks(found)] == [
        "generation",
        "male to female",
        "adult to child",
    ]
    assert (len(found.train), len(found.held_out), found.d) == (48, 12, 4)
    np.testing.assert_array_equal(found.held_out.numpy(), rows()[48:])
    age = np.load(alae / "age.npy")
    np.testing.assert_array_equal(found.domains["adult"], age > 18)
    np.testing.assert_array_equal(found.domains["child"], (age >= 0) & (age < 10))
    assert int(found.domains["male"].sum()) == int(found.domains["female"].sum()) == 20
    train, held = found.domain("male")
    np.testing.assert_array_equal(torch.cat([train, held]).numpy(), rows()[::3])
    assert len(held) == 6
    # The same by the name of the file, and from what is beside it.
    assert load(str(alae / "latents.npy")).digest == found.digest


def test_the_public_split(tmp_path):
    np.save(
        tmp_path / "latents.npy", np.arange(70_000, dtype=np.float32)[:, None].repeat(2, axis=1)
    )
    np.save(tmp_path / "gender.npy", np.arange(70_000) % 2)
    found = load(str(tmp_path))
    assert (len(found.train), len(found.held_out)) == (60_000, 10_000)
    assert float(found.held_out[0, 0]) == 60_000
    assert torch.equal(found.judged, found.held_out[:2_048])
    train, held = found.domain("male")  # domains are split where the data are
    assert (float(train.max()), float(held.min()), len(held)) == (59_999, 60_001, 5_000)


def test_thresholds_of_age_are_options(alae):
    found = load(str(alae), adult=40, child=18)
    age = np.load(alae / "age.npy")
    np.testing.assert_array_equal(found.domains["adult"], age > 40)
    np.testing.assert_array_equal(found.domains["child"], (age >= 0) & (age < 18))
    assert "child ≤ adult" in wrong(alae, adult=5, child=10)


@pytest.mark.parametrize(
    "gender",
    [
        np.array([1, 0, -1] * 20),
        np.array([1.0, 0.0, np.nan] * 20),
        np.array(["M", "F", "unknown"] * 20),
        np.array([b"Male", b"Female", b""] * 20),
        np.array([["male"], ["female"], [""]] * 20),
    ],
)
def test_gender_as_words_letters_or_numbers(alae, gender):
    np.save(alae / "gender.npy", gender)
    found = load(str(alae))
    np.testing.assert_array_equal(np.flatnonzero(found.domains["male"]), np.arange(0, 60, 3))
    np.testing.assert_array_equal(np.flatnonzero(found.domains["female"]), np.arange(1, 60, 3))


def test_a_matrix_of_any_kind_with_labels(tmp_path):
    from safetensors.numpy import save_file

    kind = np.array(["cat", "dog", "dog"] * 20)
    code = np.where(kind == "cat", 3, 7)
    np.savez(tmp_path / "a.npz", latents=rows(), animal=kind)
    np.savez(tmp_path / "b.npz", other=rows(), code=code)
    save_file({"w": rows().astype(np.float16), "code": code}, tmp_path / "c.safetensors")
    np.save(tmp_path / "d.npy", rows())
    np.save(tmp_path / "code.npy", code)
    found = load(str(tmp_path / "a.npz"))
    assert tasks(found)[1].name == "animal=cat to animal=dog"
    np.testing.assert_array_equal(found.domains["animal=dog"], kind == "dog")
    for file, options in (
        ("b.npz", {}),
        ("c.safetensors", {}),
        ("d.npy", {"labels": str(tmp_path / "code.npy")}),
        ("b.npz:other", {"labels": str(tmp_path / "b.npz:code")}),
    ):
        found = load(str(tmp_path / file), **options)
        assert found.pairs == (("code=3", "code=7"),)
        assert torch.allclose(found.rows, torch.from_numpy(rows()), atol=2e-3)
        np.testing.assert_array_equal(found.labels["code"], code)
    # Measurements are no domains, and rows without labels are still something to generate.
    np.savez(tmp_path / "e.npz", latents=rows(), weight=np.linspace(0, 1, 60))
    assert [task.name for task in tasks(load(str(tmp_path / "e.npz")))] == ["generation"]
    with pytest.raises(UserError, match="no labels"):
        load(str(tmp_path / "d.npy")).domain("x")


def test_what_is_held_out(tmp_path):
    file = str(tmp_path / "x.npy")
    np.save(file, rows(20_000, 2))
    assert len(load(file).held_out) == 2_048
    assert len(load(file, held_out=77).held_out) == 77
    assert "hold out fewer" in wrong(file, held_out=20_000)
    assert "held_out" in wrong(file, held_out=1)


def test_domains_have_a_split_of_their_own(alae):
    found = load(str(alae))
    assert not found.fixed_split
    train, held = found.domain("child")
    assert (len(train), len(held)) == (7, 3)
    for split in (1, 2):
        others = found.domain("child", split)
        assert [len(part) for part in others] == [7, 3]
        assert not torch.equal(others[1], held)
        both = [torch.cat(part).sort(dim=0).values for part in (others, (train, held))]
        assert torch.equal(*both)
    assert torch.equal(found.domain("child", 1)[1], found.domain("child", 1)[1])
    fixed = load(str(alae), held_out=12)
    assert len(fixed.domain("male")[1]) == 4  # of the last 12 rows
    # A domain without held-out rows can be described, and not judged.
    assert {"set": "child", "train": 10, "held out": 0} in subset_sizes(fixed)
    with pytest.raises(UserError, match="0 held out"):
        fixed.domain("child")


def test_tasks_by_name(alae):
    found = load(str(alae))
    assert task_of(found, "adult to child").target == "child"
    assert task_of(found, "female to male").source == "female"  # any two
    with pytest.raises(UserError, match="choose from generation, male to female"):
        task_of(found, "old to young")
    with pytest.raises(UserError, match="did you mean 'male'"):
        found.domain("mael")


def test_the_digest_tells_latents_splits_and_domains_apart(alae, tmp_path):
    seen = {
        load(str(alae)).digest,
        load(str(alae), held_out=10).digest,
        load(str(alae), child=5 + 4).digest,
    }
    np.save(tmp_path / "latents.npy", rows(seed=1))
    load.cache_clear()
    seen.add(load(str(alae)).digest)
    assert len(seen) == 4


def test_labels_of_the_wrong_length_are_refused(alae):
    np.save(alae / "gender.npy", np.array(["male"] * 59))
    before = sorted(alae.iterdir())
    said = wrong(alae)
    assert "(59,)" in said
    assert "60 rows" in said
    assert sorted(alae.iterdir()) == before  # and nothing is written
    np.savez(alae / "m.npz", latents=rows(), kind=np.zeros(61, int))
    assert "'kind' have shape (61,)" in wrong(alae / "m.npz")


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (rows().ravel(), "rows of a matrix (N, d)"),
        (rows().reshape(20, 3, 4), "rows of a matrix (N, d)"),
        (rows(9), "at least 10 rows"),
        (rows(60, 0), "a latent in each"),
        (np.array([["a", "b"]] * 20), "not real numbers"),
        (rows() * 1j, "not real numbers"),
        (np.where(np.arange(240).reshape(60, 4) == 42, np.nan, rows()), "the first is row 11"),
        (rows().astype(np.float64) * 1e300, "NaN or infinite"),
        (np.array([{"a": 1}] * 20, dtype=object), "could run code"),
    ],
    ids=["vector", "box", "few", "no columns", "words", "complex", "nan", "huge", "pickle"],
)
@pytest.mark.filterwarnings("ignore:.*casting complex")
def test_no_latents(alae, matrix, said):
    np.save(alae / "latents.npy", matrix, allow_pickle=True)
    assert said in wrong(alae)


def test_labels_that_name_nothing(alae):
    np.save(alae / "gender.npy", np.array(["cat"] * 60))
    assert "give male and female" in wrong(alae)
    np.save(alae / "gender.npy", np.array([None] * 60), allow_pickle=True)
    assert "could run code" in wrong(alae)
    (alae / "gender.npy").unlink()
    np.save(alae / "age.npy", np.array(["old"] * 60))
    assert "numbers of years" in wrong(alae)
    np.save(alae / "age.npy", np.full(60, -1))
    assert "no adult and no child" in wrong(alae)


def test_files_that_are_not_there_or_not_what_they_should_be(tmp_path):
    assert "no latents" in wrong(tmp_path)
    assert "no file" in wrong(tmp_path / "none.npy")
    (tmp_path / "latents.npz").write_bytes(b"hello")
    assert "not a valid npz file" in wrong(tmp_path / "latents.npz")
    (tmp_path / "x.safetensors").write_bytes(b"hello")
    assert "cannot be read as a safetensors" in wrong(tmp_path / "x.safetensors")
    np.savez(tmp_path / "two.npz", a=rows(), b=rows())
    assert "say which, as two.npz:NAME" in wrong(tmp_path / "two.npz")
    assert len(load(str(tmp_path / "two.npz:b")).rows) == 60
    np.save(tmp_path / "m.npy", rows())
    (tmp_path / "labels.txt").write_text("1\n")
    assert "ends in '.txt'" in wrong(tmp_path / "m.npy", labels=str(tmp_path / "labels.txt"))
    assert "from the same network" in wrong(tmp_path / "m.npy", more=10)
    with pytest.raises(UserError, match="give their path"):
        load(held_out=10)


def stylegan(folder, n=900, **changed):
    """Files as those of the style space, in small: w of a few rows, labels cut by scores."""
    w = np.random.default_rng(5).standard_normal((n, 512)).astype(np.float16)
    labels = {
        "gender": (w[:, 0] > 0).astype(np.int8),
        "age_group": np.digitize(w[:, 1], [-0.5, 1]).astype(np.int8) - 1,
    }
    labels["gender_coef"] = np.eye(512, dtype=np.float32)[0]
    labels["child_coef"] = np.eye(512, dtype=np.float32)[1]
    for part in (0, 1):
        np.savez(
            folder / f"stylegan_ffhq_w512_part{part}.npz", w=w[part * n // 2 : (part + 1) * n // 2]
        )
    np.savez(folder / "stylegan_ffhq_w512_labels.npz", **{**labels, **changed})
    return w, labels


def test_the_folder_of_a_style_space(tmp_path):
    w, labels = stylegan(tmp_path)
    found = load(str(tmp_path))
    np.testing.assert_array_equal(found.rows.numpy(), w.astype(np.float32))
    assert (len(found.held_out), found.d) == (300, 512)
    np.testing.assert_array_equal(found.domains["female"], labels["gender"] == 0)
    np.testing.assert_array_equal(found.domains["child"], labels["age_group"] == 0)
    assert [task.name for task in tasks(found)] == [
        "generation",
        "male to female",
        "adult to child",
    ]
    assert any("non-commercial" in note for note in found.notes)
    assert (found.decoder is None) == (faces.missing() is not None)
    stylegan(tmp_path, gender=np.zeros(5))
    load.cache_clear()
    assert "one for each of 900" in wrong(tmp_path)
    (tmp_path / "stylegan_ffhq_w512_labels.npz").unlink()
    assert "no file" in wrong(tmp_path)


def test_further_rows_are_cut_as_the_stored_ones(tmp_path, monkeypatch):
    monkeypatch.setattr("slicewise.lab.latents.stylegan._LABELED_BY_PICTURE", 100)
    monkeypatch.setattr(faces, "mapped", lambda noise: noise)
    w, _ = stylegan(tmp_path)
    alone, found = load(str(tmp_path)), load(str(tmp_path), more=500)
    assert torch.equal(found.held_out, alone.held_out)
    assert len(found.train) == len(alone.train) + 500
    drawn = np.random.default_rng(2021).standard_normal((1400, 512)).astype(np.float32)[900:]
    np.testing.assert_array_equal(
        found.rows[900:].numpy(), drawn.astype(np.float16).astype(np.float32)
    )
    # Labels were cut at 0, −0.5 and 1; scores between the last on either side may go either way.
    clear = np.abs(drawn[:, 0]) > 0.02
    np.testing.assert_array_equal(found.domains["male"][900:][clear], drawn[clear, 0] > 0)
    clear = (np.abs(drawn[:, 1] + 0.5) > 0.02) & (np.abs(drawn[:, 1] - 1) > 0.05)
    np.testing.assert_array_equal(found.domains["adult"][900:][clear], drawn[clear, 1] > 1)
    np.testing.assert_array_equal(found.labels["gender"][:900], (w[:, 0] > 0))


def test_without_the_networks_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    faces._network.cache_clear()
    assert faces.missing().startswith("faces need openvino: run `make faces`")
    with pytest.raises(UserError, match="make faces"):
        faces.decode(torch.zeros(1, 512))
    stylegan(tmp_path)
    assert "make faces" in wrong(tmp_path, more=5)
    with pytest.raises(UserError, match=r"has no pictures: faces need .*make faces"):
        load(str(tmp_path)).decode(torch.zeros(1, 512))


@pytest.fixture(scope="module")
def digits():
    from slicewise.lab.latents.digits import digits

    return digits()


def test_digits_need_no_file(digits):
    assert (len(digits.train), len(digits.held_out), digits.d) == (4_000, 1_000, 32)
    assert [task.name for task in tasks(digits)] == ["generation", "3 to 8", "0 to 1", "4 to 9"]
    assert load() is load()
    assert torch.allclose(load().rows, digits.rows)
    train, held = digits.domain("8")
    assert len(train) + len(held) == 500
    # What was encoded is what is decoded, on digits that the encoder has never seen.
    from slicewise.lab.data.image_sets import all_digits

    order = np.random.default_rng(0).permutation(5_000)[-1_000:]
    pixels = all_digits()[1][order] / 255
    again = digits.decode(digits.held_out) / 255
    assert again.shape == pixels.shape
    assert np.square(again - pixels).mean() < 0.25 * pixels.var(axis=0).mean()
    # All coordinates are used.
    assert participation_ratio(digits.train) > 10


def test_training_the_encoder_leaves_the_global_generator_alone(monkeypatch):
    from slicewise.lab.latents.digits import _trained

    monkeypatch.setattr("slicewise.lab.latents.digits._STEPS", 5)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with torch.no_grad():
        _trained(torch.rand(70, 784, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.rand(3), expected)


def test_explained_variance():
    x = torch.randn(500, 3, dtype=torch.float64) * torch.tensor([3.0, 2.0, 1.0])
    spread = np.sort(np.linalg.eigvalsh(np.cov(x.numpy().T)))[::-1]
    found = explained_variance(x)
    np.testing.assert_allclose(found, np.cumsum(spread) / spread.sum())
    assert [axes_for(found, share) for share in (0.1, 0.9, 1.0)] == [1, 2, 3]
    assert participation_ratio(x) == pytest.approx(spread.sum() ** 2 / np.square(spread).sum())
    assert explained_variance(torch.ones(5, 3)).tolist() == [1, 1, 1]


def test_places_in_the_plane_are_the_first_two_axes(alae):
    found = load(str(alae))
    places, chosen = in_the_plane(found)
    assert places.shape == (60, 2)
    train = places[~found.held[chosen]]
    assert abs(train.mean(axis=0)).max() < 1e-6
    cov = np.cov(train.T)
    spread = np.sort(np.linalg.eigvalsh(np.cov(found.train.numpy().T)))[::-1]
    np.testing.assert_allclose(cov, np.diag(spread[:2]), atol=1e-5)


def test_mosaics():
    pictures = np.arange(5, dtype=np.uint8)[:, None, None].repeat(3, 1).repeat(4, 2)
    sheet = mosaic(pictures, columns=3, gap=1)
    assert sheet.shape == (2 * 3 + 1, 3 * 4 + 2)
    assert (sheet[4:, 5:9] == 4).all()
    assert (sheet[:, 4] == 255).all()
    assert (sheet[4:, 10:] == 255).all()
    assert mosaic(np.zeros((2, 3, 4, 3), np.uint8)).shape == (3, 10, 3)
    with pytest.raises(ValueError, match="at least one"):
        mosaic(pictures[:0])


def test_drawings(digits, alae):
    source = digits.domain("3")[1]
    lines = {"sw": digits.train, "maxsw": digits.train.flip(0)}
    panels = made_by(digits, lines, 4).axes
    assert [p.get_ylabel() for p in panels[::4]] == ["held out", "sw", "maxsw"]
    panels = translated(digits, source, {"sw": source}, ("3", "8"), 3).axes
    assert [p.get_ylabel() for p in panels[::3]] == ["3", "→ 8\nsw"]
    panels = views(load(str(alae))).axes
    assert len(panels) >= 4
    assert "d = 4" in panels[0].get_title()


def test_the_command(alae, tmp_path, capsys):
    import json

    picture = tmp_path / "views.png"
    said = accepted(capsys, "latents", alae, "--judge", "-o", picture)
    for words in (
        "60 rows of 4 coordinates",
        "48 to train on, 12 held out",
        "male to female",
        "constant mean",
    ):
        assert words in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = json.loads(accepted(capsys, "latents", alae, "--json", "--child", "18"))
    assert found["sets"] == subset_sizes(load(str(alae), child=18))
    assert "(59,)" in _refused_with_short_labels(alae, capsys)


def _refused_with_short_labels(folder, capsys):
    load.cache_clear()
    np.save(folder / "age.npy", np.zeros(59))
    said = refused(capsys, "latents", folder, "-o", folder / "new.png")
    assert not (folder / "new.png").exists()
    return said


def test_the_command_in_trouble(alae, capsys):
    assert "no file" in refused(capsys, "latents", alae / "none.npy")
    assert "ends in .png" in refused(capsys, "latents", alae, "-o", alae / "x.jpg")
    picture = alae / "x.png"
    assert "there is no decoder" in refused(capsys, "latents", alae, "--pictures", picture)
    assert not picture.exists()


def test_the_command_decodes_digits(tmp_path, capsys, digits, monkeypatch):
    monkeypatch.setattr("slicewise.lab.latents.digits.digits", lambda: digits)
    picture = tmp_path / "digits.png"
    assert "3 to 8" in accepted(capsys, "latents", "--pictures", picture)
    from PIL import Image

    with Image.open(picture) as sheet:
        assert sheet.size == (8 * 86 - 2, 4 * 86 - 2)  # 28 pixels are few to look at


def test_real_digits_are_kept_to_be_looked_at_beside_generated_ones(digits, monkeypatch):
    monkeypatch.setattr("slicewise.lab.latents.digits.digits", lambda: digits)
    names = ("real", "constant mean", "Gaussian")
    scores = {name: {"w2": 1.0, "sw2": 1.0} for name in names}
    monkeypatch.setattr(LatentTask, "baselines", lambda self, device: scores)
    cell = BaselineCell("generate", LatentTask("generation", LatentChoice(), hidden=8, batch=16))
    real, *others = cell.measure(cell.runs, "cpu")
    assert np.array_equal(real.arrays["pictures"], digits.decode(digits.held_out[:8]))
    assert [dict(one.arrays) for one in others] == [{}, {}]


def test_words_on_the_curve_do_not_hide_each_other(alae):
    """Half and nearly all of the variance may well need one axis."""
    rows = torch.zeros(40, 5)
    rows[:, 0] = torch.arange(40.0)
    latents = dataclasses.replace(load(str(alae)), rows=rows, held=np.arange(40) >= 30)
    figure = views(latents)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert [text.get_text() for text in figure.axes[0].texts] == ["50%: 1", "90%: 1", "99%: 1"]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


@stored
@pytest.mark.slow
def test_the_stored_latents_are_what_their_description_says():
    from slicewise.judging.baselines import baselines

    found = load(str(SHARED))
    assert (len(found.train), len(found.held_out), found.d) == (7_952, 2_048, 512)
    sizes = {row["set"]: (row["train"], row["held out"]) for row in subset_sizes(found)}
    assert sizes["child"] == (820, 410)
    assert sum(sizes["male"]) == 5_302
    assert axes_for(explained_variance(found.rows), 0.9) == pytest.approx(156, abs=1)
    judged = baselines(found.train, found.held_out, exact=False)
    real, mean, gauss = judged.values()
    assert real.sw2 == pytest.approx(0.0263, rel=0.03)
    assert (mean.sw2, mean.energy) == (
        pytest.approx(0.438, rel=0.02),
        pytest.approx(5.67, rel=0.02),
    )
    assert (real.frechet, mean.frechet, gauss.frechet) == (
        pytest.approx(3.8, abs=0.05), pytest.approx(99.6, rel=0.01), pytest.approx(4.2, abs=0.05))  # fmt: skip
    assert real.sw2 < gauss.sw2 < 0.1 * mean.sw2


@stored
@decoding
@pytest.mark.slow
def test_the_networks_make_the_stored_latents_and_faces(tmp_path):
    w = load(str(SHARED)).rows
    noise = np.random.default_rng(2021).standard_normal((600, 512)).astype(np.float32)
    np.testing.assert_array_equal(
        faces.mapped(noise).astype(np.float16).astype(np.float32), w[:600].numpy()
    )
    face = faces.decode(w[:1], side=64)
    assert face.shape == (1, 64, 64, 3)
    assert face.std() > 20
    # Bytes that are no picture of anything would not be alike at neighboring pixels.
    step = np.abs(np.diff(face.astype(float), axis=1)).mean()
    assert step < 0.5 * np.abs(face.astype(float) - face.mean()).mean()
    with pytest.raises(UserError, match=r"\(n, 512\)"):
        faces.decode(torch.zeros(1, 5))
    with pytest.raises(UserError, match="diverged"):
        faces.decode(torch.full((1, 512), torch.nan))
    shutil.copy(SHARED / "stylegan_ffhq_w512_part0.npz", tmp_path)
    load.cache_clear()
    assert "no file" in wrong(tmp_path)
