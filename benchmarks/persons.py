"""All rows of a person against the first row alone: protected models of hospital stays.

    python benchmarks/persons.py diabetes130.csv.xz [--eta 0.05] [--draws 2]

The table (UCI 296, CC BY 4.0) has 101 766 stays of 71 518 patients.  A fifth of the patients is
held out, and all of their rows are scored.  Both models give the same guarantee for every patient.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from memberbound.release.all_rows.training import fit_private
from memberbound.release.randomness import InsecureSource
from memberbound.tables.records import read_records

WHO = "patient_nbr"
NUMBERS = "time_in_hospital num_lab_procedures num_procedures num_medications number_outpatient"
NUMBERS += " number_emergency number_inpatient number_diagnoses"
TEXTS = "race gender age admission_type_id discharge_disposition_id admission_source_id"
TEXTS += " medical_specialty A1Cresult diag_1"
#: The target column, and its negative value.
TARGETS = {"insulin": "No", "readmitted": "NO"}


def scores(stays: pd.DataFrame, learner: str, eta: float, draw: int) -> list[float]:
    """Return accuracy and AUC of the first rows' model, then of all rows'."""
    patients = np.random.default_rng(draw).permutation(stays[WHO].unique())
    held_out = stays[WHO].isin(patients[: len(patients) // 5])
    test, train = stays[held_out], stays[~held_out]
    truth, marks = (test["yes"] == "True").to_numpy(), []
    for rows in (train.drop_duplicates(WHO), train):
        records = read_records(rows).group_by_person(WHO)
        source = InsecureSource(10 + draw)
        bounds = {"yes": {"categories": ["False", "True"]}}
        model = fit_private(records, "yes", eta=eta, learner=learner, bounds=bounds, source=source)
        likely = model.predict_proba(test.drop(columns=[WHO, "yes"]))[:, 1]
        marks += [float(np.mean((likely > 0.5) == truth)), float(roc_auc_score(truth, likely))]
    return marks


def main() -> None:
    """Print a line per target and learner: means of all draws."""
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--eta", type=float, default=0.05)
    parser.add_argument("--draws", type=int, default=2)
    asked = parser.parse_args()
    table = pd.read_csv(asked.table, keep_default_na=False, dtype=str)
    for target, no in TARGETS.items():
        stays = table[[WHO, *NUMBERS.split(), *TEXTS.split()]]
        stays = stays.assign(yes=(table[target] != no).astype(str))
        for learner in ("logistic", "boosting"):
            drawn = [scores(stays, learner, asked.eta, draw) for draw in range(asked.draws)]
            means = [f"{mean:.3f}" for mean in np.mean(drawn, axis=0)]
            pairs = (" / ".join(means[:2]), " / ".join(means[2:]))
            print("|", " | ".join((target, learner, *pairs)), "|", flush=True)


if __name__ == "__main__":
    main()
