"""What does η for every record cost when all rows are used (X22), and what do rivals make of it?

    python benchmarks/gradient.py [--dataset digits adult …] [--runs 3] [--rivals] [--data DIR]

One model per data set, split, method and η, ours with default settings: accuracy, balanced accuracy
and AUC on other records, and seconds, beside the constant classifier and the same learner without
protection.  ``bounds`` says whether the ranges were given or paid for.

Rivals get our private columns and the share of μ² that our descent gets, and the best of their own
settings in hindsight, which would cost them something in earnest: output perturbation (strong
convexity: the minimiser moves by at most 2L/(nλ)), objective perturbation (Kifer, Smith and
Thakurta 2012, at the (ε, 1e-5) of the same μ), and noisy mini-batches by Opacus with the noise that
our accountant finds.  For two classes also interpret-core's private explainable boosting as it
comes, at the nominal ε whose two parts keep the same η under replace-one; it is told categories,
and exact ranges where ours are paid for.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from memberbound.curve.families import GaussianCurve
from memberbound.dp.targets import EtaTarget, calibrated_noise_multiplier
from memberbound.errors import InputError
from memberbound.numerics.roots import last_true
from memberbound.release.budget import NeighbourBudget
from memberbound.release.neighbour import fit_private
from memberbound.release.preprocessing import Values
from memberbound.release.randomness import InsecureSource

Split = tuple[pd.DataFrame, pd.DataFrame]
Case = tuple[str, Callable[[int], Split], dict[str, Any] | None]
ETAS = (0.01, 0.05, 0.1)
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
    """What most people do: numbers standardised, everything else one indicator per value."""
    numbers = table.select_dtypes("number").columns.tolist()
    others = [name for name in table.columns if name not in numbers]
    filled = make_pipeline(SimpleImputer(), StandardScaler())
    shown = OneHotEncoder(handle_unknown="ignore", min_frequency=20)
    return ColumnTransformer([("numbers", filled, numbers), ("others", shown, others)])


def _scores(truth: np.ndarray, guess: np.ndarray, chances: np.ndarray, names: Any) -> list[float]:
    auc = roc_auc_score(truth == names[1], chances[:, 1]) if len(names) == 2 else np.nan
    return [float(np.mean(guess == truth)), balanced_accuracy_score(truth, guess), float(auc)]


def _line(name: str, method: str, found: list[list[float]]) -> str:
    mean = np.mean(found, axis=0)
    shown = ["–" if np.isnan(x) else f"{x:.3f}" for x in mean[:3]]
    return f"| {name} | {method} | {' | '.join(shown)} | {mean[3]:.1f} |"


def _unit(features: Any) -> np.ndarray:
    """Rows with an intercept, scaled onto the unit ball."""
    dense = np.asarray(features.todense() if sparse.issparse(features) else features)
    whole = np.column_stack([dense, np.full(len(dense), 0.5)])
    return whole / np.maximum(1.0, np.linalg.norm(whole, axis=1, keepdims=True))


def _minimised(
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
    for strength in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4):
        theta = _minimised(rows, codes, count, strength, np.zeros((rows.shape[1], count)))
        scale = 2 * math.sqrt(2) / (len(rows) * strength * mu)
        yield theta + scale * rng.normal(size=theta.shape)


def _objective(rows: np.ndarray, codes: np.ndarray, count: int, mu: float, rng: Any) -> Any:
    """Models by objective perturbation: a random tilt, and enough regularisation."""
    delta = 1e-5
    epsilon = GaussianCurve(mu).epsilon(delta)
    scale = math.sqrt(2) * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
    for strength in (1.0, 3.0, 10.0, 30.0, 100.0):
        tilt = scale * rng.normal(size=(rows.shape[1], count))
        # A softmax loss has curvature at most ½·‖x‖²; ε needs twice that as regularisation.
        yield _minimised(rows, codes, count, strength * 2 * 0.5 / epsilon / len(rows), tilt)


def _opacus(rows: np.ndarray, codes: np.ndarray, count: int, mu: float, rng: Any) -> Any:
    """Models by DP-SGD on mini-batches, per-record gradients by Opacus."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    steps, batch = 400, min(len(rows), 512)
    rate = batch / len(rows)
    noise = calibrated_noise_multiplier(
        EtaTarget(GaussianCurve(mu).eta), rate, steps, "replace-one"
    )
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


def rival(name: str, model: Any, train: pd.DataFrame, test: pd.DataFrame, run: int) -> list[float]:
    """Scores of the best of a rival's models, on the columns that ``model`` paid for."""
    codes, weights = model.target.read(Values.of(train[model.target.name]))
    kept = np.flatnonzero(weights > 0)
    learnt, other = (
        _unit(model.encoder.transform(train))[kept],
        _unit(model.encoder.transform(test)),
    )
    truth = test[model.target.name].astype(str).to_numpy()
    names = np.array(model.target.classes, dtype=object)
    rng = np.random.default_rng(run)
    best: list[float] = [0.0, 0.0, np.nan]
    began, made = time.perf_counter(), 0
    mu = model.budget.parts[-1].mu
    for theta in RIVALS[name](learnt, codes[kept], len(names), mu, rng):
        made += 1
        scores = other @ theta
        found = _scores(truth, names[scores.argmax(axis=1)], scores, names)
        if len(names) == 2:
            found[2] = float(roc_auc_score(truth == names[1], scores[:, 1] - scores[:, 0]))
        best = max(best, found)
    return [*best, (time.perf_counter() - began) / max(1, made)]


def _plain(train: Any, test: Any, target: str, bounds: Any) -> Split:
    """Return both tables as interpret takes them: texts, or numbers without gaps."""
    train, test = train.copy(), test.copy()
    for name in train:
        listed = isinstance((bounds or {}).get(name), dict)
        if name == target or listed or not pd.api.types.is_numeric_dtype(train[name]):
            train[name], test[name] = train[name].astype(str), test[name].astype(str)
        else:
            middle = float(train[name].median())
            train[name] = train[name].astype(float).fillna(middle)
            test[name] = test[name].astype(float).fillna(middle)
    return train, test


def _interpret(split: Split, target: str, bounds: Any, *, eta: float, run: int) -> list[float]:
    """Scores of interpret's model at the nominal ε that keeps η when a record is replaced."""
    from interpret.privacy import DPExplainableBoostingClassifier
    from interpret.utils._privacy import calc_gdp_noise_multi

    def replaced(epsilon: float) -> float:
        # A tenth of ε and half of δ for binning (√2 when replaced), the rest for boosting (2).
        shares = [(0.1, 2.0), (0.9, 4.0)]
        return sum(
            more / calc_gdp_noise_multi(1, share * epsilon, 0.5e-5) ** 2 for share, more in shares
        )

    train, test = _plain(*split, target, bounds)
    mu = NeighbourBudget.for_eta(eta, slack=1e-9).mu
    epsilon = last_true(lambda e: replaced(e) <= mu**2, 1e-3, 20.0)
    table = train.drop(columns=target)
    numbers = [pd.api.types.is_numeric_dtype(table[name]) for name in table]
    ends = {
        k: tuple((bounds or {}).get(name, (table[name].min(), table[name].max())))
        for k, name in enumerate(table)
        if numbers[k]
    }
    began = time.perf_counter()
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=1e-5,
        feature_types=["continuous" if number else "nominal" for number in numbers],
        privacy_bounds=ends,
        random_state=run,
    ).fit(table, train[target])
    seconds, rest = time.perf_counter() - began, test.drop(columns=target)
    truth = test[target].to_numpy()
    return [
        *_scores(truth, model.predict(rest), model.predict_proba(rest), model.classes_),
        seconds,
    ]


def rows(name: str, folder: Path, runs: int, rivals: bool) -> None:
    target, split, bounds = READERS[name](folder)
    about = f"{name}, {len(split(0)[0])} rows, bounds {'given' if bounds else 'paid for'}"
    constant, plain = [], []
    for run in range(runs):
        train, test = split(run)
        truth = test[target].astype(str).to_numpy()
        common = train[target].astype(str).mode()[0]
        share = float(np.mean(truth == common))
        constant.append([share, 1 / len(set(truth)), 0.5, 0.0])
        began = time.perf_counter()
        model = make_pipeline(_encoder(train.drop(columns=target)), LogisticRegression())
        model.fit(train.drop(columns=target), train[target].astype(str))
        rest = test.drop(columns=target)
        found = _scores(truth, model.predict(rest), model.predict_proba(rest), model.classes_)
        plain.append([*found, time.perf_counter() - began])
    print(_line(about, "constant", constant))
    print(_line(about, "unprotected", plain), flush=True)
    for eta in ETAS:
        found: dict[str, list[list[float]]] = {}
        for run in range(runs):
            train, test = split(run)
            truth = test[target].astype(str).to_numpy()
            linear = None
            for learner in OURS:
                began = time.perf_counter()
                try:
                    model = fit_private(
                        train,
                        target,
                        eta=eta,
                        learner=learner,
                        bounds=bounds,
                        source=InsecureSource(run),
                    )
                except InputError as error:
                    print(f"| {about} | {learner}, η = {eta} | {error} |")
                    continue
                seconds = time.perf_counter() - began
                linear = model if learner == "logistic" else linear
                chances = model.predict_proba(test)
                scores = _scores(truth, model.predict(test), chances, model.class_names)
                found.setdefault(learner, []).append([*scores, seconds])
            if rivals and linear is not None:
                for other in RIVALS:
                    found.setdefault(other, []).append(rival(other, linear, train, test, run))
            if rivals and len(set(truth)) == 2:
                scores = _interpret((train, test), target, bounds, eta=eta, run=run)
                found.setdefault("interpret", []).append(scores)
        for method, lines in found.items():
            print(_line(about, f"{method}, η = {eta}", lines), flush=True)


def main() -> None:
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dataset", nargs="+", default=list(READERS), choices=list(READERS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rivals", action="store_true", help="other ways to the same μ, too")
    parser.add_argument("--data", type=Path, default=shared, help="folder of the data files")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | method | accuracy | balanced | AUC | seconds |\n|---|---|---|---|---|---|")
    for name in asked.dataset:
        rows(name, asked.data, asked.runs, asked.rivals)


if __name__ == "__main__":
    main()
