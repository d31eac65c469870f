"""Colour transfer: what it must leave alone, what it must reach, and how smooth it stays."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data
from skimage.exposure import match_histograms
from sklearn.base import clone

import slicewise as sw
from slicewise.color.color_transfer import ColorTransfer, transfer
from slicewise.color.field import SIDE, fit_field, look_up
from slicewise.color.images import PixelSampler, kmeans_palette
from slicewise.color.spaces import SPACES
from slicewise.lab.images.frames import palette_w2


def small(name, step=3):
    return np.ascontiguousarray(getattr(data, name)()[::step, ::step, :3])


@pytest.fixture(scope="module")
def cat():
    return small("chelsea")


@pytest.fixture(scope="module")
def cup():
    return small("coffee")


@pytest.fixture(scope="module")
def fitted(cat, cup):
    return ColorTransfer(n_pixels=500, generator=0).fit(cat, cup)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


class TestSpaces:
    @pytest.mark.parametrize("name", SPACES)
    def test_there_and_back(self, name):
        colours = torch.rand(1000, 3, dtype=torch.float64)
        enter, leave = SPACES[name]
        torch.testing.assert_close(leave(enter(colours)), colours, atol=1e-10, rtol=0)

    def test_linear_is_that_of_the_standard(self):
        # IEC 61966-2-1: mid-grey 118 is 18 % of the light.
        enter = SPACES["linear"].enter
        assert float(enter(torch.tensor([118 / 255.0]))) == pytest.approx(0.1812, abs=1e-4)

    def test_oklab_of_its_author(self):
        # X = 0.9505, Y = 1, Z = 1.089 is white, L = 1; pure red is (0.628, 0.225, 0.126).
        red = SPACES["oklab"].enter(torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64))
        torch.testing.assert_close(
            red, torch.tensor([[0.628, 0.225, 0.126]], dtype=torch.float64), atol=5e-4, rtol=0
        )

    def test_what_no_screen_shows_is_brought_back(self):
        far = torch.tensor([[2.0, 3.0, -4.0], [-1.0, 0.0, 0.0]], dtype=torch.float64)
        for space in SPACES.values():
            shown = space.leave(far)
            assert torch.isfinite(shown).all()
            assert (shown >= 0).all()
            assert (shown <= 1).all()


class TestField:
    def test_look_up_is_linear_between_nodes(self):
        field = torch.rand(5, 5, 5, 3)
        nodes = torch.cartesian_prod(*[torch.linspace(0, 1, 5)] * 3)
        torch.testing.assert_close(look_up(field, nodes), field.reshape(-1, 3), atol=1e-5, rtol=0)
        middle = look_up(field, torch.tensor([[0.125, 0.0, 1.0]]))
        torch.testing.assert_close(middle[0], (field[0, 0, 4] + field[1, 0, 4]) / 2)

    def test_fit_solves_its_least_squares(self):
        # The dense system, written out.
        side, n = 4, 50
        x = torch.rand(n, 3, dtype=torch.float64)
        moves = torch.rand(n, 3, dtype=torch.float64)
        weights = torch.rand(n, dtype=torch.float64)
        weights = weights / weights.sum()
        start = torch.zeros(side, side, side, 3, dtype=torch.float64)
        found = fit_field(x, moves, weights, smoothness=0.3, start=start)
        identity = torch.eye(side**3, dtype=torch.float64)
        rows = torch.stack(
            [
                look_up(e.reshape(side, side, side, 1).expand(-1, -1, -1, 3), x)[:, 0]
                for e in identity
            ],
            1,
        )
        one = torch.eye(side, dtype=torch.float64)
        first = one.diff(dim=0) * (side - 1)
        second = first.diff(dim=0) * (side - 1)
        along = 0.3 * (1.5e-3 * first.T @ first + 1.5e-4 * second.T @ second) / side**3
        rough = torch.zeros(side**3, side**3, dtype=torch.float64)
        for axis in range(3):
            parts = [along if i == axis else one for i in range(3)]
            rough += torch.kron(torch.kron(parts[0], parts[1]), parts[2])
        system = rows.T @ (weights[:, None] * rows) + rough + 1e-10 * identity
        wanted = torch.linalg.solve(system, rows.T @ (weights[:, None] * moves))
        torch.testing.assert_close(found.reshape(-1, 3), wanted, atol=1e-3, rtol=0)

    def test_a_shift_is_found_everywhere(self):
        x = torch.rand(200, 3, dtype=torch.float64) * 0.2 + 0.4
        shift = torch.tensor([0.1, -0.05, 0.02], dtype=torch.float64)
        start = torch.zeros(SIDE, SIDE, SIDE, 3, dtype=torch.float64)
        weights = torch.full((200,), 1 / 200, dtype=torch.float64)
        found = fit_field(x, shift.expand(200, 3), weights, smoothness=1.0, start=start)
        # Also at colours that nobody has.
        torch.testing.assert_close(found, shift.expand_as(found), atol=2e-3, rtol=0)


class TestPixels:
    def test_a_sampler_does_not_know_where_pixels_lie(self):
        image = noise(20, 30, 3)
        shuffled = image.reshape(-1, 3)[np.random.default_rng(1).permutation(600)].reshape(
            30, 20, 3
        )
        places = torch.rand(100, dtype=torch.float64)
        first, second = (
            PixelSampler([i], "image", torch.Generator()).take(places) for i in (image, shuffled)
        )
        assert torch.equal(first, second)

    def test_a_sampler_has_every_pixel(self):
        image = noise(7, 5, 3)
        places = (torch.arange(35, dtype=torch.float64) + 0.5) / 35
        taken = PixelSampler([image], "image", torch.Generator()).take(places)
        wanted = torch.from_numpy(image.reshape(-1, 3) / 255.0)
        assert sorted(taken.tolist()) == sorted(wanted.tolist())

    def test_what_is_transparent_is_not_taken(self):
        image = np.zeros((4, 4, 4), np.uint8)
        image[0, 0] = (255, 128, 0, 1)
        taken = PixelSampler([image], "image", torch.Generator()).take(
            torch.rand(50, dtype=torch.float64)
        )
        assert (taken == torch.tensor([1.0, 128 / 255, 0.0], dtype=torch.float64)).all()

    def test_a_palette_weighs_its_colours(self):
        colours = torch.tensor([[0.0, 0, 0]] * 30 + [[1.0, 1, 1]] * 10, dtype=torch.float64)
        centres, weights = kmeans_palette(colours, 8, seed=0)
        dark = int(centres.sum(1).argmin())
        assert len(centres) == 2
        assert weights[dark] == 0.75
        assert weights.sum() == 1


class TestIdentity:
    @pytest.mark.slow
    @pytest.mark.parametrize("space", SPACES)
    @pytest.mark.parametrize("palette", [None, 64])
    def test_an_image_to_itself(self, cat, space, palette):
        moved = transfer(cat, cat, space=space, palette=palette, n_pixels=300, generator=3)
        assert np.abs(moved.astype(int) - cat).max() <= 1

    def test_to_itself_turned_over(self, cat):
        moved = transfer(cat, np.ascontiguousarray(cat[::-1, ::-1]), n_pixels=300, generator=0)
        assert np.abs(moved.astype(int) - cat).max() <= 1

    def test_floating_point_too(self):
        image = np.random.default_rng(0).random((20, 30, 3))
        assert np.abs(transfer(image, image, n_pixels=300, generator=0) - image).max() < 1e-6

    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
    def test_no_strength_is_the_source_bit_for_bit(self, fitted, dtype):
        image = np.random.default_rng(0).random((9, 11, 4))
        image = (
            image.astype(dtype)
            if dtype in (np.float32, np.float64)
            else (image * 250).astype(dtype)
        )
        moved = fitted.transform(image, strength=0)
        assert moved.dtype == image.dtype
        assert np.array_equal(moved, image)


class TestReaching:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("source", "target"),
        [
            ("chelsea", "coffee"),
            ("coffee", "astronaut"),
            ("astronaut", "rocket"),
            ("rocket", "chelsea"),
        ],
    )
    def test_nearer_than_histograms(self, source, target):
        x, y = small(source), small(target)
        moved = transfer(x, y, look="exact", n_pixels=500, generator=0)
        matched = match_histograms(x, y, channel_axis=-1)
        ours, theirs = (palette_w2(image, y, 1, n=300, repeats=4) for image in (moved, matched))
        assert ours < theirs

    @pytest.mark.slow
    @pytest.mark.parametrize("variant", list(sw.VARIANTS))
    def test_every_variant(self, cat, cup, variant, monkeypatch):
        monkeypatch.setattr("slicewise.color.color_transfer._ROUNDS", {"natural": 1})
        monkeypatch.setattr("slicewise.color.color_transfer._STEPS", {"natural": 60})
        if "linear" not in sw.VARIANTS[variant].properties:
            with pytest.raises(ValueError, match="use a variant with linear slices"):
                ColorTransfer(variant, n_pixels=50, generator=0).fit(cat, cup)
            return
        moved = ColorTransfer(variant, n_pixels=50, generator=0).fit(cat, cup).transform(cat)
        before, after = (palette_w2(image, cup, 1, n=300) for image in (cat, moved))
        assert after < 0.7 * before

    @pytest.mark.slow
    def test_a_narrow_target_is_met_as_well_as_a_broad_one(self, cat, cup):
        """How smooth a map is goes by the target's spread: else a narrow one would be missed by more of itself."""
        narrow = (100 + (cup.astype(float) - cup.mean((0, 1))) / 8).round().astype(np.uint8)
        left = []
        for target in (cup, narrow):
            moved = transfer(cat, target, space="srgb", n_pixels=500, generator=0)
            spread = np.sqrt(target.reshape(-1, 3).var(0).sum())
            left.append(palette_w2(moved, target, 1, n=500, repeats=3) / spread)
        assert left[1] < 1.3 * left[0]

    def test_a_palette_too(self, cat, cup):
        moved = transfer(cat, cup, palette=128, generator=0)
        before, after = (palette_w2(image, cup, 1, n=500) for image in (cat, moved))
        assert after < 0.4 * before

    def test_strength_goes_part_of_the_way(self, fitted, cat):
        before = cat / 255.0
        whole, half = (fitted.transform(before, strength=s) for s in (1.0, 0.5))
        inside = (whole > 0) & (whole < 1)  # nothing was cut at black or white
        assert inside.mean() > 0.8
        assert np.abs((half - before) - (whole - before) / 2)[inside].max() < 1e-6

    def test_constant_images(self):
        grey, red = np.full((5, 4, 3), 90, np.uint8), np.full((3, 3, 3), (200, 10, 30), np.uint8)
        assert (transfer(grey, red, n_pixels=100, generator=0) == (200, 10, 30)).all()

    def test_one_colour_gets_the_mean(self):
        two = np.zeros((1, 2, 3), np.uint8)
        two[0, 1] = 200
        moved = transfer(
            np.full((1, 1, 3), 50, np.uint8), two, space="srgb", n_pixels=200, generator=0
        )
        assert np.abs(moved.astype(int) - 100).max() <= 2

    @pytest.mark.slow
    def test_the_same_seed_the_same_image(self, cat, cup):
        first, again, other = (transfer(cat, cup, n_pixels=100, generator=s) for s in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_a_generator_is_drawn_from(self, cat, cup):
        generator = torch.Generator().manual_seed(5)
        first, second = (transfer(cat, cup, n_pixels=100, generator=generator) for _ in range(2))
        torch.manual_seed(5)
        assert np.array_equal(first, transfer(cat, cup, n_pixels=100))
        assert not np.array_equal(first, second)

    def test_without_a_seed_torch_has_it(self, cat, cup):
        found = []
        for _ in range(2):
            torch.manual_seed(5)
            found.append(transfer(cat, cup, n_pixels=100))
        assert np.array_equal(*found)


class TestSmoothness:
    @staticmethod
    def steps(image):
        image = image.astype(int)
        return max(np.abs(np.diff(image, axis=axis)).max() for axis in (0, 1))

    @pytest.mark.slow
    @pytest.mark.parametrize("target", ["coffee", "astronaut"])
    @pytest.mark.parametrize(
        ("low", "high"), [((120, 150, 190), (150, 180, 210)), ((0, 0, 0), (40, 45, 60))]
    )
    def test_no_new_edges_in_a_sky(self, target, low, high):
        # 8-bit steps every 20 to 34 pixels; the histograms of channels make edges of 20 and more of them.
        ramp = np.linspace(low, high, 1024)[None].repeat(40, 0).round().astype(np.uint8)
        palette = small(target)
        moved = transfer(ramp, palette, n_pixels=500, generator=0)
        assert self.steps(moved) <= 6
        assert self.steps(match_histograms(ramp, palette, channel_axis=-1)) > 20
        assert np.ptp(moved.reshape(-1, 3), axis=0).max() > 120  # and yet it is stretched

    def test_grain_is_not_magnified(self):
        rng = np.random.default_rng(0)
        ramp = np.linspace(100, 130, 400)[None, :, None].repeat(200, 0).repeat(3, 2)
        grainy = (ramp + rng.normal(0, 1.5, ramp.shape)).round().astype(np.uint8)
        moved = transfer(grainy, small("coffee"), n_pixels=500, generator=0).astype(float)

        def grain(image):
            return np.diff(image, axis=0).std() / np.sqrt(2)

        assert grain(moved) < 2.2 * grain(grainy.astype(float))
        assert np.ptp(moved.mean((0, 2))) > 3 * 30

    def test_nor_is_it_beside_an_edge(self):
        """Towers before a sky: grain around their struts is the sky's, and not to become speckle."""
        rng = np.random.default_rng(0)
        sky = np.linspace(100, 130, 400)[None, :, None].repeat(200, 0).repeat(3, 2)
        grainy = (sky + rng.normal(0, 1.5, sky.shape)).round().astype(np.uint8)
        strut = np.zeros(400, bool)
        strut[40::40] = True
        beside = sum(np.roll(strut, by) for by in (-3, -2, -1, 1, 2, 3)) > 0
        grainy[:, strut] = 20
        moved = transfer(grainy, small("coffee"), n_pixels=500, generator=0).astype(float)

        def grain(image):
            return np.diff(image[:, beside], axis=0).std() / np.sqrt(2)

        assert grain(moved) < 2.5 * grain(grainy.astype(float))
        assert np.ptp(moved[:, beside].mean((0, 2))) > 3 * 30
        assert np.abs(moved[:, strut].mean(0) - moved[:, beside].mean((0, 1))).max() > 30


class TestKinds:
    def test_alpha_stays(self, fitted):
        image = noise(6, 7, 4)
        moved = fitted.transform(image)
        assert np.array_equal(moved[:, :, 3], image[:, :, 3])
        assert not np.array_equal(moved[:, :, :3], image[:, :, :3])

    @pytest.mark.parametrize(
        ("shape", "made"),
        [
            ((6, 7), (6, 7, 3)),
            ((6, 7, 1), (6, 7, 3)),
            ((6, 7, 2), (6, 7, 4)),
            ((1, 1, 3), (1, 1, 3)),
        ],
    )
    def test_shapes(self, fitted, shape, made):
        assert fitted.transform(noise(*shape)).shape == made

    def test_depths_agree(self, fitted):
        eight = noise(30, 40, 3)
        sixteen = eight.astype(np.uint16) * 257
        moved = fitted.transform(eight)
        assert np.abs(fitted.transform(sixteen) / 257.0 - moved).max() <= 0.51
        assert np.abs(fitted.transform(eight / 255.0) * 255 - moved).max() <= 0.51
        assert fitted.transform(sixteen).dtype == np.uint16

    def test_half_precision_and_bytes_the_other_way_round(self, fitted):
        eight = noise(30, 40, 3)
        halves = (eight / 255.0).astype(np.float16)
        moved = fitted.transform(halves)
        assert moved.dtype == np.float16
        # Half a step of half precision below 1 is 2^-12.
        assert np.abs(moved.astype(float) - fitted.transform(halves.astype(float))).max() < 2.5e-4
        sixteen = eight.astype(np.uint16) * 257
        assert np.array_equal(fitted.transform(sixteen.astype(">u2")), fitted.transform(sixteen))

    def test_frames_may_be_empty_but_not_all(self, cat, cup):
        empty, seen = np.zeros((9, 9, 4), np.uint8), np.full((*cat.shape[:2], 4), 255, np.uint8)
        seen[:, :, :3] = cat
        alone = ColorTransfer(n_pixels=100, generator=0).fit([seen], cup)
        together = ColorTransfer(n_pixels=100, generator=0).fit([empty, seen], cup)
        assert torch.equal(alone.field_, together.field_)
        with pytest.raises(ValueError, match="transparent all over"):
            together.fit([empty, empty], cup)

    def test_tensors(self, fitted):
        image = noise(30, 40, 3)
        moved = fitted.transform(torch.from_numpy(image))
        assert moved.dtype == torch.uint8
        assert np.array_equal(moved.numpy(), fitted.transform(image))

    def test_rows_are_worked_through_in_bands(self, fitted, monkeypatch):
        image = small("astronaut", 2)
        whole = fitted.transform(image)
        monkeypatch.setattr("slicewise.color.apply._BAND_PIXELS", 3 * image.shape[1])
        assert np.array_equal(fitted.transform(image), whole)

    def test_the_source_is_not_written_to(self, cat, cup):
        kept = cat.copy()
        transfer(cat, cup, n_pixels=50, generator=0)
        assert np.array_equal(cat, kept)

    def test_a_mask(self, fitted, cat):
        mask = np.zeros(cat.shape[:2], np.uint8)
        mask[:, 50:100] = 255
        mask[:, 100:] = 128
        moved, whole = (fitted.transform(cat, mask=m).astype(int) for m in (mask, None))
        assert np.array_equal(moved[:, :50], cat[:, :50])
        assert np.array_equal(moved[:, 50:100], whole[:, 50:100])
        middle = cat[:, 100:] + (whole - cat)[:, 100:] * 128 / 255
        cut = (whole[:, 100:] == 0) | (whole[:, 100:] == 255)
        assert np.abs(moved[:, 100:] - middle)[~cut].max() <= 1

    def test_only_what_a_mask_shows_counts(self, cup):
        halves = np.zeros((20, 20, 3), np.uint8)
        halves[:, 10:] = 240
        mask = halves[:, :, 0] > 0
        red = np.full((2, 2, 3), (200, 0, 0), np.uint8)
        moved = ColorTransfer(n_pixels=100, generator=0).fit_transform(halves, red, mask=mask)
        assert np.abs(moved[:, 10:].astype(int) - (200, 0, 0)).max() <= 1
        assert (moved[:, :10] == 0).all()

    def test_many_sources_share_one_map(self, cat, cup):
        frames = [cat[:50], cat[50:]]
        together = transfer(frames, cup, n_pixels=100, generator=0)
        fitted = ColorTransfer(n_pixels=100, generator=0).fit(frames, cup)
        for frame, moved in zip(frames, together, strict=True):
            assert np.array_equal(fitted.transform(frame), moved)

    def test_threads_are_given_back(self, cat, cup):
        before = torch.get_num_threads()
        transfer(cat, cup, n_pixels=50, generator=0)
        assert torch.get_num_threads() == before


class TestKeeping:
    @pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
    def test_a_map_comes_back(self, fitted, cat, tmp_path, suffix):
        path = tmp_path / f"map{suffix}"
        fitted.save(path)
        again = ColorTransfer.load(path)
        assert np.array_equal(again.transform(cat), fitted.transform(cat))
        assert again.space == fitted.space

    def test_files_say_the_seed_as_they_always_did(self, fitted, tmp_path):
        """So that maps of before are read, and maps of today by versions of before."""
        fitted.save(tmp_path / "map.npz")
        about = json.loads(str(np.load(tmp_path / "map.npz")["about"]))
        assert about["seed"] == 0
        assert "generator" not in about
        assert ColorTransfer.load(tmp_path / "map.npz").generator == 0
        older = json.dumps(
            {"format": about["format"], "space": "srgb"}
        )  # the first ones had no seed
        field = np.zeros((3, 3, 3, 3), np.float32)
        np.savez(tmp_path / "older.npz", displacements=field, about=np.array(older))
        assert ColorTransfer.load(tmp_path / "older.npz").generator is None
        drawn = ColorTransfer(generator=torch.Generator())
        drawn.field_ = fitted.field_
        drawn.save(tmp_path / "drawn.npz")
        assert ColorTransfer.load(tmp_path / "drawn.npz").generator is None

    def test_a_cube_is_the_map_pixel_by_pixel(self, fitted, tmp_path):
        fitted.save(tmp_path / "look.cube")
        title, size, *rows = (tmp_path / "look.cube").read_text().splitlines()
        assert (title, size) == (f'TITLE "slicewise, {fitted.look}"', f"LUT_3D_SIZE {SIDE}")
        table = np.array([row.split() for row in rows], float)
        assert table.shape == (SIDE**3, 3)
        red = table[SIDE - 1]  # after one run of the first, fastest channel
        pure = torch.tensor([[1.0, 0.0, 0.0]])
        wanted = (pure + look_up(fitted.field_, pure)).clamp(0, 1)[0]
        np.testing.assert_allclose(red, wanted, atol=1e-5)

    def test_nothing_in_a_file_is_run(self, tmp_path):
        class Runs:
            def __reduce__(self):
                return (tmp_path / "run").touch, ()

        held = np.empty(1, object)
        held[0] = Runs()
        np.savez(tmp_path / "evil.npz", displacements=held, about=held, allow_pickle=True)
        with pytest.raises(ValueError, match="holds no map"):
            ColorTransfer.load(tmp_path / "evil.npz")
        assert not (tmp_path / "run").exists()

    def test_what_is_no_map(self, tmp_path):
        np.savez(tmp_path / "other.npz", displacements=np.zeros((3, 3)), about=np.array("{}"))
        np.savez(tmp_path / "bare.npz", x=np.zeros(3))
        (tmp_path / "text.npz").write_text("no archive")
        (tmp_path / "text.safetensors").write_text("no tensors")
        for name, said in {
            "other.npz": "shape",
            "bare.npz": "holds no map",
            "text.npz": "holds no map",
            "text.safetensors": "holds no map",
            "look.3dl": ".npz, .safetensors, .cube",
        }.items():
            with pytest.raises(ValueError, match=said):
                ColorTransfer.load(tmp_path / name)

    @pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
    def test_damaged_maps_are_read_or_refused(self, fitted, tmp_path, suffix):
        fitted.save(tmp_path / f"whole{suffix}")
        whole = (tmp_path / f"whole{suffix}").read_bytes()
        path, rng, refusals = tmp_path / f"damaged{suffix}", np.random.default_rng(0), []
        for i in range(60):
            content = bytearray(whole)
            for place in rng.integers(0, 400 if i % 2 else len(whole), 5):
                content[place] = rng.integers(256)
            path.write_bytes(content[: rng.integers(len(whole))] if i % 3 == 0 else content)
            try:
                ColorTransfer.load(path)
            except ValueError as wrong:
                refusals.append(str(wrong))
        assert len(refusals) > 20
        assert all(path.name in said for said in refusals)

    @pytest.mark.parametrize(
        ("told", "said"),
        [
            ({"smoothness": "much"}, "unknown options"),
            ({"smoothness": -1}, "unknown options"),
            ({"space": [1]}, "unknown options"),
            ({"format": "another"}, "fit the map anew"),
        ],
    )
    def test_odd_words_about_a_map(self, tmp_path, told, said):
        about = json.dumps({"format": "slicewise colour map 1", **told})
        field = np.zeros((3, 3, 3, 3), np.float32)
        np.savez(tmp_path / "odd.npz", displacements=field, about=np.array(about))
        with pytest.raises(ValueError, match=f"odd.npz is .*{said}"):
            ColorTransfer.load(tmp_path / "odd.npz")

    def test_maps_beyond_numbers_and_memory(self, tmp_path):
        about = np.array(json.dumps({"format": "slicewise colour map 1"}))
        field = np.full((3, 3, 3, 3), 1e300)
        np.savez(tmp_path / "huge.npz", displacements=field, about=about)
        with pytest.raises(ValueError, match="finite, small"):
            ColorTransfer.load(tmp_path / "huge.npz")
        field = np.zeros((200, 200, 200, 3), np.float32)
        np.savez_compressed(tmp_path / "bomb.npz", displacements=field, about=about)
        with pytest.raises(ValueError, match="would take 96 MB"):
            ColorTransfer.load(tmp_path / "bomb.npz")
        with pytest.raises(FileNotFoundError, match=r"none\.npz cannot be read: No such file"):
            ColorTransfer.load(tmp_path / "none.npz")

    def test_other_names_are_refused(self, fitted, tmp_path):
        with pytest.raises(ValueError, match=r"\.npz or \.safetensors or \.cube"):
            fitted.save(tmp_path / "map.pkl")


class TestRefusals:
    def test_old_words_name_the_new_ones(self, cat, cup, fitted):
        for call in (ColorTransfer, lambda **old: transfer(cat, cup, **old)):
            with pytest.raises(TypeError, match="no argument 'seed': it is called 'generator' now"):
                call(seed=1)
        for call in (
            lambda **old: transfer(cat, cup, **old),
            lambda **old: fitted.fit(cat, cup, **old),
            lambda **old: fitted.transform(cat, **old),
        ):
            with pytest.raises(
                TypeError, match="no argument 'bar': it is called 'progress_bar' now"
            ):
                call(bar=False)

    @pytest.mark.parametrize("strength", [-0.1, 1.5, float("nan")])
    def test_a_strength_is_refused_before_anything_is_fitted(self, cat, cup, strength, monkeypatch):
        monkeypatch.setattr(ColorTransfer, "fit", lambda *_, **__: pytest.fail("it was fitted"))
        for call in (transfer, ColorTransfer().fit_transform):
            with pytest.raises(ValueError, match=r"strength = .*from 0 to 1"):
                call(cat, cup, strength=strength)

    @pytest.mark.parametrize(
        ("image", "said"),
        [
            ("photo.png", "PIL.Image.open"),
            (np.zeros((3, 8, 8), np.uint8), "permute"),
            (np.zeros((0, 8, 3), np.uint8), "shape"),
            (np.zeros((8, 8, 3), np.int64), "uint8, uint16"),
            (np.full((8, 8, 3), 200.0), "divided by 255"),
            (np.full((8, 8, 3), np.nan), "divided by 255"),
            (np.zeros((8, 8, 4), np.uint8), "transparent all over"),
            (np.zeros((2, 8, 8, 3), np.uint8), "several images come as a list"),
            (torch.zeros(8, 8, 3, dtype=torch.bfloat16), r"image\.float"),
            (torch.zeros(8, 8, 3, dtype=torch.float8_e4m3fn), r"image\.float"),
        ],
    )
    def test_images(self, image, said, cup):
        with pytest.raises(ValueError, match=said):
            transfer([image], cup)
        with pytest.raises(ValueError, match=said):
            transfer(cup, image)

    @pytest.mark.parametrize("source", [None, 5, Image.fromarray(np.zeros((4, 4, 3), np.uint8))])
    def test_what_is_no_image_nor_several(self, source, cup):
        with pytest.raises(ValueError, match=r"source is a .*: give an array"):
            transfer(source, cup)

    def test_options(self, cat, cup, fitted):
        for wrong, said in (
            ({"space": "oklabs"}, "'oklab'"),
            ({"palette": 0}, "palette = 0"),
            ({"smoothness": 0}, "smoothness = 0"),
            ({"generator": -1}, "generator = -1"),
            ({"generator": 2**70}, "below 2\\^62"),
        ):
            with pytest.raises(ValueError, match=said):
                ColorTransfer(**wrong)
        with pytest.raises(ValueError, match=r"strength = 1\.5"):
            fitted.transform(cat, strength=1.5)
        with pytest.raises(ValueError, match="mask has shape"):
            fitted.transform(cat, mask=np.ones((2, 2), np.uint8))
        with pytest.raises(ValueError, match="black all over"):
            fitted.fit(cat, cup, mask=np.zeros(cat.shape[:2], np.uint8))
        with pytest.raises(ValueError, match="call fit"):
            ColorTransfer().transform(cat)
        with pytest.raises(ValueError, match="no image"):
            transfer([], cup)


def test_scikit_learn_can_make_another_like_it(fitted, cat):
    given = {"variant": "ebsw", "look": "exact", "space": "srgb", "palette": 7, "smoothness": 2.0}
    given |= {"n_pixels": 50, "generator": 3}
    again = clone(ColorTransfer(**given))
    assert again.get_params() == given
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    with pytest.raises(ValueError, match="nothing is fitted yet"):
        fresh.transform(cat)
