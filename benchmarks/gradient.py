"""What does η for every record cost when all rows are used (X22), and what do rivals make of it?

    python benchmarks/gradient.py [--dataset digits adult …] [--runs 3] [--rivals] [--data DIR]
                                  [--json FILE]
    python benchmarks/gradient.py --markdown FILE …
    python benchmarks/gradient.py --canary

One model per data set, run, method and η, all on the same splits; ours with default settings.
Accuracy, balanced accuracy, AUC and log loss on other records, and processor seconds, beside the
constant classifier and the same learner without protection.  A run is a split or, where training
and test files are given, a draw of the noise; small tables get three times as many.  ``bounds``
tells whether the ranges were given or learnt privately.  ``--json`` is written line by line;
``--markdown`` turns such files into the tables of docs/protect-benchmark.md.

``--canary`` attacks the mechanism itself: two tables differ in a record chosen to be the worst,
every release of a fit is made again on the other table with the same past, and the likelihood-ratio
attacker who sees all of them has, given that past, the advantage of their shifts.

Rivals get our private columns and the share of μ² that our descent gets, and the best of their own
settings in hindsight (by the mean of all runs), which would cost them something in earnest: output
perturbation (strong convexity: the minimiser moves by at most 2L/(nλ)), objective perturbation
(Kifer, Smith and Thakurta 2012, at the (ε, 1e-5) of the same μ), and noisy mini-batches by Opacus
with the noise that our accountant finds.  For two classes also interpret-core's private explainable
boosting with its defaults, at the nominal ε for which its two parts keep the same η under
replace-one; it gets categories, and exact ranges where ours are paid for.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import softmax
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from memberbound.curve.families import GaussianCurve
from memberbound.dp.guarantees import EtaTarget, calibrated_noise_multiplier
from memberbound.errors import InputError
from memberbound.numerics.roots import last_true
from memberbound.release import budget as budgets
from memberbound.release.all_rows.training import fit_private
from memberbound.release.budget import Budget
from memberbound.release.randomness import InsecureSource
from memberbound.tables.columns import read_column

Split = tuple[pd.DataFrame, pd.DataFrame]
Case = tuple[str, Callable[[int], Split], dict[str, Any] | None]
ETAS = (0.01, 0.05, 0.1)
KEYS = ("accuracy", "auc", "log_loss", "seconds")
OURS = ("logistic", "boosting")
TEN = {"y": {"categories": list(range(10))}}
HEART: dict[str, Any] = {
    "age": [20, 90],
    "trestbps": [80, 220],
    "chol": [0, 600],
    "thalach": [60, 220],
    "oldpeak": [-3, 7],
    "ca": [0, 3],
    "sex": {"categories": [0, 1]},
    "cp": {"categories": [1, 2, 3, 4]},
    "fbs": {"categories": [0, 1]},
    "restecg": {"categories": [0, 1, 2]},
    "exang": {"categories": [0, 1]},
    "slope": {"categories": [1, 2, 3]},
    "thal": {"categories": [3, 6, 7]},
    "y": {"categories": [0, 1]},
}


def _frame(table: np.ndarray, target: np.ndarray) -> pd.DataFrame:
    found = pd.DataFrame(table, columns=[f"f{k}" for k in range(table.shape[1])])
    return found.assign(y=target)


def _part(table: pd.DataFrame, share: float, run: int) -> Split:
    order = np.random.default_rng(run).permutation(len(table))
    cut = int(share * len(table))
    first, rest = table.iloc[order[:cut]], table.iloc[order[cut:]]
    return first.reset_index(drop=True), rest.reset_index(drop=True)


def _digits(_: Path) -> Case:
    from sklearn.datasets import load_digits

    table = _frame(*load_digits(return_X_y=True))
    return "y", lambda run: _part(table, 0.5, run), {f"f{k}": [0, 16] for k in range(64)} | TEN


def _breast_cancer(_: Path) -> Case:
    from sklearn.datasets import load_breast_cancer

    features, target = load_breast_cancer(return_X_y=True)
    # Its published description lists smallest and largest values.
    ends = zip(features.min(axis=0), features.max(axis=0), strict=True)
    bounds: dict[str, Any] = {f"f{k}": list(map(float, pair)) for k, pair in enumerate(ends)}
    table = _frame(features, target)
    return "y", lambda run: _part(table, 0.5, run), bounds | {"y": {"categories": [0, 1]}}


def _heart(folder: Path) -> Case:
    table = pd.read_csv(folder / "heart_disease.csv.gz")
    table = table.assign(y=(table["num"] > 0).astype(int))[list(HEART)]
    return "y", lambda run: _part(table, 0.8, run), HEART


def _adult(folder: Path) -> Case:
    names = (folder / "adult_train.csv.gz", folder / "adult_test.csv.gz")
    first, rest = (pd.read_csv(name, keep_default_na=False) for name in names)
    for table in (first, rest):
        table["income"] = table["income"].str.strip().str.rstrip(".")
    return "income", lambda _run: (first, rest), None


def _mnist(folder: Path) -> Case:
    with np.load(folder / "mnist.npz") as stored:
        images = [
            stored[name].reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)
            for name in ("x_train", "x_test")
        ]
        tables = tuple(
            _frame(table, stored[name])
            for table, name in zip(images, ("y_train", "y_test"), strict=True)
        )
    return "y", lambda _run: (tables[0], tables[1]), {f"f{k}": [0, 255] for k in range(49)} | TEN


def _acs(folder: Path) -> Case:
    tables = []
    for year in ("2019", "2018"):
        table = pd.read_csv(folder / f"nist_acs_national{year}.csv.gz")
        rich = (pd.to_numeric(table["PINCP"], errors="coerce") > 50_000).astype(int)
        hidden = [n for n in ("PINCP", "PINCP_DECILE", "PWGTP", "WGTP") if n in table]
        tables.append(table.drop(columns=hidden).assign(rich=rich))
    return "rich", lambda _run: (tables[0], tables[1]), None


def _diabetes130(folder: Path) -> Case:
    table = pd.read_csv(folder / "diabetes130.csv.xz", keep_default_na=False)
    table = table.drop(columns=["encounter_id", "patient_nbr"])
    table["readmitted"] = np.where(table["readmitted"] == "NO", "no", "yes")
    return "readmitted", lambda run: _part(table, 0.8, run), None


#: Factor of runs on small tables: their scores vary more, and cost less.
SMALL, SPLITS = ("digits", "breast-cancer", "heart"), 3
READERS: dict[str, Callable[[Path], Case]] = {
    "digits": _digits,
    "breast-cancer": _breast_cancer,
    "heart": _heart,
    "adult": _adult,
    "mnist-49": _mnist,
    "acs": _acs,
    "diabetes130": _diabetes130,
}


def _encoder(table: pd.DataFrame) -> Any:
    """Standard preprocessing: standardise numbers, one-hot encode everything else."""
    numbers = table.select_dtypes("number").columns.tolist()
    others = [name for name in table.columns if name not in numbers]
    filled = make_pipeline(SimpleImputer(), StandardScaler())
    shown = OneHotEncoder(handle_unknown="ignore", min_frequency=20)
    return ColumnTransformer([("numbers", filled, numbers), ("others", shown, others)])


def _scores(truth: np.ndarray, guess: np.ndarray, chances: np.ndarray, names: Any) -> list[float]:
    auc = roc_auc_score(truth == names[1], chances[:, 1]) if len(names) == 2 else np.nan
    accuracy, loss = float(np.mean(guess == truth)), _log_loss(truth, chances, names)
    return [accuracy, balanced_accuracy_score(truth, guess), float(auc), loss]


def _log_loss(truth: np.ndarray, chances: np.ndarray, names: Any) -> float:
    indices = {str(name): index for index, name in enumerate(names)}
    chosen = chances[np.arange(len(truth)), [indices[name] for name in truth]]
    return -float(np.mean(np.log(np.maximum(chosen, 1e-15))))


def _unit(features: Any) -> np.ndarray:
    """Rows with an intercept, scaled onto the unit ball."""
    dense = np.asarray(features.todense() if sparse.issparse(features) else features)
    whole = np.column_stack([dense, np.full(len(dense), 0.5)])
    return whole / np.maximum(1.0, np.linalg.norm(whole, axis=1, keepdims=True))


def _minimise(
    rows: np.ndarray, codes: np.ndarray, count: int, strength: float, tilt: np.ndarray
) -> np.ndarray:
    """Argmin of mean softmax loss + strength/2·‖θ‖² + tilt·θ/n."""
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    n, width = rows.shape
    wanted = np.eye(count)[codes]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(width, count)
        scores = rows @ theta
        total = logsumexp(scores, axis=1)
        slope = rows.T @ (np.exp(scores - total[:, None]) - wanted) / n
        value = float((total - (scores * wanted).sum(axis=1)).mean())
        extra = 0.5 * strength * float(flat @ flat) + float(tilt.ravel() @ flat) / n
        return value + extra, (slope + strength * theta + tilt / n).ravel()

    start = np.zeros(width * count)
    return minimize(objective, start, jac=True, method="L-BFGS-B").x.reshape(width, count)


def _output(rows: np.ndarray, codes: np.ndarray, count: int, mu: float, rng: Any) -> Any:
    """Models by output perturbation, for several strengths of regularisation."""
    for strength in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001):
        theta = _minimise(rows, codes, count, strength, np.zeros((rows.shape[1], count)))
        scale = 2 * math.sqrt(2) / (len(rows) * strength * mu)
        yield theta + scale * rng.normal(size=theta.shape)


def _objective(rows: np.ndarray, codes: np.ndarray, count: int, mu: float, rng: Any) -> Any:
    """Models by objective perturbation: a random tilt, and enough regularisation."""
    delta = 1e-5
    epsilon = GaussianCurve(mu).epsilon(delta)
    scale = math.sqrt(2) * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
    for strength in (1.0, 3.0, 10.0, 30.0):
        tilt = scale * rng.normal(size=(rows.shape[1], count))
        # A softmax loss has curvature at most ½·‖x‖²; ε needs twice that as regularisation.
        yield _minimise(rows, codes, count, strength * 2 * 0.5 / epsilon / len(rows), tilt)


@functools.cache
def _multiplier(eta: float, rate: float, steps: int) -> float:
    return calibrated_noise_multiplier(EtaTarget(eta), rate, steps, "replace-one")


def _opacus(rows: np.ndarray, codes: np.ndarray, count: int, mu: float, rng: Any) -> Any:
    """Models by DP-SGD on mini-batches, per-record gradients by Opacus."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    steps, batch = 400, min(len(rows), 512)
    rate = batch / len(rows)
    noise = _multiplier(GaussianCurve(mu).eta, rate, steps)
    features = torch.tensor(rows, dtype=torch.float32)
    wanted = torch.tensor(codes, dtype=torch.int64)
    for speed in (0.5, 2.0, 8.0):
        torch.manual_seed(int(rng.integers(2**31)))
        model = GradSampleModule(torch.nn.Linear(rows.shape[1], count, bias=False))
        torch.nn.init.zeros_(model._module.weight)
        plain = torch.optim.SGD(model.parameters(), lr=speed)
        optimizer = DPOptimizer(
            plain, noise_multiplier=noise, max_grad_norm=0.5, expected_batch_size=batch
        )
        for _ in range(steps):
            chosen = torch.rand(len(rows)) < rate
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features[chosen]), wanted[chosen]).backward()
            optimizer.step()
        yield model._module.weight.detach().numpy().T.astype(float)


RIVALS = {
    "output perturbation": _output,
    "objective perturbation": _objective,
    "Opacus": _opacus,
}


def rival(
    name: str, model: Any, train: pd.DataFrame, test: pd.DataFrame, run: int
) -> Iterator[list[float]]:
    """Scores of a rival's models, one per setting, on the columns that ``model`` paid for."""
    codes, known = model.target.read(read_column(train[model.target.name]))
    kept = np.flatnonzero(known)
    learnt, other = (
        _unit(model.encode(train)[0].matrix())[kept],
        _unit(model.encode(test)[0].matrix()),
    )
    truth = test[model.target.name].astype(str).to_numpy()
    names = np.array(model.target.classes, dtype=object)
    rng = np.random.default_rng(run)
    mu = model.budget.shares[-1].mu
    began = time.process_time()
    for theta in RIVALS[name](learnt, codes[kept], len(names), mu, rng):
        seconds = time.process_time() - began
        scores = other @ theta
        chances = softmax(scores, axis=1)
        yield [*_scores(truth, names[scores.argmax(axis=1)], chances, names), seconds]
        began = time.process_time()


def _plain(train: Any, test: Any, target: str, bounds: Any) -> Split:
    """Return both tables as interpret takes them: texts, or numbers without gaps."""
    train, test = train.copy(), test.copy()
    for name in train:
        listed = isinstance((bounds or {}).get(name), dict)
        if name == target or listed or not pd.api.types.is_numeric_dtype(train[name]):
            # A gap is a category of its own: interpret takes none.
            train[name], test[name] = (
                t[name].astype(object).where(t[name].notna(), "missing").astype(str)
                for t in (train, test)
            )
        else:
            middle = float(train[name].median())
            train[name] = train[name].astype(float).fillna(middle)
            test[name] = test[name].astype(float).fillna(middle)
    return train, test


def _interpret(split: Split, target: str, bounds: Any, *, eta: float, run: int) -> list[float]:
    """Scores of interpret's model at the nominal ε that keeps η when a record is replaced."""
    from interpret.privacy import DPExplainableBoostingClassifier
    from interpret.utils._privacy import calc_gdp_noise_multi

    def epsilon_replaced(epsilon: float) -> float:
        # A tenth of ε and half of δ for binning (√2 when replaced), the rest for boosting (2).
        shares = [(0.1, 2.0), (0.9, 4.0)]
        return sum(
            more / calc_gdp_noise_multi(1, share * epsilon, 0.5e-5) ** 2 for share, more in shares
        )

    train, test = _plain(*split, target, bounds)
    mu = Budget.for_eta(eta, slack=1e-9).mu
    epsilon = last_true(lambda e: epsilon_replaced(e) <= mu**2, 1e-3, 20.0)
    table = train.drop(columns=target)
    numbers = [pd.api.types.is_numeric_dtype(table[name]) for name in table]
    ends = {
        k: tuple((bounds or {}).get(name, (table[name].min(), table[name].max())))
        for k, name in enumerate(table)
        if numbers[k]
    }
    began = time.process_time()
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=1e-5,
        feature_types=["continuous" if number else "nominal" for number in numbers],
        privacy_bounds=ends,
        random_state=run,
    ).fit(table, train[target])
    seconds, rest = time.process_time() - began, test.drop(columns=target)
    truth = test[target].to_numpy()
    return [
        *_scores(truth, model.predict(rest), model.predict_proba(rest), model.classes_),
        seconds,
    ]


def _time(fit: Callable[[], list[float]]) -> list[float]:
    began = time.process_time()
    return [*fit(), time.process_time() - began]


def _fit_unprotected(split: Split, target: str) -> list[float]:
    train, test = split
    rest, truth = test.drop(columns=target), test[target].astype(str).to_numpy()
    model = make_pipeline(_encoder(train.drop(columns=target)), LogisticRegression())
    model.fit(train.drop(columns=target), train[target].astype(str))
    return _scores(truth, model.predict(rest), model.predict_proba(rest), model.classes_)


@functools.cache
def _case(name: str, folder: Path) -> Case:
    return READERS[name](folder)


def measure(
    name: str, folder: Path, run: int, rivals: bool, methods: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield one line per method and η, of one run."""
    target, split, bounds = _case(name, folder)
    about = {"data": name, "rows": len(split(0)[0]), "bounds": "given" if bounds else "paid for"}

    def line(
        method: str, eta: float | None, run: int, found: list[float], setting: int = 0
    ) -> dict[str, Any]:
        keys = ("accuracy", "balanced", "auc", "log_loss", "seconds")
        scores = dict(zip(keys, found, strict=True))
        clean = {k: None if math.isnan(v) else v for k, v in scores.items()}
        return about | {"method": method, "eta": eta, "run": run, "setting": setting} | clean

    train, test = split(run)
    truth = test[target].astype(str).to_numpy()
    shares = train[target].astype(str).value_counts(normalize=True)
    right = float(np.mean(truth == shares.index[0]))
    chances = np.tile(shares.to_numpy(), (len(truth), 1))
    constant = [right, 1 / len(set(truth)), 0.5, _log_loss(truth, chances, shares.index), 0.0]
    yield line("constant", None, run, constant)
    unprotected = functools.partial(_fit_unprotected, (train, test), target)
    yield line("unprotected", None, run, _time(unprotected))
    for eta in ETAS:
        linear = None
        for learner in OURS:
            if learner not in methods:
                continue
            asked = {"eta": eta, "learner": learner, "bounds": bounds}
            began = time.process_time()
            try:
                model = fit_private(train, target, source=InsecureSource(run), **asked)
            except InputError as error:
                print(f"{name}, {learner}, η = {eta}: {error}", file=sys.stderr)
                continue
            seconds = time.process_time() - began
            linear = model if learner == "logistic" else linear
            chances = model.predict_proba(test)
            scores = _scores(truth, model.predict(test), chances, model.class_names)
            yield line(learner, eta, run, [*scores, seconds])
        if not rivals:
            continue
        for other in RIVALS if linear is not None else ():
            if other in methods:
                tried = rival(other, linear, train, test, run)
                yield from (line(other, eta, run, f, k) for k, f in enumerate(tried))
        asked = {"eta": eta, "run": run}
        if "interpret" in methods and len(set(truth)) == 2:
            scores = _interpret((train, test), target, bounds, **asked)
            yield line("interpret", eta, run, scores)


def canary(eta: float, learner: str, kind: str, rows: int = 2000) -> tuple[float, float]:
    """Advantage of the likelihood-ratio attacker on one record, and the certified one.

    A record at one end of every range moves to the other end (``place``), so that its gradient and
    its share of the means turn round; or its class is exchanged (``class``).  All others are on the
    same line, half of them in either class, and keep its score near 0.
    """
    draws = np.random.default_rng(0)
    ends = np.repeat(draws.choice([-1.0, 1.0], (rows, 1)), 5, axis=1)
    table = pd.DataFrame(ends, columns=list("abcde")).assign(y=draws.integers(0, 2, rows))
    bounds = {name: [-1, 1] for name in "abcde"} | {"y": {"categories": [0, 1]}}
    table.loc[0] = [1.0] * 5 + [1]
    other = table.copy()
    other.loc[0] = [-1.0] * 5 + [1] if kind == "place" else [1.0] * 5 + [0]
    honest, past, squares = budgets.noisy_release, [], []

    def replay(values: Any, scale: float, source: Any) -> np.ndarray:
        past.append((np.array(values, dtype=np.float64), honest(values, scale, source)))
        return past[-1][1]

    def again(values: Any, scale: float, source: Any) -> np.ndarray:
        del source
        exact, noisy = past[len(squares)]
        squares.append(float(np.square((np.asarray(values) - exact) / scale).sum()))
        return noisy

    asked = {"eta": eta, "learner": learner, "bounds": bounds}
    for release, rows_of in ((replay, table), (again, other)):
        budgets.noisy_release = release
        model = fit_private(rows_of, "y", source=InsecureSource(1), **asked)
    budgets.noisy_release = honest
    return GaussianCurve(math.sqrt(sum(squares))).advantage, model.budget.curve().advantage


METHODS = {
    "logistic": "gradient",
    "boosting": "boosting",
    "output perturbation": "output",
    "objective perturbation": "objective",
    "Opacus": "Opacus",
    "interpret": "interpret",
}


def table(lines: list[dict[str, Any]], key: str) -> str:
    """One line per data set and η, one column per method: mean ± standard error over the runs."""
    heads = ["data", "η", *(["constant", "unprotected"] if key != "seconds" else [])]
    names = [m for m in METHODS if any(line["method"] == m for line in lines)]
    shown = ["| " + " | ".join(heads + [METHODS[m] for m in names]) + " |"]
    shown.append("|" + "---|" * (len(heads) + len(names)))

    def cell(data: str, method: str, eta: float | None) -> str:
        mine = [x for x in lines if (x["data"], x["method"], x["eta"]) == (data, method, eta)]
        # The best setting over all runs, which is unknown in practice.
        judge, sign = ("log_loss", -1) if key == "log_loss" else ("accuracy", 1)
        means = {
            k: sign * np.mean([x[judge] for x in mine if x["setting"] == k])
            for k in {x["setting"] for x in mine}
        }
        best = max(means, key=lambda k: means[k]) if means else 0
        mine = [x for x in mine if x["setting"] == best]
        values = [x[key] for x in mine if x[key] is not None]
        if not values:
            return "–"
        if key == "seconds":
            return f"{np.mean(values):.1f}"
        error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        known = len(values) > 1 and method not in ("constant", "unprotected")
        return f"{np.mean(values):.3f}" + (f" ± {error:.3f}" if known else "")

    for data in dict.fromkeys(line["data"] for line in lines):
        first = next(line for line in lines if line["data"] == data)
        for eta in ETAS:
            cells = [f"{data}, {first['rows']} rows", f"{eta:g}"]
            if key != "seconds":
                cells += [cell(data, name, None) for name in ("constant", "unprotected")]
            cells += [cell(data, method, eta) for method in names]
            shown.append("| " + " | ".join(cells) + " |")
    return "\n".join(shown)


def main() -> None:
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dataset", nargs="+", default=list(READERS), choices=list(READERS))
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rivals", action="store_true", help="other ways to the same μ, too")
    parser.add_argument("--data", type=Path, default=shared, help="folder of the data files")
    parser.add_argument("--json", type=Path, help="file for the lines, one JSON object each")
    parser.add_argument("--markdown", type=Path, nargs="+", help="print tables of such files")
    parser.add_argument("--canary", action="store_true", help="how tight is the certificate?")
    asked = parser.parse_args()
    if asked.canary:
        for learner in OURS:
            for eta in ETAS:
                reached, certified = max(canary(eta, learner, k) for k in ("place", "class"))
                print(f"{learner}, η = {eta}: {reached:.5f} of {certified:.5f} reached")
        return
    if asked.markdown:
        texts = [text for file in asked.markdown for text in file.read_text("utf-8").splitlines()]
        lines = [json.loads(text) for text in texts]
        print("\n\n".join(table(lines, key) for key in KEYS))
        return
    warnings.simplefilter("ignore")
    # Run by run, so that the results of an interrupted benchmark are balanced.
    runs = range(SPLITS * asked.runs)
    tried = [(run, n) for run in runs for n in asked.dataset if run < asked.runs or n in SMALL]
    for run, name in tried:
        for line in measure(name, asked.data, run, asked.rivals, asked.method):
            print(json.dumps(line), flush=True)
            if asked.json is not None:
                with asked.json.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
