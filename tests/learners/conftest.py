"""A table of people, and a pipeline that was fitted on it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


@pytest.fixture(scope="session")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(18, 90, 300), "town": rng.choice(list("abcdefgh"), 300)}
    )
    noise = rng.random(300) < 0.1
    frame["rich"] = np.where((frame["age"] + 30 * (frame["town"] < "c") > 55) ^ noise, "yes", "no")
    return frame


@pytest.fixture(scope="session")
def pipeline(people: pd.DataFrame) -> Pipeline:
    encode = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["town"]))
    return make_pipeline(encode, LogisticRegression()).fit(people[["age", "town"]], people["rich"])
