"""Populations for the benchmark of ``protect``; imported, not run.

Features are standardised on the whole population, which is public in the subset game.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.release.half.linear_fits import Population
from memberbound.release.half.sums import SumStatistic, histogram


def _standard(table: np.ndarray) -> np.ndarray:
    spread = table.std(axis=0)
    return (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _one_hot(column: Any) -> np.ndarray:
    values = np.asarray(column, dtype=str)
    coded = (values[:, None] == np.unique(values)[None, :]).astype(float)
    return np.asarray(coded - coded.mean(axis=0))


def _pixels(images: np.ndarray) -> np.ndarray:
    """Centred, with one scale for all pixels: rows are about √d long."""
    moved = images - images.mean(axis=0)
    return np.asarray(moved / moved.std())


def _breast_cancer(_: Path) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    table, target = load_breast_cancer(return_X_y=True)
    return _standard(table), target


def _digits(_: Path) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    images, target = load_digits(return_X_y=True)
    return _pixels(images), target


def _mnist(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / "mnist.npz") as stored:
        images, target = stored["x_train"][:20000], stored["y_train"][:20000]
    pooled = images.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(len(images), 49)
    return _pixels(pooled), target


def _heart(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    table = pd.read_csv(folder / "heart_disease.csv.gz")
    numeric = ["age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak", "ca"]
    filled = table[numeric].astype(float)
    filled = filled.fillna(filled.median())
    kinds = [_one_hot(table[name]) for name in ("cp", "restecg", "slope", "thal")]
    return np.hstack([_standard(filled.to_numpy()), *kinds]), (table["num"] > 0).to_numpy(int)


def _adult_table(folder: Path) -> Any:
    import pandas as pd

    return pd.read_csv(folder / "adult_train.csv.gz", keep_default_na=False)


def _adult(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    table = _adult_table(folder)
    numeric = table[["age", "education_num", "hours_per_week"]].to_numpy(float)
    money = np.log1p(table[["capital_gain", "capital_loss"]].to_numpy(float))
    names = ("workclass", "marital_status", "occupation", "relationship", "race", "sex")
    kinds = [_one_hot(table[name]) for name in names]
    target = table["income"].str.contains(">50K").to_numpy(int)
    return np.hstack([_standard(np.hstack([numeric, money])), *kinds]), target


def _acs_table(folder: Path) -> Any:
    import pandas as pd

    table = pd.read_csv(folder / "nist_acs_ma2019.csv.gz", keep_default_na=False, dtype=str)
    return table[(table["AGEP"].astype(float) >= 18) & (table["PINCP"] != "N")]


def _acs(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    table = _acs_table(folder)
    numeric = table[["AGEP", "EDU"]].to_numpy(float)
    names = ("SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "INDP_CAT", "DPHY")
    target = (table["PINCP"].astype(float) > 50_000).to_numpy(int)
    return np.hstack([_standard(numeric), *(_one_hot(table[name]) for name in names)]), target


READERS: dict[str, tuple[Callable[[Path], tuple[np.ndarray, np.ndarray]], int]] = {
    "breast-cancer": (_breast_cancer, 568),
    "heart": (_heart, 920),
    "adult": (_adult, 2000),
    "acs": (_acs, 2000),
    "digits": (_digits, 1796),
    "mnist": (_mnist, 2000),
}


def chosen_rows(records: int, most: int) -> np.ndarray:
    """The same even number of rows for every method."""
    return np.sort(np.random.default_rng(0).permutation(records)[: min(records // 2 * 2, most)])


def population(name: str, folder: Path, most: int | None) -> Population:
    reader, size = READERS[name]
    features, target = reader(folder)
    rows = chosen_rows(len(features), min(size, most or size))
    return Population(features[rows], target[rows], np.unique(target[rows]))


def mean_rows(name: str, folder: Path) -> np.ndarray:
    """Rows for the released mean; Adult's capital gains have a long tail."""
    if name == "breast-cancer":
        table = _breast_cancer(folder)[0]
    else:
        columns = ["age", "education_num", "hours_per_week", "capital_gain", "capital_loss"]
        table = _standard(_adult_table(folder)[columns].to_numpy(float))
    return np.asarray(table[chosen_rows(len(table), READERS[name][1])])


def counts(name: str, folder: Path) -> SumStatistic:
    """A histogram of Adult's 16 education levels, or of the ACS income deciles."""
    if name == "adult":
        column = _adult_table(folder)["education"].to_numpy(str)
    else:
        column = _acs_table(folder)["PINCP_DECILE"].to_numpy(str)
    column = column[chosen_rows(len(column), READERS[name][1])]
    return histogram(column, categories=sorted(set(column)))
