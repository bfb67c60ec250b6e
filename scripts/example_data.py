"""``python scripts/example_data.py FOLDER`` writes the files of the documentation's commands.

``patients.csv`` is scikit-learn's copy of Breast Cancer Wisconsin (Diagnostic), ``people.csv`` is
simulated; the ``.yaml`` files hold the public facts about their columns. ``train.csv`` and
``test.csv`` are halves of ``people.csv``, ``forest.skops`` and ``forest.joblib`` one model of the
first half, and ``answers.csv`` its predictions. ``scores.csv``, ``canaries.csv`` and ``tokens.csv``
with ``texts.csv`` are inputs of attacks on simulated models.
"""

import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import skops.io
import yaml
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

#: Public limits of the ten measurements: of a mean or a worst value, and of a standard error.
MEASUREMENTS = {
    "radius": (50, 5),
    "texture": (60, 6),
    "perimeter": (300, 30),
    "area": (5000, 600),
    "smoothness": (0.3, 0.05),
    "compactness": (1.5, 0.2),
    "concavity": (1.5, 0.5),
    "concave points": (0.4, 0.1),
    "symmetry": (0.8, 0.1),
    "fractal dimension": (0.3, 0.05),
}
REGIONS = ["north", "east", "south", "west"]
EDUCATION = ["school", "trade", "college", "university"]
WORDS = ("the", "of", "and", "to", "in", "is", "it", "was", "for", "on", "are", "with", "as", "at")


def patients() -> tuple[pd.DataFrame, dict[str, list[object]]]:
    """Return 569 patients with 30 measurements and a diagnosis, and what is public about them."""
    data = load_breast_cancer(as_frame=True)
    table = data.data.assign(diagnosis=data.target.map(dict(enumerate(data.target_names))))
    limits: dict[str, list[object]] = {"diagnosis": ["malignant", "benign"]}
    for name, (value, error) in MEASUREMENTS.items():
        limits |= {
            f"mean {name}": [0, value],
            f"worst {name}": [0, value],
            f"{name} error": [0, error],
        }
    return table, {column: limits[column] for column in table.columns}


def people(
    draws: np.random.Generator, rows: int = 4000
) -> tuple[pd.DataFrame, dict[str, list[object]]]:
    """Return made-up people, and what is public about them."""
    age = draws.integers(18, 90, rows)
    education = draws.integers(0, 4, rows)
    hours = np.clip(draws.normal(36, 9, rows).round(), 0, 80).astype(int)
    table = pd.DataFrame(
        {
            "age": age,
            "age_group": np.array(["18-39", "40-64", "65-89"])[np.digitize(age, [40, 65])],
            "sex": draws.choice(["f", "m"], rows),
            "region": draws.choice(REGIONS, rows, p=[0.4, 0.3, 0.2, 0.1]),
            "education": np.array(EDUCATION)[education],
            "hours": hours,
            "income": np.where(
                education + hours / 12 + draws.normal(0, 1, rows) > 5, "high", "low"
            ),
            "ill": np.where(age + draws.normal(0, 20, rows) > 65, "yes", "no"),
        }
    )
    public: dict[str, list[object]] = {
        "age": [18, 90],
        "age_group": ["18-39", "40-64", "65-89"],
        "sex": ["f", "m"],
        "region": list(REGIONS),
        "education": list(EDUCATION),
        "hours": [0, 80],
        "income": ["low", "high"],
        "ill": ["no", "yes"],
    }
    return table, public


def scores(draws: np.random.Generator, rows: int, shift: float) -> pd.DataFrame:
    """Return scores of members and others, each put in by a fair coin."""
    member = draws.integers(0, 2, rows)
    return pd.DataFrame({"score": draws.normal(shift * member).round(4), "member": member})


def tokens(draws: np.random.Generator, documents: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return log-probabilities of the tokens of documents, with the texts."""
    text = draws.choice(WORDS, (documents, 20))
    member = np.arange(documents) % 2
    base = draws.normal(-4, 1, text.shape)
    gain = draws.normal(0.3 * member[:, None], 0.5, text.shape)
    table = pd.DataFrame(
        {
            "record": np.repeat(np.arange(documents), 20),
            "member": np.repeat(member, 20),
            "position": np.tile(np.arange(20), documents),
            "logprob": np.minimum(base + gain, -0.001).ravel().round(4),
            "reference_logprob": np.minimum(base, -0.001).ravel().round(4),
        }
    )
    source = np.array(["letters", "notes"])[np.arange(documents) // 2 % 2]
    texts = {"record": np.arange(documents), "text": [" ".join(t) for t in text], "source": source}
    return table, pd.DataFrame(texts)


def write(folder: Path) -> None:
    """Write all files; those of an earlier run are replaced by the same."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(0)
    for name, (table, public) in (("patients", patients()), ("people", people(draws))):
        table.to_csv(folder / f"{name}.csv", index=False)
        limits = yaml.safe_dump(public, sort_keys=False, default_flow_style=None, width=100)
        (folder / f"{name}.yaml").write_text(limits, encoding="utf-8")
        target = "diagnosis" if name == "patients" else "ill"
        table.drop(columns=target)[:5].to_csv(folder / f"new-{name}.csv", index=False)
        if name == "people":
            train, test = table[:2000], table[2000:]
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    words = [
        name
        for name in train
        if not pd.api.types.is_numeric_dtype(train[name]) and name != "income"
    ]
    encoder = make_column_transformer((OneHotEncoder(), words), remainder="passthrough")
    forest = make_pipeline(encoder, RandomForestClassifier(50, random_state=0))
    forest.fit(train.drop(columns="income"), train["income"])
    joblib.dump(forest, folder / "forest.joblib", compress=3)
    skops.io.dump(forest, folder / "forest.skops")
    answers = forest.predict_proba(pd.concat([train, test]).drop(columns="income"))
    both = {"label": [*train["income"], *test["income"]], "member": np.repeat([1, 0], 2000)}
    columns = {f"probability_{name}": answers[:, k] for k, name in enumerate(forest.classes_)}
    pd.DataFrame(both | columns).to_csv(folder / "answers.csv", index=False)
    scores(draws, 2000, 0.5).to_csv(folder / "scores.csv", index=False)
    scores(draws, 1000, 4).to_csv(folder / "canaries.csv", index=False)
    for name, table in zip(("tokens", "texts"), tokens(draws, 400), strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
