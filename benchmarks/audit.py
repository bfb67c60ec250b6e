"""Attacks of memberbound beside a plain reference and other tools, on the same targets.

    python benchmarks/audit.py [--dataset classification digits adult location30 diabetes130]
        [--learner forest tree mlp logistic] [--shadows 64] [--seeds 2] [--data DIR]
        [--peer-python PATH …] [--peer-targets 1] [--json FILE]
    python benchmarks/audit.py --markdown FILE …

Every model is trained on a random half of the population.  memberbound and the plain reference
share the models: each is attacked with all others.  A peer gets the first targets (the same fits)
and trains the same number of shadow models of its own; memberbound's figures on these targets are
shown beside it.  Peers run in their own environments: ``--peer-python`` names interpreters, each
tool runs in the first one that has it, and its row reads "not installed" if none has.  Times are
processor seconds of one core, which depend less on the load of the machine than wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from audit_peers import PACKAGES, make_learner
from audit_tables import Row, average, same_target, shared_models, shares
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from memberbound.attacks.attacks import ATTACKS, Targets
from memberbound.attacks.learner_audit import audit_shadows
from memberbound.attacks.shadows import ShadowRun, draw_half, train_shadows
from memberbound.learners.examples import Examples

Array = NDArray[np.float64]
OURS = ("loss", "lira", "rmia", "combined")
LEARNERS = ("forest", "tree", "mlp", "logistic")
RATES = (0.01, 0.001)
ROWS = 4000
#: One core for every tool, so that times are comparable.
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


# ---- populations


def classification(seed: int, _: Path) -> tuple[Array, NDArray[np.int64]]:
    from sklearn.datasets import make_classification

    x, y = make_classification(ROWS, 20, flip_y=0.1, random_state=seed)
    return x, y


def digits(_: int, __: Path) -> tuple[Array, NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return x / 16, y


def adult(seed: int, folder: Path) -> tuple[Array, NDArray[np.int64]]:
    import pandas as pd

    frame = pd.read_csv(folder / "adult_train.csv.gz", skipinitialspace=True)
    return _table(frame.sample(ROWS, random_state=seed), frame.columns[-1])


def diabetes130(seed: int, folder: Path) -> tuple[Array, NDArray[np.int64]]:
    import pandas as pd

    frame = pd.read_csv(folder / "diabetes130.csv.xz", keep_default_na=False, low_memory=False)
    # One stay a patient, and no columns that name the stay.
    frame = frame.drop_duplicates("patient_nbr").drop(columns=["encounter_id", "patient_nbr"])
    # Diagnoses have hundreds of codes; the first digits are their chapters.
    for name in ("diag_1", "diag_2", "diag_3"):
        frame[name] = frame[name].astype(str).str[:1]
    return _table(frame.sample(ROWS, random_state=seed), "readmitted")


def location30(seed: int, folder: Path) -> tuple[Array, NDArray[np.int64]]:
    stored = np.load(folder / "location30.npz")
    x = np.unpackbits(stored["x_bits"], axis=1, count=446).astype(np.float64)
    some = np.random.default_rng(seed).permutation(len(x))[:ROWS]
    return x[some], np.unique(stored["y"][some], return_inverse=True)[1]


def _table(frame: Any, target: str) -> tuple[Array, NDArray[np.int64]]:
    """Return numbers standardised, categories as indicators, and the classes coded."""
    import pandas as pd

    y = np.unique(frame[target].astype(str), return_inverse=True)[1]
    x = pd.get_dummies(frame.drop(columns=[target])).to_numpy(np.float64)
    spread = x.std(axis=0)
    return (x[:, spread > 0] - x[:, spread > 0].mean(axis=0)) / spread[spread > 0], y


POPULATIONS: dict[str, Callable[[int, Path], tuple[Array, NDArray[np.int64]]]] = {
    "classification": classification,
    "digits": digits,
    "adult": adult,
    "location30": location30,
    "diabetes130": diabetes130,
}

# ---- the plain reference: nothing of the package, one target at a time


def plain_lira(
    p: Array, member: NDArray[np.bool_], target: int, *, clip: float, pooled: bool
) -> Array:
    """LiRA online: two Gaussians per record fitted to the other models' logits."""
    p = np.clip(p, clip, 1 - clip)
    logit = np.log(p) - np.log(1 - p)
    others = np.delete(np.arange(len(p)), target)
    density = []
    for inside in (True, False):
        values = np.where(member[others] == inside, logit[others], np.nan)
        centre = np.nanmean(values, axis=0)
        spread = np.nanstd(values - centre, axis=None if pooled else 0) + 1e-6
        density.append(-((logit[target] - centre) ** 2) / (2 * spread**2) - np.log(spread))
    # A record that no other model has in, or all have, cannot be told apart.
    return np.nan_to_num(density[0] - density[1])


def plain_rmia(p: Array, member: NDArray[np.bool_], target: int, *, gamma: float) -> Array:
    """RMIA online: the share of records z with (p(x)/P(x)) / (p(z)/P(z)) ≥ γ, pair by pair."""
    p = np.maximum(p, 1e-6)
    others = np.delete(np.arange(len(p)), target)
    sides = [
        np.nanmean(np.where(member[others] == inside, p[others], np.nan), axis=0)
        for inside in (True, False)
    ]
    ratio = p[target] / np.nanmean(sides, axis=0)
    score = np.empty(len(ratio))
    for x, own in enumerate(ratio):
        score[x] = (own >= gamma * ratio).mean()
    return score


def _plain(kind: Callable[..., Array], **settings: Any) -> Callable[..., Array]:
    return lambda p, member, target: kind(p, member, target, **settings)


PLAIN: dict[str, Callable[..., Array]] = {
    "plain lira, own variance": _plain(plain_lira, clip=1e-6, pooled=False),
    "plain lira, pooled variance": _plain(plain_lira, clip=1e-6, pooled=True),
    "plain lira, own variance, clip 0.01": _plain(plain_lira, clip=0.01, pooled=False),
    "plain lira, pooled variance, clip 0.01": _plain(plain_lira, clip=0.01, pooled=True),
    "plain rmia, γ = 1": _plain(plain_rmia, gamma=1.0),
    "plain rmia, γ = 2": _plain(plain_rmia, gamma=2.0),
}

# ---- measuring


def attack_rates(score: Array, member: NDArray[np.bool_]) -> Row:
    """AUC with ties half, and the TPR of the best threshold that at most ⌊αn₀⌋ others pass."""
    ins, outs = np.sort(score[member]), np.sort(score[~member])
    below = np.searchsorted(outs, ins, "left") + np.searchsorted(outs, ins, "right")
    row: Row = {"auc": float(below.mean() / (2 * len(outs)))}
    for rate in RATES:
        bar = outs[-1 - int(rate * len(outs) * (1 + 1e-12))]
        row[f"tpr@{rate:g}"] = float((ins > bar).mean())
    return row


def measure(run: ShadowRun, training: float, plain_targets: int) -> list[Row]:
    """Rows of memberbound and the plain reference on one set of models."""
    member, count = run.membership, run.signals.models
    start = time.process_time()
    audit_shadows(run)
    audit_seconds = time.process_time() - start
    rows: list[Row] = []
    for name in OURS:
        targets = Targets.each_by_the_others(run.signals, member)
        start = time.process_time()
        score = ATTACKS[name].score(targets)
        spent = time.process_time() - start
        single = [attack_rates(score[t], member[t]) for t in range(count)]
        rows.append(
            {
                "method": f"memberbound {name}",
                **average(single),
                "training": training,
                "attack": spent,
                "audit": audit_seconds,
                "targets": count,
                "first": single[:4],
            }
        )
    confidence = 1 / (1 + np.exp(-run.signals.logit))
    some = range(min(plain_targets, count))
    for name, attack in PLAIN.items():
        start = time.process_time()
        single = [attack_rates(attack(confidence, member, t), member[t]) for t in some]
        spent = (time.process_time() - start) * count / len(some)
        rows.append(
            {
                "method": name,
                **average(single),
                "training": training,
                "attack": spent,
                "targets": len(some),
                "first": single[:4],
            }
        )
    return rows


def peer_rows(
    examples: Examples, learner: str, seed: int, arguments: argparse.Namespace
) -> Iterable[Row]:
    """Rows of the other tools, one per target and method."""
    for tool in arguments.peers:
        python = next((p for p in arguments.peer_python if _has(p, tool)), None)
        if python is None:
            yield {"method": tool, "note": "not installed"}
            continue
        for target in range(arguments.peer_targets):
            member, learner_seed = draw_half(examples.rows, seed, target)
            with tempfile.TemporaryDirectory() as folder:
                job, answer = Path(folder) / "job.npz", Path(folder) / "answer.npz"
                np.savez(
                    job,
                    x=examples.features,
                    y=examples.target,
                    member=member,
                    learner=learner,
                    seed=learner_seed,
                    shadows=arguments.shadows,
                )
                script = Path(__file__).with_name("audit_peers.py")
                try:
                    done = subprocess.run(
                        [python, str(script), tool, str(job), str(answer)],
                        capture_output=True,
                        text=True,
                        cwd=folder,
                        env={**os.environ, **ONE_CORE},
                        timeout=60 * arguments.peer_minutes,
                        check=False,
                    )
                except subprocess.TimeoutExpired:
                    yield {
                        "method": tool,
                        "note": f"stopped after {arguments.peer_minutes:g} minutes",
                    }
                    break
                if done.returncode:
                    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                    yield {"method": tool, "note": f"failed: {last[:200]}"}
                    break
                found = np.load(answer)
                for name in found.files:
                    if found[name].shape == (examples.rows,):
                        yield {
                            "method": f"{tool} {name}",
                            **attack_rates(found[name], member),
                            "training": float(found["training_seconds"]),
                            "attack": float(found["attack_seconds"]),
                            "target": target,
                            "version": str(found["version"]),
                        }


def _has(python: str, tool: str) -> bool:
    ask = f"import importlib.metadata as m; m.version({PACKAGES[tool]!r})"
    return subprocess.run([python, "-c", ask], capture_output=True, check=False).returncode == 0


# ---- the command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", nargs="+", default=list(POPULATIONS), choices=POPULATIONS)
    parser.add_argument("--learner", nargs="+", default=list(LEARNERS), choices=LEARNERS)
    parser.add_argument("--shadows", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--plain-targets", type=int, default=64, help="0 leaves the reference out")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--peer-python", nargs="*", default=[])
    parser.add_argument("--peers", nargs="*", default=list(PACKAGES), choices=PACKAGES)
    parser.add_argument("--peer-targets", type=int, default=1, help="of the first seed; at most 4")
    parser.add_argument("--peer-minutes", type=float, default=10.0, help="per target")
    parser.add_argument("--peers-only", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.markdown:
        rows = [r for path in arguments.markdown for r in json.loads(path.read_text())]
        print(shared_models(rows), same_target(rows), shares(rows), sep="\n\n")
        return
    warnings.filterwarnings("ignore")
    rows = []

    def keep(row: Row, **case: Any) -> None:
        rows.append({**case, **row})
        print({k: v for k, v in rows[-1].items() if k != "first"}, flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows))

    for dataset in arguments.dataset:
        for learner in arguments.learner:
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                try:
                    x, y = POPULATIONS[dataset](seed, arguments.data)
                except FileNotFoundError as missing:
                    print(f"{dataset}: {missing}", file=sys.stderr)
                    break
                case = {"dataset": dataset, "learner": learner, "seed": seed}
                names = tuple(str(i) for i in range(x.shape[1]))
                examples = Examples(x, y, "classification", names, tuple(map(str, np.unique(y))))
                if not arguments.peers_only:
                    start = time.process_time()
                    run = train_shadows(
                        examples,
                        make_learner(learner, 0),
                        models=arguments.shadows,
                        seed=seed,
                        n_jobs=1,
                    )
                    training = time.process_time() - start
                    for row in measure(run, training, arguments.plain_targets):
                        keep(row, **case)
                if seed == arguments.first_seed:
                    for row in peer_rows(examples, learner, seed, arguments):
                        keep(row, **case)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
