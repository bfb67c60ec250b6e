"""Where the real tables lie, for tests and documentation; absent on most machines.

The folder is ``../shared/data`` beside the repository, or MEMBERBOUND_DATA.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("MEMBERBOUND_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")
)

ADULT = "adult_train.csv.gz"
ADULT_FOUR = ("education", "marital_status", "sex", "income")

ACS_2019 = "nist_acs_national2019.csv.gz"
ACS_2018 = "nist_acs_national2018.csv.gz"
#: Coarse facts about a person and the household, no geography, age or income in dollars.
ACS_COLUMNS = ("SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "EDU", "PINCP_DECILE")

DIABETES = "diabetes130.csv.xz"
DIABETES_UNIT = "patient_nbr"
#: One stay: who, how long, what came of it; the number of the stay itself is left out.
DIABETES_COLUMNS = ("race", "gender", "age", "readmitted")


def real_file(name: str) -> Path:
    """Return the path, or skip the test that asks for it."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not in {FOLDER}")
    return path
