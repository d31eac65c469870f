"""Every number of the write-up, computed from the records and from the numbers that the paper prints."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.study.records import Line, Records
from slicewise.lab.coverage import counts, coverage, coverage_table
from slicewise.lab.experiments import CHECKS, ELEVEN, Measured, task_from
from slicewise.lab.names import COLOR, GENERATE, GRADIENT_FLOW, IMAGE_FLOW, TRANSLATE
from slicewise.lab.published import Published, published

TOYS = tuple(f"{name} d={d}" for name in ("swiss", "8gaussians", "knot") for d in (2, 50, 100))
SETS = ("set1", "set2", "set3")
TASKS = ("male to female", "adult to child")
UNREDUCED = ", all dimensions"
# A distance below this is rounding of samples of size 1.
CONVERGED = 1e-12
VARIANCE = 0.8  # of the data's: less is a shrunken distribution


def short(value: float, digits: int = 2) -> str:
    """Return a number as the page prints it: 2.3e-8, 0.044, 12."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if value and abs(value) < 1e-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.{digits}g}" if abs(value) < 100 else f"{value:,.0f}"


def span(values: Iterable[float], digits: int = 2) -> str:
    """Return the least and the largest of some numbers in words."""
    found = list(values)
    least, most = short(min(found), digits), short(max(found), digits)
    return least if least == most else f"{least} to {most}"


def rank(value: float, others: Iterable[float]) -> int:
    """Return the place of a number among others, the least first."""
    return 1 + sum(other < value for other in others)


def table(header: list[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@dataclass(frozen=True)
class Facts:
    """What the page says, by name; methods without arguments are read as attributes by the template."""

    records: Records = field(default_factory=Records)

    # ---- the count of numbers

    @functools.cached_property
    def _covered(self) -> list[Any]:
        return coverage(self.records.folder)

    @functools.cached_property
    def count(self) -> dict[str, int]:
        """How many numbers have a counterpart, by status; `all` of them."""
        found = {str(status): number for status, number in counts(self._covered).items()}
        return {**found, "all": len(self._covered)}

    @property
    def coverage_table(self) -> str:
        header = ["table of the paper", "numbers", "at its settings", "reduced", "none", "seeds", "what is reduced"]  # fmt: skip
        return table(
            header, ([cell or "–" for cell in row] for row in coverage_table(self._covered))
        )

    # ---- toys

    def _toy_best(self, setting: str, variant: str, objective: str) -> Line:
        found = self.records.best(GRADIENT_FLOW, setting, variant, objective)
        assert found is not None
        return found

    @functools.cached_property
    def toy_ranks(self) -> dict[str, tuple[int, int]]:
        """The place of `sw` among eleven by its best rate on the root: ours and the paper's."""
        found = {}
        for setting in TOYS:
            ours = {v: float(self._toy_best(setting, v, "root")["w2_mean"]) for v in ELEVEN}
            theirs = {o.variant: o.mean for o in self._printed("gradient_flow_best", setting)}
            found[setting] = rank(ours["sw"], ours.values()), rank(theirs["sw"], theirs.values())
        return found

    @property
    def toy_rank_words(self) -> tuple[str, str]:
        """Places for swiss, 8 gaussians, knot in d = 2, 50, 100: ours, then the paper's."""
        places = list(self.toy_ranks.values())
        groups = [places[i : i + 3] for i in (0, 3, 6)]
        ours, theirs = (
            " / ".join(", ".join(str(one[i]) for one in g) for g in groups) for i in (0, 1)
        )
        return ours, theirs

    @functools.cached_property
    def squared(self) -> dict[str, Any]:
        """Of the best rates on the square: how many converge, and which do not."""
        ends = {
            (s, v): float(self._toy_best(s, v, "power")["w2_mean"]) for s in TOYS for v in ELEVEN
        }
        left = [(s, v) for (s, v), end in ends.items() if end >= CONVERGED]
        by_variant = {v: sum(name == v for _, name in left) for v in ELEVEN}
        return {
            "converged": len(ends) - len(left),
            "all": len(ends),
            "others": {v: n for v, n in by_variant.items() if n},
        }

    @functools.cached_property
    def rooted(self) -> dict[str, Any]:
        """Of the best rates on the root: the range of distances, and how many agree with the paper within a factor of 2."""
        pairs = [
            (float(self._toy_best(o.setting, o.variant, "root")["w2_mean"]), o.mean)
            for o in published()
            if (o.table, o.metric) == ("gradient_flow_best", "W2")
        ]
        ours = [mine for mine, _ in pairs]
        half = 5e-5  # of the last printed digit
        agree = sum((t - half) / 2 <= mine <= (t + half) * 2 for mine, t in pairs)
        return {"agree": agree, "all": len(pairs), "span": span(ours)}

    @functools.cached_property
    def computed(self) -> dict[str, Any]:
        """Flows with computed steps in the data's own two dimensions."""
        lines = {(s, v): self.records.computed(s, v) for s in TOYS for v in ELEVEN}
        steps = {v: [lines[s, v] for s in TOYS] for v in ELEVEN}
        others = [line for (_, v), line in lines.items() if v != "sw"]
        return {
            "runs": sum(int(line["seeds"]) for line in lines.values()),
            "worst": short(max(float(line["w2_most"]) for line in lines.values())),
            "sw": _steps(steps["sw"]),
            "others": _steps(others),
        }

    @functools.cached_property
    def unreduced(self) -> dict[str, Any] | None:
        """Flows with computed steps in all 50 and 100 dimensions; None if they were not run."""
        settings = [s + UNREDUCED for s in TOYS if not s.endswith("d=2")]
        found = {
            (s, v): line
            for s in settings
            for v in ELEVEN
            for line in self.records.lines(GRADIENT_FLOW, s, v, "power")
            if not line["lr"]
        }
        if not found:
            return None
        rows = []
        for v in ELEVEN:
            mine = [found.get((s, v)) for s in settings]
            rows.append([v, *(_arrived(line) for line in mine)])
        whole = sum(int(line["seeds"]) for line in found.values())
        arrived = sum(
            int(line["seeds"]) for line in found.values() if float(line["w2_most"]) < 1e-6
        )
        heads = [s.removesuffix(UNREDUCED) for s in settings]
        sw_lines = [found[s, "sw"] for s in settings if (s, "sw") in found]
        return {
            "runs": whole,
            "arrived": arrived,
            "seeds": span(float(line["seeds"]) for line in found.values()),
            "sw": _steps(sw_lines),
            "table": table(["steps in all dimensions", *heads], rows),
        }

    @functools.cached_property
    def noise(self) -> dict[str, Any]:
        """What an evaluation in single precision makes of samples 1e-7 apart, and how many printed distances are above that."""
        seen = {
            f"{row['given']['toy']} d={row['given']['d']}": row["measures"]["measured"]
            for row in self.records.theory["evaluation"]
        }
        printed = [o for o in published() if (o.table, o.metric) == ("gradient_flow_best", "W2")]
        large = [o.variant for o in printed if o.mean > 3 * seen[o.setting]]
        return {
            "span": span(seen.values()),
            "within": sum(o.mean <= seen[o.setting] for o in printed),
            "twice": sum(o.mean <= 2 * seen[o.setting] for o in printed),
            "large": len(large),
            "last": sum(name in ("maxsw", "maxksw", "imsw") for name in large),
            "below": sum(o.mean + 5e-5 < seen[o.setting] for o in printed),
        }

    @property
    def apart(self) -> str:
        """How far apart the rates are that bring all three targets in d = 50 below 0.01, on the square."""
        good = {v: self._good(v, 50) for v in ("sw", "maxsw")}
        words = [f"`{v}` {short(min(some))}–{short(max(some))}" for v, some in good.items()]
        return ", ".join(words)

    def _good(self, variant: str, d: int) -> list[float]:
        by_rate: dict[float, list[float]] = {}
        for name in ("swiss", "8gaussians", "knot"):
            for line in self.records.searched(GRADIENT_FLOW, f"{name} d={d}", variant, "power"):
                by_rate.setdefault(float(line["lr"]), []).append(float(line["w2_mean"]))
        return [rate for rate, ends in by_rate.items() if max(ends) < 0.01]

    @property
    def shared_rates(self) -> dict[int, list[float]]:
        """Rates of the square that bring all three targets below 0.01 for all eleven variants, by d."""
        found = {}
        for d in (2, 50, 100):
            some = [set(self._good(v, d)) for v in ELEVEN]
            found[d] = sorted(set.intersection(*some))
        return found

    @property
    def edge_share(self) -> str:
        """The paper's rate k/(2p_i) over the stability limit n L d/(L + d − 1), in its toys: k = 2, L = 50."""
        return span((2 / 2) / (50 * d / (50 + d - 1)) for d in (2, 50, 100))

    @property
    def swiss_steps(self) -> str:
        """Steps of `sw` where the picture of rates has them."""
        return _steps([self.records.computed("swiss d=50", "sw")])

    @property
    def variance(self) -> float:
        return VARIANCE

    # ---- times

    def speedups(
        self, table_name: str, setting: str, experiment: str, mine: str, steps: int
    ) -> str:
        """The paper's seconds over ours, the least and the most of eleven."""
        found = []
        for one in published():
            if (one.table, one.setting, one.metric) == (table_name, setting, "runtime_s"):
                line = self.records.timed(experiment, mine, one.variant)
                found.append(one.mean / (float(line["seconds"]) * steps / int(line["limit"])))
        return span(found)

    @property
    def toy_speedups(self) -> str:
        return self.speedups("gradient_flow_best", "all", GRADIENT_FLOW, "swiss d=50", 10_000)

    @functools.cached_property
    def network_times(self) -> dict[str, Any]:
        """Seconds of 10,000 steps of networks by task and variant, and the order."""
        places = {"generation": GENERATE, "male to female": TRANSLATE, "adult to child": TRANSLATE}
        seconds = {
            task: {v: self._network_seconds(experiment, task, v) for v in ELEVEN}
            for task, experiment in places.items()
        }
        first = {task: sorted(found, key=found.__getitem__)[:3] for task, found in seconds.items()}
        rows = [
            [v, *(_beside(seconds[task][v], self._paper_seconds(task, v)) for task in places)]
            for v in ELEVEN
        ]
        return {
            "first": first,
            "seconds": seconds,
            "table": table(["seconds, ours / the paper's", *places], rows),
        }

    def _network_seconds(self, experiment: str, task: str, variant: str) -> float:
        line = self.records.timed(experiment, task, variant)
        return float(line["seconds"]) * 10_000 / int(line["limit"])

    def _paper_seconds(self, task: str, variant: str) -> float:
        name = "unconditional" if task == "generation" else task.replace(" ", "_")
        (one,) = (
            o for o in self._printed("generative_best", name, "runtime_s") if o.variant == variant
        )
        return one.mean

    @property
    def toy_times(self) -> str:
        """A table of seconds of 10,000 steps on toys, means of three runs."""
        rows = []
        for v in ELEVEN:
            line = self.records.timed(GRADIENT_FLOW, "swiss d=50", v)
            (theirs,) = (
                o for o in self._printed("gradient_flow_best", "all", "runtime_s") if o.variant == v
            )
            mine = float(line["seconds"])
            rows.append(
                [
                    v,
                    f"{mine:.2f}",
                    line["seeds"],
                    f"{theirs.mean:.2f}",
                    f"{theirs.mean / mine:.0f}×",
                ]
            )
        return table(["", "ours, s", "runs", "the paper, s", "ratio"], rows)

    # ---- colors

    @functools.cached_property
    def color_best(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Distance left and published rate of the best of 25 rates, by set and variant."""
        found = {}
        for s in SETS:
            for v in ELEVEN:
                ends = {rate: float(x["w2_mean"]) for rate, x in self.records.colors(s, v).items()}
                if len(ends) == 25:
                    rate = min(ends, key=ends.__getitem__)
                    found[s, v] = ends[rate], rate
        return found

    @property
    def color_table(self) -> str:
        rows = []
        for v in ELEVEN:
            row = [v]
            for s in SETS:
                (theirs,) = (o for o in self._printed("color_transfer_best", s) if o.variant == v)
                ours = self.color_best.get((s, v))
                mine = (
                    self._short_colors(s, v) if ours is None else f"{short(ours[0])} at {ours[1]:g}"
                )
                row.append(f"{mine} / {theirs.mean:.2f} at {theirs.lr:g}")
            rows.append(row)
        return table(["W₂ left, ours / the paper's", *SETS], rows)

    def _short_colors(self, setting: str, variant: str) -> str:
        """The best after 5,000 steps, where 50,000 were not made; a dash if there is none."""
        ends = {
            r: float(x["w2_mean"])
            for r, x in self.records.colors(setting, variant, steps=5000).items()
        }
        if len(ends) < 25:
            return "–"
        rate = min(ends, key=ends.__getitem__)
        return f"{short(ends[rate])} at {rate:g} (5,000 steps)"

    @property
    def color_near(self) -> str:
        """In how many columns our best rate lies within a factor of 3.4 of the paper's, and of how many."""
        near = 0
        for (s, v), (_, rate) in self.color_best.items():
            (theirs,) = (o for o in self._printed("color_transfer_best", s) if o.variant == v)
            assert theirs.lr is not None
            near += 1 / 3.4 < rate / theirs.lr < 3.4
        return f"{near} of {len(self.color_best)}"

    @functools.cached_property
    def color_sw(self) -> dict[str, Any]:
        """`sw` on the square beside the best of the others on the root, and its place."""
        others = [end for (_, v), (end, _) in self.color_best.items() if v != "sw"]
        mine = [self.color_best[s, "sw"][0] for s in SETS]
        return {"most": short(max(mine)), "others": span(others)}

    @functools.cached_property
    def color_other(self) -> dict[str, Any] | None:
        """The other objective on the first pair: `sw` on the root, others on the square; None if it was not run."""
        found = {}
        for v in ELEVEN:
            other = "root" if v == "sw" else "power"
            ends = {
                r: float(x["w2_mean"]) for r, x in self.records.colors("set1", v, other).items()
            }
            if ends:
                rate = min(ends, key=ends.__getitem__)
                found[v] = ends[rate], rate
        if "sw" not in found:
            return None
        rooted = {
            v: end for (s, v), (end, _) in self.color_best.items() if s == "set1" and v != "sw"
        }
        squares = {v: end for v, (end, _) in found.items() if v != "sw"}
        return {
            "sw": short(found["sw"][0]),
            "rate": f"{found['sw'][1]:g}",
            "rank": rank(found["sw"][0], rooted.values()),
            "of": len(rooted) + 1,
            "squares": {v: short(end) for v, end in squares.items()},
        }

    @functools.cached_property
    def color_computed(self) -> dict[str, Any]:
        """Flows of palettes with computed steps: how many arrive, and the variants of which none does."""
        lines = [
            (v, line)
            for s in SETS
            for v in ELEVEN
            for line in self.records.lines(COLOR, s, v, "power")
            if not line["lr"]
        ]
        none = [
            v for v in ELEVEN if all(float(x["w2_least"]) > 1e-6 for name, x in lines if name == v)
        ]
        return {"runs": sum(int(line["seeds"]) for _, line in lines), "none": none}

    # ---- networks

    @functools.cached_property
    def generation(self) -> dict[str, Any]:
        """Generation by searched rates: the order by W_2 and by SW_2, and the variance of those that W_2 prefers."""
        best, fair = {}, {}
        for v in ELEVEN:
            lines = [
                x
                for x in self._searched(GENERATE, "generation", v)
                if x["w2_mean"] not in ("", "inf")
            ]
            best[v] = min(lines, key=lambda line: float(line["w2_mean"]))
            whole = [x for x in lines if float(x["variance_mean"]) >= VARIANCE]
            if whole:
                fair[v] = min(whole, key=lambda line: float(line["sw2_mean"]))
        by_w2 = sorted(best, key=lambda v: float(best[v]["w2_mean"]))
        by_sw2 = sorted(fair, key=lambda v: float(fair[v]["sw2_mean"]))
        (real,) = self.records.lines(GENERATE, "generation", "real", "untrained")
        theirs = {o.variant: o.mean for o in self._printed("generative_best", "unconditional")}
        rows = [
            [
                v,
                f"{theirs[v]:.2f}",
                rank(theirs[v], theirs.values()),
                f"{float(best[v]['w2_mean']):.2f} at {float(best[v]['lr']):g}",
                f"{float(best[v]['variance_mean']):.2f}",
                by_w2.index(v) + 1,
                by_sw2.index(v) + 1 if v in by_sw2 else "–",
            ]
            for v in sorted(ELEVEN, key=theirs.__getitem__)
        ]
        head = ["", "the paper: W₂", "place", "ours: best W₂", "variance there", "place by W₂", "place by SW₂"]  # fmt: skip
        return {
            "by_w2": by_w2,
            "by_sw2": by_sw2,
            "rates": len(self._searched(GENERATE, "generation", "sw")),
            "variances": [f"{float(best[v]['variance_mean']):.2f}" for v in by_w2[:4]],
            "least": [f"{float(best[v]['w2_mean']):.2f}" for v in by_w2[:4]],
            "real": f"{float(real['w2_mean']):.2f}",
            "paper_place": rank(theirs["sw"], theirs.values()),
            "table": table(head, rows),
        }

    def _searched(self, experiment: str, setting: str, variant: str) -> list[Line]:
        return self.records.searched(experiment, setting, variant, "root")

    @functools.cached_property
    def translation(self) -> dict[str, Any]:
        """Translations by searched rates: best W_2 beside the paper's, how many runs diverge, and how flat the rates are."""
        rows, flat = [], {}
        diverged = runs = 0
        for v in ELEVEN:
            row = [v]
            for task in TASKS:
                lines = self._searched(TRANSLATE, task, v)
                runs += sum(int(line["seeds"]) for line in lines)
                diverged += sum(int(line["diverged"]) for line in lines)
                best = min(lines, key=lambda line: float(line["w2_mean"] or "inf"))
                (theirs,) = (
                    o
                    for o in self._printed("generative_best", task.replace(" ", "_"))
                    if o.variant == v
                )
                row.append(
                    f"{float(best['w2_mean']):.2f} at {float(best['lr']):g} / {theirs.mean:.2f} at {theirs.lr:g}"
                )
                some = [float(x["w2_mean"]) for x in lines if 0.01 <= float(x["lr"]) <= 0.3]
                if v != "dsw":
                    flat[v, task] = max(some) / min(some) - 1
            rows.append(row)
        nans = sum(math.isnan(o.mean) for o in published() if o.table == "translation_full")
        halves = {v: self._half_rate(v) for v in ("maxsw", "imsw", "sw", "ebsw")}
        return {
            "halves": ", ".join(f"`{v}` {short(rate, 1)}" for v, rate in halves.items()),
            "table": table(["best W₂, ours / the paper's", *TASKS], rows),
            "rates": len(self._searched(TRANSLATE, TASKS[0], "sw")),
            "runs": runs,
            "diverged": diverged,
            "nans": nans,
            "printed": sum(o.table == "translation_full" for o in published()),
            "flat": f"{100 * max(flat.values()):.1f} %",
        }

    def _half_rate(self, variant: str) -> float:
        """The least rate that removes half of what the best one removes of the W_2 of male to female."""
        lines = self._searched(TRANSLATE, TASKS[0], variant)
        ends = {float(x["lr"]): float(x["w2_mean"]) for x in lines}
        (still,) = self.records.lines(TRANSLATE, TASKS[0], "not moved", "untrained")
        middle = (float(still["w2_mean"]) + min(ends.values())) / 2
        return min(rate for rate, end in ends.items() if end <= middle)

    @functools.cached_property
    def mean_root(self) -> dict[str, Any] | None:
        """`sw` on the mean of W_2 over slices beside the root; None if it was not run."""
        apart, rates = [], 0
        for task in TASKS:
            other = {x["lr"]: x for x in self.records.searched(TRANSLATE, task, "sw", "mean_root")}
            rates = len(other)
            for line in self._searched(TRANSLATE, task, "sw"):
                if line["lr"] in other:
                    apart.append(
                        abs(float(other[line["lr"]]["w2_mean"]) / float(line["w2_mean"]) - 1)
                    )
        return {"most": f"{100 * max(apart):.2f} %", "rates": rates} if apart else None

    # ---- images

    @functools.cached_property
    def digits(self) -> dict[str, Any] | None:
        """Digits by the paper's rates on the root, in all dimensions; None if they were not run."""
        best = {
            v: line
            for v in ELEVEN
            if (line := self.records.best(IMAGE_FLOW, "mnist", v, "root")) is not None
        }
        if not best:
            return None
        rows = [
            [v, short(float(x["w2_mean"])), f"{float(x['lr']):g}", x["seeds"]]
            for v, x in best.items()
        ]
        return {
            "table": table(["digits, root, 200,000 steps", "W₂ left", "at rate", "seeds"], rows),
            "variants": list(best),
            "span": span(float(x["w2_mean"]) for x in best.values()),
        }

    # ---- theory

    @functools.cached_property
    def checks(self) -> dict[str, str]:
        """What each check found, in a sentence for the cell of a table, by its name with underscores."""
        found = {}
        for name, check in CHECKS["theory"].items():
            wanted = {json.dumps(dict(task), sort_keys=True) for task in check.tasks("paper")}
            some = [
                Measured(task, row["measures"])
                for row in self.records.theory.get(name, [])
                if json.dumps(task := task_from(row["given"]), sort_keys=True) in wanted
            ]
            assert len(some) == len(wanted), (
                f"results/theory.csv has {len(some)} of {len(wanted)} runs of {name}"
            )
            # For cells of tables.
            found[name.replace("-", "_")] = check.verdict(some).replace("|", "\\|")
        return found

    # ---- sensitivity

    @property
    def sensitivity(self) -> str:
        """Steps with other published options of the variants, and distances on the root at rates that were run with both."""
        setting, other = "swiss d=50", "swiss d=50, flow_script"
        again = {
            v: [x["lr"] for x in self.records.searched(GRADIENT_FLOW, other, v, "root")]
            for v in ELEVEN
        }
        head = ["swiss, d = 50", "steps computed, `paper`", "`flow_script`", "`dg`"]
        if any(again.values()):
            head += ["best rate on the root, `paper`", "`flow_script`"]
        rows = []
        for v in ELEVEN:
            row = [v, *(self._toy_steps(place, v) for place in (setting, other, f"{setting}, dg"))]
            for place in (setting, other) if any(again.values()) else ():
                lines = self.records.searched(GRADIENT_FLOW, place, v, "root")
                some = [float(x["w2_mean"]) for x in lines if x["lr"] in again[v]]
                row.append(short(min(some)) if some else "–")
            rows.append(row)
        return table(head, rows)

    @property
    def sensitivity_rates(self) -> str:
        """The rates on the root at which both options were run; empty if none was."""
        found = {
            float(x["lr"])
            for v in ELEVEN
            for x in self.records.searched(GRADIENT_FLOW, "swiss d=50, flow_script", v, "root")
        }
        return ", ".join(f"{rate:g}" for rate in sorted(found))

    @property
    def color_dsw(self) -> bool:
        """Whether `dsw` was run at every rate with all steps, on all pairs."""
        return all((s, "dsw") in self.color_best for s in SETS)

    def _toy_steps(self, setting: str, variant: str) -> str:
        found = [
            x for x in self.records.lines(GRADIENT_FLOW, setting, variant, "power") if not x["lr"]
        ]
        return _arrived(max(found, key=lambda x: int(x["seeds"]))) if found else "–"

    @functools.cached_property
    def reference(self) -> dict[str, tuple[str, str]]:
        """Best distance on the root at five rates, with means and with the sums of published scripts, by variant."""
        found = {}
        for v in ELEVEN:
            sums = self.records.searched(
                GRADIENT_FLOW, "swiss d=50", v, "root", convention="reference"
            )
            if sums:
                rates = {float(x["lr"]) * 300**1.5 for x in sums}
                means = [
                    float(x["w2_mean"])
                    for x in self.records.searched(GRADIENT_FLOW, "swiss d=50", v, "root")
                    if min(rates) / 1.3 < float(x["lr"]) < max(rates) * 1.3
                ]
                found[v] = short(min(means)), short(min(float(x["w2_mean"]) for x in sums))
        return found

    # ---- the paper against itself

    @functools.cached_property
    def inconsistent(self) -> dict[str, Any]:
        """Numbers of the paper that contradict others of it."""
        toys = {
            o.variant: (o.mean, o.std)
            for o in self._printed("gradient_flow_best", "all", "runtime_s")
        }
        colors = {
            o.variant: (o.mean, o.std)
            for o in self._printed("color_transfer_best", "all", "runtime_s")
        }
        full = {
            (o.setting, o.variant, o.lr): o.mean
            for o in published()
            if o.table == "color_transfer_full"
        }
        bests = [o for o in published() if (o.table, o.metric) == ("color_transfer_best", "W2")]
        wrong = [o for o in bests if full[o.setting, o.variant, o.lr] != o.mean]
        below = [o for o in wrong if o.mean < min(end for (s, v, _), end in full.items() if (s, v) == (o.setting, o.variant))]  # fmt: skip
        rows = [[o.setting, o.variant, f"{o.mean:.2f} at {o.lr:g}", f"{full[o.setting, o.variant, o.lr]:.2f}"] for o in wrong]  # fmt: skip
        return {
            "copied": sum(toys[v] == colors[v] for v in ELEVEN),
            "bests": len(wrong),
            "of": len(bests),
            "below": len(below),
            "table": table(
                ["pair", "column", "table of bests", "the full table at that rate"], rows
            ),
        }

    def _printed(self, table_name: str, setting: str, metric: str = "W2") -> list[Published]:
        return [
            o
            for o in published()
            if (o.table, o.setting, o.metric) == (table_name, setting, metric)
        ]


def _steps(lines: Iterable[Line]) -> str:
    found = list(lines)
    return f"{min(int(x['steps_least']) for x in found):,} to {max(int(x['steps_most']) for x in found):,}"


def _arrived(line: Line | None) -> str:
    """Steps of a flow, or in parentheses the distance left of those that did not arrive."""
    if line is None:
        return "–"
    least, most = int(line["steps_least"]), int(line["steps_most"])
    steps = f"{least:,}" if least == most else f"{least:,}–{most:,}"
    return (
        steps
        if float(line["w2_most"]) < 1e-6
        else f"{steps} ({short(float(line['w2_most']))} left)"
    )


def _beside(ours: float, theirs: float) -> str:
    return f"{ours:.1f} / {theirs:.1f}"
