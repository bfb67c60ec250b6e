"""Audits of one given model: memberbound beside SACRO-ML, ART and a plain reference.

    python benchmarks/given_models.py --data DIR --lines FILE [--peer-python PATH …]
        [--dataset adult digits diabetes130 location30] [--learner forest boosting mlp logistic]
        [--seeds 10] [--rows 2000] [--shadows 16] [--tool memberbound art sacroml]
    python benchmarks/given_models.py --markdown FILE …

A target is trained on a random half of the records; the other half are the non-members.  Every tool
gets the model, both halves and the number of reference models it may train.  A line of JSON is
appended per tool and method as soon as it is known, so an interrupted run keeps its results.  Peers
run in their own environments (``audit_peers.py``); seconds are processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from audit import ONE_CORE, POPULATIONS, attack_rates
from audit_peers import PACKAGES, make_learner
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from memberbound.attacks.evidence import Evidence
from memberbound.attacks.model_audit import attack_scores
from memberbound.attacks.scores import Scores, audit_scores
from memberbound.attacks.shadows import train_references
from memberbound.learners.trained import TrainedModel

DATASETS = ("adult", "digits", "diabetes130", "location30")
LEARNERS = ("forest", "boosting", "mlp", "logistic")
RATES = (0.01, 0.001)
Line = dict[str, Any]


def population(
    name: str, seed: int, folder: Path, rows: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return records, classes, and who trained the model."""
    x, y = POPULATIONS[name](seed, folder)
    rng = np.random.default_rng([seed, 1])
    # A class of fewer than six records would be missing from some half.
    often = np.isin(y, np.flatnonzero(np.bincount(y) >= 6))
    some = rng.permutation(np.flatnonzero(often))[:rows]
    x, y = x[some], np.unique(y[some], return_inverse=True)[1]
    x = x[:, x.std(axis=0) > 0]
    member = np.zeros(len(x), dtype=bool)
    member[rng.permutation(len(x))[: len(x) // 2]] = True
    return x, y, member


def line_of(score: NDArray[np.float64], member: NDArray[np.bool_], *, proved: bool) -> Line:
    """Return estimates, and intervals where the score's rule did not see these records."""
    found: Line = dict(attack_rates(score, member))
    if proved:
        audit = audit_scores(Scores.of(score, member), fpr=RATES)
        found["auc_interval"] = [audit.auc.lower, audit.auc.upper]
        for rate in RATES:
            bound = audit.tpr_at_fpr[repr(rate)]
            found[f"tpr@{rate:g}_interval"] = None if bound is None else [bound.lower, bound.upper]
    return found


def ours(job: dict[str, Any]) -> list[Line]:
    """Return the lines of memberbound, without and with reference models."""
    x, y, member = job["x"], job["y"], job["member"]
    learner, seed, shadows = job["learner"], job["seed"], job["shadows"]
    model = make_learner(learner, seed).fit(x[member], y[member])
    evidence = Evidence.of(TrainedModel.of(model), x, y, member)
    start = time.process_time()
    plain = attack_scores(evidence, seed=seed)
    bare = time.process_time() - start
    start = time.process_time()
    references = train_references(evidence, "same", models=shadows, workers=1, seed=seed)
    training = time.process_time() - start
    start = time.process_time()
    full = attack_scores(evidence, references=references, seed=seed)
    attack = time.process_time() - start
    lines = []
    for scores, seconds, label in (
        (plain, (0.0, bare), "no training"),
        (full, (training, attack), ""),
    ):
        for name, (score, where) in scores.items():
            if scores is full and name in plain and name != "combined":
                continue
            lines.append(
                {
                    "tool": "memberbound",
                    "method": f"{name} ({label})" if label and name == "combined" else name,
                    **line_of(score[where], member[where], proved=True),
                    "training": seconds[0],
                    "attack": seconds[1],
                }
            )
    return lines


def peer(tool: str, python: str, job: dict[str, Any], member: Any) -> list[Line]:
    """Return a peer's lines, or one that explains why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("job.npz", "answer.npz")]
        np.savez(paths[0], **job)
        script = str(Path(__file__).with_name("audit_peers.py"))
        done = subprocess.run(
            [python, script, f"{tool}-given", *paths],
            env=os.environ | ONE_CORE,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return [{"tool": tool, "method": "failed", "note": said}]
        answer = dict(np.load(paths[1], allow_pickle=False))
    lines = []
    for name, score in answer.items():
        if name.startswith("score:"):
            where = np.isfinite(score)
            lines.append(
                {
                    "tool": tool,
                    "version": str(answer["version"]),
                    "method": name.removeprefix("score:"),
                    **line_of(score[where], member[where], proved=False),
                    "training": float(answer["training_seconds"]),
                    "attack": float(answer["attack_seconds"]),
                }
            )
    return lines


def has(python: str, tool: str) -> bool:
    code = f"import importlib.metadata as m; m.version({PACKAGES[tool]!r})"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def run(arguments: argparse.Namespace) -> None:
    """Append the lines of every case."""
    pythons = {
        tool: next((p for p in arguments.peer_python if has(p, tool)), None) for tool in PACKAGES
    }
    for seed in range(arguments.first_seed, arguments.seeds):
        for dataset in arguments.dataset:
            for learner in arguments.learner:
                x, y, member = population(dataset, seed, arguments.data, arguments.rows)
                case = {"dataset": dataset, "learner": learner, "seed": seed}
                case |= {"rows": len(x), "shadows": arguments.shadows}
                job = {"x": x, "y": y, "member": member, "learner": learner, "seed": seed}
                job |= {"shadows": arguments.shadows}
                lines = ours(job) if "memberbound" in arguments.tool else []
                for tool, python in pythons.items():
                    if python is not None and tool in arguments.tool:
                        lines += peer(tool, python, job, member)
                with arguments.lines.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(case | one) + "\n" for one in lines)
                print(case, flush=True)


#: Columns of the table: ours without and with training, then the peers.
SHOWN = ("combined (no training)", "rmia", "lira", "combined")


def markdown(paths: list[Path]) -> str:
    """Return two tables, AUC and TPR at 1 %: a row per case, means over seeds ± standard errors."""
    texts = [text for path in paths for text in path.read_text(encoding="utf-8").splitlines()]
    cases: dict[tuple[str, str], dict[tuple[str, str], list[Line]]] = {}
    for one in map(json.loads, texts):
        case = cases.setdefault((one["dataset"], one["learner"]), {})
        case.setdefault((one["tool"], one["method"]), []).append(one)
    head = "| data | model | seeds | " + " | ".join((*SHOWN, *PACKAGES)) + " |"
    tables = []
    for key in ("auc", *(f"tpr@{rate:g}" for rate in RATES), "seconds"):
        rows = [head, "|---" * (3 + len(SHOWN) + len(PACKAGES)) + "|"]
        for (dataset, learner), methods in cases.items():
            columns = [methods.get(("memberbound", name), []) for name in SHOWN]
            columns += [_best(tool, methods, key) for tool in PACKAGES]
            seeds = max(map(len, columns))
            cells = " | ".join(_cell(ones, key, seeds) for ones in columns)
            rows.append(f"| {dataset} | {learner} | {seeds} | {cells} |")
        tables.append(f"**{key}**\n\n" + "\n".join(rows))
    return "\n\n".join(tables)


def _best(tool: str, methods: dict[tuple[str, str], list[Line]], key: str) -> list[Line]:
    """Return the lines of a peer's method that is best by this figure, chosen in hindsight."""
    by = "auc" if key == "seconds" else key
    mine = [ones for (name, _), ones in methods.items() if name == tool and "auc" in ones[0]]
    return max(mine, key=lambda ones: float(np.mean([o[by] for o in ones])), default=[])


def _cell(ones: list[Line], key: str, seeds: int) -> str:
    if not ones:
        return "–"
    if key == "seconds":
        return f"{np.mean([o['training'] + o['attack'] for o in ones]):.1f}"
    values = [o[key] for o in ones]
    text = f"{np.mean(values):.3f}"
    if len(values) > 1:
        text += f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.3f}"
    return text if len(values) == seeds else f"{text} ({len(values)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--dataset", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--learner", nargs="+", choices=LEARNERS, default=LEARNERS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--shadows", type=int, default=16)
    parser.add_argument("--tool", nargs="+", default=("memberbound", *PACKAGES))
    parser.add_argument("--peer-python", nargs="*", default=[])
    parser.add_argument("--lines", type=Path, default=Path("given_models.jsonl"))
    parser.add_argument("--markdown", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.markdown:
        print(markdown(arguments.markdown))
        return
    warnings.filterwarnings("ignore")
    with threadpool_limits(1):
        run(arguments)


if __name__ == "__main__":
    main()
