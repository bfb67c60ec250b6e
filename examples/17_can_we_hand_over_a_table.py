"""Can we hand over a table, and not only a model?

New rows are drawn from noisy counts of the old ones. The guarantee protects every record and covers
any use of the new rows. The value of a model trained on them is measured on real rows; attacks that
compare the new rows with the old ones find no leak, in line with the certificate. The rows are
NIST's excerpt of the American Community Survey for Massachusetts (public) if the folder in
ACS_FOLDER has it, and simulated otherwise.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import memberbound as mb

FOLDER = Path(os.environ.get("ACS_FOLDER", Path(__file__).resolve().parents[2] / "shared/data"))
SURVEY = FOLDER / "nist_acs_ma2019.csv.gz"
# The survey's codebook is public knowledge.
bounds = {
    "AGEP": [0, 99],
    "SEX": ["1", "2"],
    "EDU": [str(code) for code in range(1, 13)],
    "MSP": ["1", "2", "3", "4", "5", "6", "N"],
    "POVPIP": [0, 501],
    "rich": ["no", "yes"],
}
if SURVEY.is_file():
    people = pd.read_csv(SURVEY, dtype=str, keep_default_na=False)
    people = people[(people["PINCP_DECILE"] != "N") & (people["POVPIP"] != "N")]
    people["rich"] = np.where(people["PINCP_DECILE"].astype(int) >= 7, "yes", "no")
    people = people[list(bounds)].astype({"AGEP": int, "POVPIP": int})
else:
    draws = np.random.default_rng(0)
    people = pd.DataFrame({"AGEP": draws.integers(18, 90, 9000)})
    people[["SEX", "EDU", "MSP"]] = draws.integers(1, [3, 13, 7], (9000, 3)).astype(str)
    people["POVPIP"] = draws.integers(0, 502, 9000)
    people["rich"] = np.where(people["POVPIP"] + draws.normal(0, 99, 9000) > 300, "yes", "no")
people = people.sample(frac=1, random_state=0).reset_index(drop=True)
members, fresh = people[:4500], people[4500:]

answer = mb.synthesize(members, target="rich", bounds=bounds, eta=0.05)
print(answer.sentence)
print("\n── New rows")
print(answer.table.head(3).to_string(index=False))

print("\n── Boosting trained on old and on new rows, right about fresh people")
for name, table in (("old", members), ("new", answer.table)):
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(table[["AGEP", "POVPIP"]].astype(float), table["rich"].astype(str))
    right = (model.predict(fresh[["AGEP", "POVPIP"]].astype(float)) == fresh["rich"]).mean()
    print(f"{name} rows: {round(right, 3)}")

print("\n── Attacks on the new rows")
audit = mb.audit_table(members, nonmembers=fresh, synthetic=answer.table)
print(audit.sentence)
