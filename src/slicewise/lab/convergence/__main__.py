"""Count the steps."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from slicewise.files import write_whole
from slicewise.lab.convergence import rates, training

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--skip", type=int, default=0)
    a = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    begun = time.time()
    rows = []
    for i, setting in enumerate(training.SETTINGS[a.skip :]):
        t = time.time()
        rows += training.train(setting, training.candidates(), steps=a.steps, seed=1, device=device)
        print(a.skip + i, setting.name, round(time.time() - t, 2), "s", flush=True)
        write_whole(a.out / "training.json", json.dumps(rows))
        if time.time() - begun > a.seconds:
            break
    for judge in ("w2", "sw2"):
        print(judge)
        print(rates.table(rates.spread([{**r, "w2": r[judge]} for r in rows])))
