"""What several variants are composed of: climbs, chains, energies, from the options a user gives."""

from __future__ import annotations

from slicewise.parts import (
    Ascend,
    Best,
    Energy,
    EnergyKind,
    InTurn,
    Principal,
    Refine,
    Repeat,
    Then,
    Together,
    Uniform,
)
from slicewise.problem import Move, Schedule, Slicer
from slicewise.support import check_choice, check_count, check_number

Kappa = float | Schedule


def climb_from(n_steps: int, ascent_step: float | None, restarts: int, search: int) -> Slicer:
    """One slice by T − 1 ascent steps from some starts, drawn; or found by a search, and refined in the end."""
    check_count("n_steps", n_steps)
    check_count("restarts", restarts)
    check_count("search", search, at_least=0)
    climb: Move = Repeat(Ascend(ascent_step), n_steps - 1)
    if search:
        scouts = Then(Together(Uniform(search), Principal()), Best(restarts))
        return Then(scouts, InTurn(InTurn(climb, Best()), Refine(n_steps)))
    return Then(Uniform(restarts), InTurn(climb, Best()) if restarts > 1 else climb)


def chains_for(n_slices: int | None, n_steps: int, burn_in: int, thin: int) -> int:
    """How many chains give n_slices kept slices; None is as near to 50 as whole chains come."""
    check_count("n_steps", n_steps)
    check_count("burn_in", burn_in, at_least=0)
    check_count("thin", thin)
    kept = len(range(burn_in, n_steps, thin))
    if kept == 0:
        raise ValueError(f"burn_in = {burn_in} leaves nothing of n_steps = {n_steps}: lower it")
    if n_slices is None:
        return max(1, round(50 / kept))
    if n_slices % kept:
        below, above = n_slices // kept * kept, (n_slices // kept + 1) * kept
        near = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"n_slices = {n_slices} is no whole number of chains: each keeps {kept} slices "
            f"(n_steps = {n_steps}, burn_in = {burn_in}, thin = {thin}); use n_slices = {near}"
        )
    return n_slices // kept


def energy_of(energy: EnergyKind, temperature: float, hold_weights: bool | None) -> Energy:
    """The energy of a slice's cost; None differentiates the weights."""
    check_choice("energy", energy, ("exp", "identity", "poly"))
    check_number("temperature", temperature, above=0)
    return Energy(energy, temperature, bool(hold_weights))


def check_learning(
    n_steps: int, penalty: float, inner_lr: float, betas: tuple[float, float]
) -> None:
    """The options of a part that learns by Adam."""
    check_count("n_steps", n_steps, at_least=0)
    check_number("penalty", penalty, above=0, or_equal=True)
    check_number("inner_lr", inner_lr, above=0)
    pair = isinstance(betas, (tuple, list)) and len(betas) == 2
    if not pair or not all(isinstance(b, (int, float)) and 0 <= b < 1 for b in betas):
        raise ValueError(f"betas = {betas!r}: give two numbers in [0, 1), e.g. (0.5, 0.999)")
