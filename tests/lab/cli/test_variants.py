"""`slicewise variants`, and the options of variants as words."""

from __future__ import annotations

import json
import re

import pytest

import slicewise as sw
from slicewise.lab.cli.common.options import recipe_of
from slicewise.variants.presets import PRESETS
from tests.command_line import accepted, refused


@pytest.mark.parametrize("name", sw.VARIANTS)
def test_a_cost_speaks_of_what_the_variant_has(name):
    variant = sw.VARIANTS[name]
    letters = set(re.findall(r"\b[A-Z]\b", variant.cost))
    owned = {"L": "n_slices", "T": "n_steps", "R": "restarts"}
    known = {letter for letter, option in owned.items() if option in variant.options}
    assert letters <= known | (set() if "linear" in variant.properties else {"D"})
    assert ("log n" in variant.cost) == ("n_slices" in variant.options)  # who slices, sorts


def test_all_of_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = accepted(capsys, "variants")
    assert max(map(len, out.splitlines())) <= 80
    for name, variant in sw.VARIANTS.items():
        assert f"\n{name} " in f"\n{out}"
        for option in variant.options:
            assert f"{option}=" in out


def test_as_json(capsys):
    found = json.loads(accepted(capsys, "variants", "--json"))["variants"]
    assert [facts["name"] for facts in found] == list(sw.VARIANTS)
    for facts in found:
        variant = sw.VARIANTS[facts["name"]]
        assert facts["summary"] == variant.summary
        assert facts["metric"] == ("metric" in variant.properties)
        assert facts["recipe"] == repr(variant())
        assert list(facts["options"]) == list(variant.options)
        assert facts["cost"].startswith("O(")


def test_one_in_detail(capsys):
    out = accepted(capsys, "variants", "rpsw")
    for words in (
        "Use it if slices should point",  # beyond the first line of its documentation
        "no: the triangle inequality may fail",
        "O(L n (log n + d))",
        "kappa=50.0",
        "defaults=flow_script: n_slices=10, kappa=Anneal(100.0)",
        repr(sw.VARIANTS["rpsw"]()),
    ):
        assert words in out
    found = json.loads(accepted(capsys, "variants", "dsw", "--json"))
    assert found["options"]["betas"] == [0.5, 0.999]
    assert found["presets"]["paper"]["penalty"] == 1.0


def test_an_unknown_one_is_told_its_neighbors(capsys):
    assert "did you mean 'ebsw'" in refused(capsys, "variants", "ebws")
    refused(capsys, "variants", "sw", "more")


@pytest.mark.parametrize("name", sw.VARIANTS)
def test_every_default_can_be_given_as_a_word(name):
    variant = sw.VARIANTS[name]
    words = [f"{option}={value}" for option, value in variant.options.items()]
    recipe, n_slices, options = recipe_of(name, None, words)
    assert repr(recipe) == repr(variant())
    told = {"n_slices": n_slices} if "n_slices" in variant.options else {}
    assert told | options == dict(variant.options)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_by_name(preset):
    recipe, _, _ = recipe_of("vdsw", None, [f"defaults={preset}"])
    assert recipe == sw.VARIANTS["vdsw"](defaults=preset)
