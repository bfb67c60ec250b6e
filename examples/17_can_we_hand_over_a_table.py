"""Can we hand over a table, and not only a model?

New rows are drawn from noisy counts of the old ones. The promise is about every record, and about
everything that is ever made of the new rows. What a model trained on them is worth is seen on real
rows; attacks that compare the new rows with the old ones find nothing, as the certificate says.

The rows are NIST's excerpts of the American Community Survey for Massachusetts (public: NIST's
"diverse communities" data) where the files are found in the folder that ACS_FOLDER names; made-up
ones elsewhere.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import memberbound as mb

draws = np.random.default_rng(0)


FOLDER = Path(os.environ.get("ACS_FOLDER", Path(__file__).resolve().parents[2] / "shared/data"))
NUMBERS = ["age", "poverty"]


def survey(year: int) -> pd.DataFrame:
    """Return adults with an income, and whether they are in the upper part of all incomes."""
    rows = pd.read_csv(FOLDER / f"nist_acs_ma{year}.csv.gz", dtype=str, keep_default_na=False)
    rows = rows[(rows["PINCP_DECILE"] != "N") & (rows["POVPIP"] != "N")].reset_index(drop=True)
    names = {"AGEP": "age", "SEX": "sex", "EDU": "school", "MSP": "married", "POVPIP": "poverty"}
    table = rows[list(names)].rename(columns=names)
    table[NUMBERS] = table[NUMBERS].astype(int)
    table["earns"] = np.where(rows["PINCP_DECILE"].astype(int) >= 7, "much", "little")
    return table


def people(rows: int) -> pd.DataFrame:
    """Return rows of a made-up survey with the same columns."""
    age, poverty = draws.integers(18, 90, rows), draws.integers(0, 501, rows)
    school = draws.integers(1, 13, rows)
    points = 0.01 * (poverty - 250) + 0.3 * (school - 8) - 0.0008 * (age - 50) ** 2
    earns = np.where(draws.random(rows) < 1 / (1 + np.exp(-points)), "much", "little")
    sex, married = (draws.integers(1, most, rows).astype(str) for most in (3, 7))
    table = {"age": age, "sex": sex, "school": school.astype(str), "married": married}
    return pd.DataFrame(table | {"poverty": poverty, "earns": earns})


if (FOLDER / "nist_acs_ma2019.csv.gz").is_file():
    # Split at random: people of another year would differ without any leak.
    both = pd.concat([survey(2018), survey(2019)]).sample(frac=1, random_state=0)
    members, fresh = both[:8000].reset_index(drop=True), both[8000:].reset_index(drop=True)
else:
    members, fresh = people(7_000), people(5_000)
# What the survey's codebook says: public knowledge, whoever answered.
bounds = {
    "age": [0, 99],
    "sex": ["1", "2"],
    "school": [str(code) for code in range(1, 13)],
    "married": ["1", "2", "3", "4", "5", "6", "N"],
    "poverty": [0, 501],
    "earns": ["little", "much"],
}
answer = mb.synthesize(members, target="earns", bounds=bounds, eta=0.05)
print(answer.sentence)
print("\n── New rows")
print(answer.table.head(3).to_string(index=False))

print("\n── Boosting trained on old and on new rows, right about fresh people")
for name, table in (("old", members), ("new", answer.table)):
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(table[NUMBERS].astype(float), table["earns"].astype(str))
    right = (model.predict(fresh[NUMBERS].astype(float)) == fresh["earns"]).mean()
    print(f"{name} rows: {round(right, 3)}")

print("\n── Attacks on the new rows")
audit = mb.audit_table(members[:3000], nonmembers=fresh[:3000], synthetic=answer.table)
print(audit.sentence)
