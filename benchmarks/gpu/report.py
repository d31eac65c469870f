"""The targets of a record, met or missed, and its summary in Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.losses import loss_targets

Record = dict[str, Any]

# Seconds for 10,000 steps of each method as the paper's gradient-flow table gives them (runtime, its best
# rate, an A6000): another GPU, so ratios are of time to result, not like for like.
PAPER_SECONDS = {
    "sw": 8.62,
    "maxsw": 74.02,
    "dsw": 162.25,
    "maxksw": 125.23,
    "imsw": 74.45,
    "vimsw": 255.76,
    "omsw": 16.55,
    "rmsw": 179.7,
    "ebsw": 9.66,
    "rpsw": 19.47,
    "ebrpsw": 20.3,
}
VARIANT_TARGET = 20.0
# What a flow may take: seconds for 10,000 steps, or microseconds for one.
FLOW_TARGETS = {
    **dict.fromkeys(("A2", "A50", "A100"), (0.2, "s / 10,000 steps")),
    **{
        name + seeds: (1.5, "s / 10,000 steps")
        for name in ("B2", "B50", "B100")
        for seeds in ("", ", 108 seeds")
    },
    "C784": (20.0, "µs / step"),
    "C12288": (40.0, "µs / step"),
    "D": (30.0, "µs / step"),
}
_SCALES = {"s / 10,000 steps": 1e4, "µs / step": 1e6}
# Workload, who, against whom, at least how many times faster.
STEP_TARGETS = (
    ("E1000", "slicewise", "POT", 10.0),
    ("E1000", "slicewise", "torch sort", 4.0),
    ("F1e5", "slicewise", "POT", 50.0),
    ("F1e5", "slicewise", "torch sort", 1.7),
    ("F1e6", "slicewise", "POT", 50.0),
    ("F1e6", "slicewise", "torch sort", 1.7),
    *((name, "slicewise, autograd", "POT", 3.0) for name in ("A2", "A50", "A100", "D")),
)
FLOOR_TARGETS = {"E1000": 1.6}
ACCURACY_TARGET = 100.0
# What counts as exact: a float32 result cannot be known better, and zero cannot be divided by.
SMALLEST_ERROR = 1e-9


def verdicts(record: Record) -> list[dict[str, Any]]:
    """Return each target with the number reached and whether it is met; None if it was not measured."""
    flows, steps, variants, accuracy = (
        record.get(section, {}) for section in ("flows", "steps", "variants", "accuracy")
    )
    rows = []
    for name, (limit, unit) in FLOW_TARGETS.items():
        per_step = flows.get(name, {}).get("seconds_per_step")
        reached = None if per_step is None else per_step * _SCALES[unit]
        rows.append(_at_most(f"flow {name}", limit, reached, f" {unit}"))
    for name, who, against, least in STEP_TARGETS:
        ours, theirs = (steps.get(name, {}).get(peer, {}).get("seconds") for peer in (who, against))
        rows.append(_at_least(f"step {name}: {who} against {against}", least, _ratio(theirs, ours)))
    for name, most in FLOOR_TARGETS.items():
        over = steps.get(name, {}).get("slicewise", {}).get("over_floor")
        rows.append(_at_most(f"step {name}: slicewise over its float32 floor", most, over, "×"))
    losses, variant_losses = (record.get(name, {}) for name in ("losses", "variant_losses"))
    for what, limit, reached, at_most in loss_targets(losses, variant_losses):
        rows.append(
            _at_most(what, limit, reached, "×") if at_most else _at_least(what, limit, reached)
        )
    for what in ("value", "gradient"):
        ours, theirs = (
            accuracy.get("F1e6", {}).get(peer, {}).get(what) for peer in ("slicewise", "POT")
        )
        ours = None if ours is None else max(ours, SMALLEST_ERROR)
        label = f"F1e6: error of POT's {what} over that of ours"
        rows.append(_at_least(label, ACCURACY_TARGET, _ratio(theirs, ours)))
    for name in PAPER_SECONDS:
        ratio = variants.get(name, {}).get("paper_over_ours")
        rows.append(_at_least(f"{name} against the paper's runtime", VARIANT_TARGET, ratio))
    return rows


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below


def _at_most(what: str, limit: float, reached: float | None, unit: str) -> dict[str, Any]:
    met = None if reached is None else reached <= limit
    return {"what": what, "target": f"≤ {limit:g}{unit}", "reached": reached, "met": met}


def _at_least(what: str, limit: float, reached: float | None) -> dict[str, Any]:
    met = None if reached is None else reached >= limit
    return {"what": what, "target": f"≥ {limit:g}×", "reached": reached, "met": met}


def summary(record: Record) -> str:
    """Return the record as Markdown: the machine, targets, all numbers and errors."""
    parts = [_machine(record), _targets(record), _losses(record), _variant_losses(record),
             _ceilings(record), _flows(record), _steps(record),
             _variants(record), _accuracy(record), _errors(record)]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _machine(record: Record) -> str:
    gpu = record["gpu"]
    made = " (quick: few repeats, short flows)" if record["quick"] else ""
    lines = [
        f"# On a GPU, {record['date']}{made}",
        f"{gpu['name']}, driver {gpu['driver']}, CUDA {gpu['cuda']}, torch {record['versions']['torch']}, "
        f"slicewise {record['versions']['slicewise']}, Python {record['python']}. float32 without TF32, p = 2, "
        "fresh slices in every step, the gradient in x; everyone is checked against float64 before being timed.",
    ]
    lines += [f"{name}: {note}." for name, note in record["peers"].items()]
    return "\n\n".join(lines)


def _table(head: str, rows: list[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|" + "---|" * columns, *rows]) if rows else ""


def _number(row: dict[str, Any], name: str, scale: float = 1.0) -> str:
    """Return a number as text; a dash if it was not measured."""
    return f"{row[name] * scale:.1f}" if name in row else ""


def _targets(record: Record) -> str:
    marks = {True: "met", False: "**missed**", None: "not measured"}
    rows = [
        f"| {t['what']} | {t['target']} | {'' if t['reached'] is None else format(t['reached'], '.3g')} "
        f"| {marks[t['met']]} |"
        for t in record["targets"]
    ]
    return _table("| target | asked | reached | |", rows)


def _ceilings(record: Record) -> str:
    c = record.get("ceilings")
    if not c:
        return ""
    return (
        f"Ceilings: copy {c['bytes_per_second'] / 1e12:.2f} TB/s, float32 product {c['flops'] / 1e12:.1f} TFLOP/s, "
        f"dependent graph node {c['node_seconds'] * 1e6:.2f} µs; {c['processors']} multiprocessors. Floors are made "
        "of these: bytes, arithmetic, sorting networks or radix passes, and launches. Those of B are for runs "
        "that each have slices of their own."
    )


def _losses(record: Record) -> str:
    who = ("value_and_grad", "classic", "displacement", "torch sort", "jax jit", "engine alone")
    rows = [
        f"| {label} | " + " | ".join(f"{found[w]:.0f}" if w in found else "" for w in who) + " |"
        for label, found in record.get("losses", {}).items()
    ]
    head = "| loss: n, m, d, L, µs | `value_and_grad` | loss, `backward()` | displacement, `backward()` "
    return _table(head + "| sort by hand | jax jit | `x.sum().backward()` |", rows)


def _variant_losses(record: Record) -> str:
    rows = [
        f"| {name} | {v['value_and_grad']:.0f} | {v['loss']:.0f} | {v['loss'] / v['value_and_grad']:.2f} |"
        for name, v in record.get("variant_losses", {}).items()
    ]
    head = "| variant, n = 300, d = 50, µs | `value_and_grad` | loss, `backward()` | ratio |"
    return _table(head, rows)


def _flows(record: Record) -> str:
    rows = []
    for name, f in record.get("flows", {}).items():
        rows.append(
            f"| {name} | {f['steps']} | {f['seconds']:.3f} | {f['seconds_per_step'] * 1e6:.1f} "
            f"| {_number(f, 'floor_seconds', 1e6)} | {_number(f, 'over_floor')} "
            f"| {f['errors']['move']:.1g} |"
        )
    return _table("| flow | steps | s | µs a step | floor, µs | over floor | error |", rows)


def _steps(record: Record) -> str:
    rows = []
    for name, found in record.get("steps", {}).items():
        ours = found.get("slicewise", {}).get("seconds")
        for who, s in found.items():
            ratio = f"{s['seconds'] / ours:.1f}×" if ours else ""
            alone = _number(s, "device_seconds", 1e6)
            rows.append(
                f"| {name} | {who} | {s['seconds'] * 1e6:.0f} | {alone} | {ratio} "
                f"| {_number(s, 'over_floor')} | {s['errors'][0]:.1g} / {s['errors'][1]:.1g} |"
            )
    head = "| step | who | µs | device alone, µs | over ours | over floor | error of value / gradient |"
    return _table(head, rows)


def _variants(record: Record) -> str:
    rows = []
    for name, v in record.get("variants", {}).items():
        part = "" if v["timed_steps"] == v["steps"] else f" (from {v['timed_steps']} steps)"
        rows.append(
            f"| {name} | {v['seconds_per_step'] * 1e4:.3f}{part} | {v['paper_seconds']} "
            f"| {v['paper_over_ours']:.1f}× | {v['errors']['move']:.1g} / {v['errors']['fall']:.1g} |"
        )
    head = "| variant, A50 | s / 10,000 steps | paper (A6000), s | ratio | error of moves / of the fall |"
    return _table(head, rows)


def _accuracy(record: Record) -> str:
    rows = [
        f"| {name} | {who} | {e['value']:.1e} | {e['gradient']:.1e} |"
        for name, found in record.get("accuracy", {}).items()
        for who, e in found.items()
    ]
    return _table("| accuracy | who | error of the value | of the gradient |", rows)


def _errors(record: Record) -> str:
    lines = [f"- {e['piece']}: {e['error']}" for e in record["errors"]]
    return "\n".join(["Went wrong:", "", *lines]) if lines else ""
