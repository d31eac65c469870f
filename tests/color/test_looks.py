"""Looks, artifacts and what keeps maps from showing them; regions, the node for ComfyUI, `match_colors`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from skimage import data
from skimage.color import rgb2lab

from slicewise.color import (
    LOOKS,
    ColorTransfer,
    RegionTransfer,
    SourceRegions,
    color_transfer,
    feather,
    match_colors,
    transfer,
)
from slicewise.color.comfyui import NODE_CLASS_MAPPINGS, SlicewiseMatchColors
from slicewise.color.field import SIDE, lattice, look_up
from slicewise.color.guided import _PAIRS, LocalMaps, _solve, guide
from slicewise.color.images import SmallCopy
from slicewise.color.linear import MAX_GAIN, bounded_transport, linear_transport
from slicewise.color.natural import _PRICE, Chosen, Judge, better, follow_target
from slicewise.color.spaces import into_gamut, to_cielab
from slicewise.lab.images.frames import palette_w2


def small(name, step=3):
    return np.ascontiguousarray(getattr(data, name)()[::step, ::step, :3])


def sky(height=96, width=128):
    """A smooth gradient from blue to pale, as float32 in [0, 1]."""
    ramp = torch.linspace(0, 1, width).expand(height, width)[..., None]
    low, high = torch.tensor([0.35, 0.5, 0.75]), torch.tensor([0.7, 0.78, 0.85])
    return low + ramp * (high - low)


class TestLinear:
    def test_it_carries_the_moments(self):
        generator = torch.Generator().manual_seed(0)
        x, y = (torch.randn(4000, 3, generator=generator, dtype=torch.float64) for _ in range(2))
        x, y = (
            x * torch.tensor([1.0, 2.0, 0.5]),
            y
            @ torch.tensor(
                [[1.0, 0.3, 0.0], [0.0, 1.0, 0.2], [0.1, 0.0, 1.5]], dtype=torch.float64
            ),
        )
        found = linear_transport(x, y)
        torch.testing.assert_close(found.matrix, found.matrix.T)
        torch.testing.assert_close(found(x).mean(0), y.mean(0), atol=1e-9, rtol=0)
        torch.testing.assert_close(torch.cov(found(x).T), torch.cov(y.T), atol=1e-3, rtol=1e-3)

    def test_its_gains_are_bounded(self):
        generator = torch.Generator().manual_seed(0)
        y = 0.5 + 0.1 * torch.randn(3000, 3, generator=generator, dtype=torch.float64)
        x = 0.5 + (y - 0.5) / 10
        assert torch.linalg.eigvalsh(linear_transport(x, y).matrix).max() > 9
        found = torch.linalg.eigvalsh(bounded_transport(x, y, "srgb").matrix)
        assert found.max() == pytest.approx(MAX_GAIN)

    def test_it_stretches_less_where_colors_would_be_lost(self):
        generator = torch.Generator().manual_seed(0)
        x = 0.5 + 0.15 * torch.randn(3000, 3, generator=generator, dtype=torch.float64)
        y = 0.5 + 0.4 * torch.randn(3000, 3, generator=generator, dtype=torch.float64)
        moved = bounded_transport(x, y, "srgb")(x)
        outside = ((moved < -0.03) | (moved > 1.03)).any(-1).double().mean()
        assert outside < 0.2
        assert ((linear_transport(x, y)(x) < -0.03).any(-1)).double().mean() > 0.2


def test_the_gamut_is_entered_with_hue_and_lightness_kept():
    lab = torch.tensor([[0.6, 0.9, 0.4], [0.5, -0.3, 0.9], [0.5, 0.1, 0.1]], dtype=torch.float64)
    shown = into_gamut(lab)
    assert (shown >= 0).all()
    assert (shown <= 1).all()
    again = to_cielab(shown)
    torch.testing.assert_close(again[:, 0], lab[:, 0], atol=2e-3, rtol=0)
    hue, wanted = (torch.atan2(c[:, 2], c[:, 1]) for c in (again, lab))
    torch.testing.assert_close(hue, wanted, atol=0.02, rtol=0)
    torch.testing.assert_close(again[2], lab[2], atol=1e-6, rtol=0)  # it was inside


class TestArtifacts:
    def test_each_is_seen_where_it_is_and_only_there(self):
        image = sky()
        regions = SourceRegions(image)
        clean = regions.compare(image)
        noisy = image + 0.02 * torch.randn(image.shape, generator=torch.Generator().manual_seed(0))
        assert regions.compare(noisy).grain > 4 * clean.grain + 1
        step = image.clone()
        step[:, 64:] += 0.1
        assert regions.compare(step).seams > 10 * clean.seams
        steeper = (image - 0.6) * 1.3 + 0.6  # a slope that is steeper all over is no seam
        assert regions.compare(steeper).seams < 2 * clean.seams
        tinted = image.clone()
        tinted[:, 64:] = image[:, 64:].flip(-1)
        assert regions.compare(tinted).hue_jumps > 4 * clean.hue_jumps + 2
        bright = (image + 0.4).clamp(0, 1)
        assert regions.compare(bright).clipped > 0.3
        assert clean.clipped == 0

    def test_halos_are_beside_silhouettes(self):
        image = sky()
        image[:, 40:60] = 0.1
        regions = SourceRegions(image)
        ringing = image.clone()
        ringing[::2, 62:65] += 0.08
        assert regions.compare(ringing).halos > 2 * regions.compare(image).halos + 1
        assert SourceRegions(sky()).compare(sky()).halos == 0  # there is no silhouette

    def test_differences_of_skin_may_grow_by_half(self):
        """A face whose chroma has the slope of the ramp, of the hue of skin or of another one."""
        ramp = torch.linspace(-4, 4, 140).expand(70, 140)
        # Of colors 10 pixels apart those along rows differ, by 8 · 10 / 139; those along columns do not.
        before, share = 80 / 139, (70 * 130 / (70 * 130 + 60 * 140)) ** 0.25
        for hue, skin in ((40, True), (250, False)):
            angle = math.radians(hue)

            def face(contrast, angle=angle):
                chroma = 24 + contrast * ramp
                lab = [
                    torch.full_like(ramp, 60),
                    chroma * math.cos(angle),
                    chroma * math.sin(angle),
                ]
                return into_gamut(torch.stack(lab, -1) / 100)

            regions = SourceRegions(face(1.0))
            for contrast in (1.0, 1.4, 3.0):
                wanted = max(0, contrast - 1.5) * before * share if skin else 0
                found = regions.compare(face(contrast)).blotches
                assert found == pytest.approx(wanted, abs=0.05)
        cat = torch.full((70, 140, 3), 0.5)
        cat[:4] = face(1.0)[:4]  # too little of it to be a face
        assert SourceRegions(cat).compare(cat.flip(0)).blotches == 0

    def test_what_was_darker_and_is_lighter_is_reversed(self):
        image = sky()
        regions = SourceRegions(image)
        assert regions.compare(image).reversals == 0
        assert (
            regions.compare((image - 0.6) * 0.2 + 0.6).reversals == 0
        )  # flatter, in the same order
        lightness = 100 * to_cielab(image)[0, :, 0]
        apart = float((lightness[6:] - lightness[:-6]).mean())
        pairs = 96 * 122, 90 * 128  # along rows; along columns nothing changes
        wanted = apart * (pairs[0] / sum(pairs)) ** 0.25
        assert regions.compare(image.flip(1)).reversals == pytest.approx(wanted, rel=0.1)

    def test_a_calm_region_may_not_get_two_colors(self):
        """A sky of one gray, left and right of which colors are moved apart by a known difference of lightness."""
        # Alike: a quarter apart they differ by 4 · 32 / 127.
        lightness = torch.linspace(60, 64, 128).expand(96, 128)

        def gray(values):
            return into_gamut(torch.stack([values, *torch.zeros(2, 96, 128)], -1) / 100)

        regions = SourceRegions(gray(lightness))
        share = (96 * 96 / (96 * 96 + 64 * 128)) ** 0.25  # along columns nothing changes
        for contrast in (1.0, 1.4, 4.0):
            found = regions.compare(gray(62 + contrast * (lightness - 62))).unevenness
            wanted = max(0, contrast - 1.5) * 4 * 32 / 127 * share
            assert found == pytest.approx(wanted, abs=0.05)
        # Two colors to begin with: only within each.
        right = (torch.arange(128) > 64) * torch.ones(96, 1)
        several = lightness - 20 + 12 * right
        parted = SourceRegions(gray(several)).compare(gray(several + 20 * right))
        assert parted.unevenness < 0.05

    def test_detail_that_becomes_black_is_lost_and_a_darker_image_is_not(self):
        lightness = torch.linspace(10, 50, 128).expand(96, 128)

        def gray(values):
            return into_gamut(torch.stack([values, *torch.zeros(2, 96, 128)], -1) / 100)

        regions = SourceRegions(gray(lightness))
        crushed = regions.compare(gray(torch.where(lightness < 30, 0, lightness))).crushed
        step = 6 * 40 / 127
        pairs = 96 * 122, 90 * 128  # along rows; along columns nothing changes
        wanted = step * (96 * (64 - 6) / sum(pairs)) ** 0.25
        assert crushed == pytest.approx(wanted, rel=0.05)
        assert regions.compare(gray(lightness)).crushed == 0
        assert regions.compare(gray(0.15 * lightness)).crushed == pytest.approx(0, abs=0.01)
        # Lost in white, or a flat target of middle gray, is not what this measures.
        assert regions.compare(gray(torch.full((96, 128), 60.0))).crushed == 0

    def test_the_short_side_of_a_panorama_may_not_get_two_colors_either(self):
        flat = torch.full((96, 640, 3), 0.6)
        two = flat.clone()
        two[:48] *= torch.tensor([1.2, 0.8, 0.6])
        for axes in ((0, 1, 2), (1, 0, 2)):
            found = SourceRegions(flat.permute(axes)).compare(two.permute(axes)).unevenness
            assert found > 20

    def test_small_images_have_no_distance(self):
        found = SourceRegions(torch.rand(2, 3, 3)).compare(torch.rand(2, 3, 3))
        assert all(math.isfinite(value) for value in found)

    def test_what_is_not_seen_does_not_count(self):
        image = sky()
        seen = torch.zeros(image.shape[:2], dtype=torch.bool)
        seen[:, :30] = True
        step = image.clone()
        step[:, 64:] += 0.1
        regions = SourceRegions(image, seen)
        assert regions.compare(step).seams == pytest.approx(regions.compare(image).seams)


class TestGuided:
    def test_a_linear_map_is_left_as_it_is(self):
        """Displacements that are linear in the color are what it fits, where colors differ enough."""
        image = torch.rand(40, 50, 3, generator=torch.Generator().manual_seed(0))
        matrix = torch.tensor([[0.2, 0.0, 0.1], [0.0, -0.3, 0.0], [0.1, 0.0, 0.2]])
        moved = guide(image, lambda c: c @ matrix + 0.05)
        torch.testing.assert_close(moved, image + image @ matrix + 0.05, atol=2e-3, rtol=0)

    def test_grain_of_a_calm_area_is_not_magnified(self):
        generator = torch.Generator().manual_seed(0)
        image = 0.5 + 0.006 * torch.randn(60, 60, 3, generator=generator)
        moved = guide(image, lambda c: 4 * (c - 0.5))  # five times as steep as before
        assert moved.std() < 2 * image.std()

    def test_pixels_between_two_colors_move_between_them(self):
        """A fringe has a color of its own, which a map may take anywhere."""
        image = torch.zeros(20, 20, 3)
        image[:, 10:], image[:, 9] = 0.8, 0.4

        def to_red(colors):
            away = torch.zeros_like(colors)
            away[..., 0] = torch.where((colors[..., 1] - 0.4).abs() < 0.1, 0.6, 0.0)
            return away

        assert (image + to_red(image))[10, 9, 0] == 1.0
        assert guide(image, to_red)[10, 9, 0] < 0.75

    def test_planes_are_solved_as_matrices_are(self):
        generator = torch.Generator().manual_seed(0)
        roots = torch.randn(5, 4, 3, 3, generator=generator)
        matrices = roots @ roots.mT + 0.01 * torch.eye(3)
        right = torch.randn(5, 4, 3, 3, generator=generator)
        planes = [matrices[..., i, j] for i, j in _PAIRS]
        found = _solve(planes, right.permute(2, 3, 0, 1)).permute(2, 3, 0, 1)
        torch.testing.assert_close(found, torch.linalg.solve(matrices, right), atol=1e-4, rtol=1e-3)

    def test_blotches_of_a_calm_area_are_not_magnified(self):
        """Of a kind that squares of 9 × 9 pixels do not average: waves of 24 pixels."""
        wave = 0.004 * torch.sin(torch.arange(512) * 2 * math.pi / 24)
        image = (0.5 + wave[:, None] + wave[:96]).unsqueeze(-1).expand(512, 96, 3).contiguous()
        moved = guide(image, lambda c: 4 * (c - 0.5))
        assert moved.std() < 1.5 * image.std()

    def test_a_small_star_stays_sharp(self):
        """A field of stars is not blurred: a bright dot goes where its own color goes, not where the night goes."""
        generator = torch.Generator().manual_seed(0)
        image = (0.05 + 0.02 * torch.randn(128, 128, 3, generator=generator)).clamp(0, 1)
        image[64:67, 64:67] = 0.9
        moved = guide(image, lambda c: 0.4 * (1 - c))
        night = float(moved[:40].mean())
        assert float(moved[65, 65].mean()) > night + 0.8 * (0.94 - night)
        assert float(moved[75, 75].mean()) == pytest.approx(night, abs=0.05)

    def test_a_sky_of_two_colors_is_a_gradient_without_a_rim(self):
        """Half of a calm sky turns red: gradually it does so over a third of the image, else within a few pixels."""
        image = sky(240, 480)

        def to_red(colors):
            away = torch.zeros_like(colors)
            away[..., 0] = torch.where(colors[..., 1] > 0.64, 0.3, 0.0)
            return away

        steepest = {
            gradual: guide(image, to_red, gradual=gradual)[120, :, 0].diff().abs().max()
            for gradual in (True, False)
        }
        assert steepest[True] < steepest[False] / 2

    def test_what_is_sharp_stays_sharp_in_a_gradual_sky(self):
        image = sky(240, 480)
        image[:, 240:244] = 0.05
        moved = guide(image, lambda c: 0.2 * (1 - c))
        assert float(moved[120, 241].mean()) == pytest.approx(0.05 + 0.2 * 0.95, abs=0.03)
        assert float(moved[120, 230].mean()) == pytest.approx(
            float((image + 0.2 * (1 - image))[120, 230].mean()), abs=0.03
        )

    def test_blocks_agree_with_every_pixel(self):
        """On a smooth image a sample of its pixels says what all of them do."""
        image = sky(64, 96)
        field = torch.zeros(5, 5, 5, 3)
        field[2:, :, :, 1] = 0.1
        whole = guide(image, lambda c: look_up(field, c))
        some = image[1::3, 1::3]
        maps = LocalMaps(some, look_up(field, some), 3)
        maps.widen(96, 1.0)
        rows = maps.rows(image.permute(2, 0, 1), 0).permute(1, 2, 0)
        assert (image + rows - whole).abs().mean() < 2e-3


class TestNatural:
    def test_the_field_that_costs_least_is_taken(self):
        base = torch.zeros(SIDE, SIDE, SIDE, 3)

        class Priced:
            """Costs by how far the first displacement is from one that is wanted, up to a limit."""

            def __init__(self, wanted, limit=math.inf):
                self.wanted, self.limit = wanted, limit

            def cost(self, field):
                move = float(field.max())
                return math.inf if move > self.limit else abs(move - self.wanted)

        tried = []

        def fit(smoothness, start):
            tried.append(smoothness)
            return torch.full_like(base, 1 / smoothness)

        found = follow_target(base, fit, Priced(2.0))
        assert (found.smoothness, float(found.field.max()), found.cost) == (1.0, 1.0, 1.0)
        assert tried == [300.0, 100.0, 30.0, 10.0, 3.0, 1.0]
        tried.clear()
        assert follow_target(base, fit, Priced(0.0)).field is base
        assert tried == [300.0, 100.0, 30.0]  # each cost more than the one before
        # 1 / 10 is allowed and 1 / 3 is not; of the way between, 1 / 2 is refused, 1 / 4 and 3 / 8 are not.
        part = follow_target(base, fit, Priced(2.0, limit=0.2))
        assert float(part.field.max()) == pytest.approx(0.1 + 3 / 8 * (1 / 3 - 0.1))
        assert part.smoothness == pytest.approx(10 ** (5 / 8) * 3 ** (3 / 8))
        assert part.cost == pytest.approx(2.0 - float(part.field.max()))

    def test_a_better_field_is_taken_whole_or_in_part_or_not(self):
        base = torch.zeros(2, 2, 2, 3)

        class Priced:
            def cost(self, field):
                move = float(field.max())
                return math.inf if move > 0.6 else abs(move - 0.5)

        best = Chosen(base, 30.0, 0.5)
        assert better(best, base + 0.4, 30.0, Priced()).cost == pytest.approx(0.1)
        assert better(best, base - 0.4, 30.0, Priced()) is best
        part = better(best, base + 1, 30.0, Priced())
        assert (float(part.field.max()), part.cost, part.smoothness) == (
            0.5,
            0.0,
            pytest.approx(30.0),
        )

    def test_a_judge_prices_distance_and_steepness(self):
        image = sky(64, 96)
        copy = SmallCopy(image, torch.ones(64, 96, dtype=torch.bool))
        still = torch.zeros(SIDE, SIDE, SIDE, 3, dtype=torch.float64)
        away = still + 0.1
        judge = Judge([copy], still, image.reshape(-1, 3))
        steepness = SourceRegions(image).compare(image).steepness
        assert judge.cost(still) == pytest.approx(_PRICE * steepness, abs=1.0)
        # Every channel moves by 25.5 levels: W_2 is √3 times that, and a little less where it clips.
        more = judge.cost(away) - judge.cost(still)
        assert 0.9 * 25.5 * math.sqrt(3) < more < 1.1 * 25.5 * math.sqrt(3)
        step = still.clone()
        step[SIDE // 2 :, :, :, 0] = 0.3
        assert judge.cost(step) == math.inf  # a seam, where the linear map has none

    @pytest.mark.parametrize(("contrast", "refused"), [(1.4, False), (1.7, True)])
    def test_a_judge_refuses_halos(self, contrast, refused):
        """Beside a mast in a sky of streaks the gradient may be 1.5 times that of the source."""
        image = sky()
        image[::2] += 0.02
        image[:, 40:60] = 0.1
        copy = SmallCopy(image, torch.ones(96, 128, dtype=torch.bool))
        still = torch.zeros(SIDE, SIDE, SIDE, 3, dtype=torch.float64)
        judge = Judge([copy], still, image.reshape(-1, 3))
        judge._limits = [{"halos": judge._limits[0]["halos"]}]  # by them alone
        more = (contrast - 1) * (lattice() - 0.6)
        assert (judge.cost(more) == math.inf) == refused

    def test_a_judge_refuses_two_colors_in_one_face(self):
        """Skin of soft shadows becomes orange and blue; a wall with such shadows may."""
        shadows = torch.sin(torch.arange(160) * 2 * math.pi / 22).expand(120, 160)
        still = torch.zeros(SIDE, SIDE, SIDE, 3, dtype=torch.float64)
        level = torch.linspace(0, 1, SIDE, dtype=torch.float64)[:, None, None]  # of red
        split = still.clone()
        split[..., 0], split[..., 2] = 6 * (level - 0.7), -6 * (level - 0.7)
        for color, refused in (((0.7, 0.55, 0.47), True), ((0.7, 0.7, 0.7), False)):
            image = torch.tensor(color) + 0.05 * shadows.unsqueeze(-1)
            seen = torch.ones(120, 160, dtype=torch.bool)
            judge = Judge([SmallCopy(image, seen)], still, image.reshape(-1, 3))
            judge._limits = [{"blotches": judge._limits[0]["blotches"]}]  # by them alone
            assert (judge.cost(split) == math.inf) == refused

    def test_a_judge_refuses_a_sky_of_two_colors(self):
        """The left of a pale sky becomes orange; a shift of all of it may."""
        ramp = torch.linspace(-0.04, 0.04, 160).expand(120, 160)
        image = 0.7 + torch.stack([ramp] * 3, -1)
        still = torch.zeros(SIDE, SIDE, SIDE, 3, dtype=torch.float64)
        level = torch.linspace(0, 1, SIDE, dtype=torch.float64)[:, None, None]  # of red
        split, shifted = still.clone(), still.clone()
        split[..., 2], shifted[..., 2] = 12 * (level - 0.7), -0.4
        judge = Judge(
            [SmallCopy(image, torch.ones(120, 160, dtype=torch.bool))], still, image.reshape(-1, 3)
        )
        judge._limits = [{"unevenness": judge._limits[0]["unevenness"]}]  # by it alone
        assert judge.cost(split) == math.inf
        assert judge.cost(shifted) < math.inf

    def test_a_judge_refuses_what_becomes_a_black_patch(self):
        """Shadows with detail become one black; a shift of the whole image may."""
        ramp = torch.linspace(0.1, 0.6, 160).expand(120, 160)
        image = torch.stack([ramp] * 3, -1)
        nodes = lattice()
        still = torch.zeros_like(nodes)
        judge = Judge(
            [SmallCopy(image, torch.ones(120, 160, dtype=torch.bool))], still, image.reshape(-1, 3)
        )
        judge._limits = [{"crushed": judge._limits[0]["crushed"]}]  # by it alone
        patch = torch.where(nodes < 0.35, -nodes, 0)
        assert judge.cost(patch) == math.inf
        assert judge.cost(still + 0.2) < math.inf
        assert judge.cost(-0.9 * nodes) < math.inf
        # A target that is mostly black asks for it.
        for black, limited in ((40, True), (60, False)):
            target = torch.cat([torch.zeros(black, 3), torch.ones(100 - black, 3)])
            seen = torch.ones(120, 160, dtype=torch.bool)
            assert (
                "crushed" in Judge([SmallCopy(image, seen)], still, target)._limits[0]
            ) == limited

    def test_a_judge_keeps_the_order_of_lightness_once_it_is_told(self):
        image = sky(48, 48)
        nodes = lattice()
        still, negative = torch.zeros_like(nodes), 1 - 2 * nodes
        copy = SmallCopy(image, torch.ones(48, 48, dtype=torch.bool))
        judge = Judge([copy], negative, image.reshape(-1, 3))
        assert SourceRegions(image).compare(1 - image).reversals > 2.5
        assert judge.cost(negative) < math.inf
        judge.keep_order(still)
        assert judge.cost(negative) == math.inf
        assert judge.cost(still) < math.inf
        judge.keep_order(negative)  # what the first choice does may stay
        assert judge.cost(negative) < math.inf

    def test_a_judge_shows_pixels_as_they_will_be(self):
        image = sky(64, 96)
        seen = torch.zeros(64, 96, dtype=torch.bool)
        seen[:, :30] = True
        field = torch.full((SIDE, SIDE, SIDE, 3), 0.05, dtype=torch.float64)
        judge = Judge([SmallCopy(image, seen)], field, image.reshape(-1, 3))
        before, after = judge.shown(field, torch.tensor([0.0, 0.5, 0.9999]))
        assert torch.equal(before[0], image[0, 0].double())
        torch.testing.assert_close(after, before + 0.05, atol=1e-4, rtol=0)
        assert torch.equal(before[2], image[63, 29].double())

    @pytest.mark.slow
    @pytest.mark.parametrize(("source", "target"), [("chelsea", "coffee"), ("rocket", "astronaut")])
    def test_it_lies_between_the_other_looks(self, source, target):
        x, y = small(source, 2), small(target, 2)
        left = {
            look: palette_w2(transfer(x, y, look=look, generator=0), y, 1, repeats=3)
            for look in LOOKS
        }
        assert left["exact"] <= left["natural"] + 1
        assert left["natural"] < left["linear"]

    def test_what_local_maps_hold_back_is_asked_for_again(self, monkeypatch):
        """A field of stars, which is mostly grain, comes nearer by rounds that start from the pixels as they are shown."""
        night, target = small("hubble_deep_field", 6), small("coffee", 6)
        left = []
        for rounds in (0, 5):
            monkeypatch.setattr(color_transfer, "_CORRECTIONS", rounds)
            moved = transfer(night, target, n_pixels=500, generator=0)
            left.append(palette_w2(moved, target, 1, n=500, repeats=2))
        assert left[1] < left[0] - 2

    def test_a_sky_keeps_its_smoothness(self):
        image = (sky(120, 160).numpy() * 255).round().astype(np.uint8)
        moved = transfer(image, small("astronaut"), n_pixels=500, generator=0)
        regions = SourceRegions(torch.from_numpy(image / 255.0).float())
        found = regions.compare(torch.from_numpy(moved / 255.0).float())
        assert found.seams < 1
        assert palette_w2(moved, small("astronaut"), 1) < palette_w2(image, small("astronaut"), 1)


def test_lightness_can_be_kept():
    cat, cup = small("chelsea"), small("coffee")
    fitted = ColorTransfer(look="linear").fit(cat, cup)
    before = rgb2lab(cat)[..., 0]
    kept, changed = (
        rgb2lab(fitted.transform(cat, keep_luminance=k))[..., 0] for k in (True, False)
    )
    assert np.abs(kept - before).mean() < 1
    assert np.abs(changed - before).mean() > 5


class TestCube:
    @pytest.mark.parametrize("size", [33, 65])
    def test_a_table_comes_back(self, tmp_path, size):
        cat = small("chelsea")
        fitted = ColorTransfer(look="linear").fit(cat, small("coffee"))
        fitted.save(tmp_path / "look.cube", size=size)
        again = ColorTransfer.load(tmp_path / "look.cube")
        moved, wanted = (one.transform(cat).astype(int) for one in (again, fitted))
        assert np.abs(moved - wanted).max() <= 1
        with pytest.raises(ValueError, match="holds the whole map"):
            fitted.save(tmp_path / "look.npz", strength=0.5)

    def test_half_of_the_way_is_half_of_the_way(self, tmp_path):
        fitted = ColorTransfer(look="linear").fit(small("chelsea"), small("coffee"))
        fitted.save(tmp_path / "half.cube", strength=0.5)
        half = ColorTransfer.load(tmp_path / "half.cube").field_
        torch.testing.assert_close(half, fitted.field_ / 2, atol=1e-5, rtol=0)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("LUT_1D_SIZE 2\n0 0 0\n1 1 1\n", "three dimensions"),
            ("LUT_3D_SIZE 2\n0 0 0\n", "1 colors for a LUT_3D_SIZE of 2"),
            ("DOMAIN_MAX 2 2 2\nLUT_3D_SIZE 2\n", "DOMAIN_MAX"),
            ("LUT_3D_SIZE many\n", "holds no map"),
        ],
    )
    def test_what_is_no_table(self, tmp_path, text, said):
        (tmp_path / "a.cube").write_text(text)
        with pytest.raises(ValueError, match=said):
            ColorTransfer.load(tmp_path / "a.cube")


class TestRegions:
    def test_soft_edges_blend(self):
        source = np.full((20, 40, 3), 0.5)
        target = np.zeros((2, 2, 3))
        target[:, 0], target[:, 1] = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
        left = np.linspace(1, 0, 40)[None].repeat(20, 0)
        masks = [(left, target[:, :, 0]), (1 - left, target[:, :, 2])]
        moved = RegionTransfer(look="linear").fit(source, target, masks).transform(source)
        np.testing.assert_allclose(moved[10, 20], (1 - 20 / 39, 0, 20 / 39), atol=0.02)
        with pytest.raises(ValueError, match="regions is empty"):
            RegionTransfer().fit(source, target, [])
        with pytest.raises(ValueError, match="nothing is fitted"):
            RegionTransfer().transform(source)

    def test_feathering(self):
        mask = np.zeros((30, 30), np.uint8)
        mask[:, 15:] = 255
        soft = feather(mask, 6)
        assert soft[:, :3].max() == 0
        assert soft[:, -3:].min() == pytest.approx(1, abs=1e-6)
        assert 0.1 < soft[3, 12] < 0.4
        assert soft[3, 14] + soft[3, 15] == pytest.approx(1, abs=1e-5)
        assert (np.diff(soft, axis=1) >= -1e-6).all()
        assert np.array_equal(feather(mask, 0), mask / np.float32(255))
        with pytest.raises(ValueError, match="radius = -1"):
            feather(mask, -1)


def test_match_colors_is_transfer():
    cat, cup = small("chelsea", 5), small("coffee", 5)
    wanted = transfer(cat, cup, look="linear", generator=0)
    assert np.array_equal(match_colors(cat, cup, look="linear"), wanted)
    turned = match_colors(np.moveaxis(cat, -1, 0), np.moveaxis(cup, -1, 0), look="linear", channel_axis=0)  # fmt: skip
    assert np.array_equal(turned, np.moveaxis(wanted, -1, 0))


class TestNode:
    """ComfyUI calls a node by what it says of itself."""

    def test_its_interface(self):
        (name,) = NODE_CLASS_MAPPINGS
        node = NODE_CLASS_MAPPINGS[name]
        told = node.INPUT_TYPES()
        assert node.RETURN_TYPES == ("IMAGE",)
        assert told["required"]["look"][0] == list(LOOKS)
        given = {
            "image": torch.rand(2, 12, 16, 3),
            "reference": torch.rand(1, 9, 9, 3),
            "look": "linear",
            **{name: told["required"][name][1]["default"] for name in ("strength", "keep_luminance", "seed")},
        }  # fmt: skip
        assert set(given) == set(told["required"])
        (moved,) = getattr(node(), node.FUNCTION)(**given)
        assert moved.shape == given["image"].shape
        assert moved.dtype == torch.float32

    def test_a_mask_and_values_slightly_outside(self):
        image = torch.rand(1, 12, 16, 3, generator=torch.Generator().manual_seed(0)) * 1.002 - 0.001
        mask = torch.zeros(1, 12, 16)
        mask[:, :, 8:] = 1
        (moved,) = SlicewiseMatchColors().match(
            image, torch.rand(1, 5, 5, 3), "linear", 1.0, False, 0, mask=mask
        )
        assert torch.equal(moved[:, :, :8], image.clamp(0, 1)[:, :, :8])
        assert not torch.equal(moved[:, :, 8:], image.clamp(0, 1)[:, :, 8:])
