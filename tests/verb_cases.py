"""One small call of every verb, shared by the tests of wording and of the contract."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from commands import command

Types = type | tuple[type, ...]
NUMBER = (int, float)
OPTIONAL = (int, float, type(None))
TEXT = (str, type(None))


@dataclass(frozen=True)
class Case:
    """A call, and the keys of its result that the contract lists (a dotted key is nested)."""

    arguments: str
    keys: dict[str, Types]
    #: A call of the same verb that must be refused.
    refused: str = ""
    #: Limits that the answer keeps and exceeds, where the verb takes one.
    kept: float | None = None
    exceeded: float | None = None
    #: Further calls with golden output.
    also: tuple[str, ...] = ()
    #: A command that creates the files for the call.
    prepared_by: str = ""
    #: Whether its text has a golden file; that of ``theorems`` names files of the repo.
    golden: bool = True


CERTIFIED: dict[str, Types] = {
    "rows": int,
    "n": int,
    "atoms": int,
    "delta_upper": NUMBER,
    "security_lower": NUMBER,
    "accuracy_upper": NUMBER,
    "delta_plug_in_estimate": OPTIONAL,
    "c_k_plug_in_estimate": OPTIONAL,
    "confidence": NUMBER,
    "method": str,
    "record_leak.median": NUMBER,
    "record_leak.p99": NUMBER,
    "record_leak.max": NUMBER,
    "record_leak.exposed_rows": int,
}
MODEL: dict[str, Types] = {
    "eta": NUMBER,
    "rows_trained": int,
    "noise_scale": NUMBER,
    "score_clean": OPTIONAL,
    "score_released": OPTIONAL,
    "score_baseline": OPTIONAL,
    "certificate.upper": NUMBER,
    "out": TEXT,
}
AUDIT: dict[str, Types] = {
    "best": str,
    "attacks": dict,
    "records": dict,
}

CASES: dict[str, Case] = {
    "explain": Case(
        "explain --epsilon 1 --delta 1e-5 --baseline 0.1",
        {
            "adjacency": str,
            "advantage_upper": NUMBER,
            "accuracy_upper": NUMBER,
            "eta_upper": NUMBER,
            "security_lower": NUMBER,
            "tpr_upper.0.01": NUMBER,
            "guess_upper.0.1": NUMBER,
            "epsilon": NUMBER,
            "delta": NUMBER,
        },
        "explain --epsilon -1",
        also=(
            "explain --gdp 1 --adjacency add-remove --prior 0.1",
            "explain --target-tpr 0.05 --fpr 0.01 --sample-rate 0.05 --steps 20",
            "explain --epsilon 700",
            "explain --target-interval 0.02 --n 5000",
        ),
        kept=0.8,
        exceeded=0.6,
    ),
    "certify": Case(
        "certify people.csv --columns sex,ill",
        CERTIFIED,
        "certify people.csv --columns nobody",
        also=(
            "certify visits.csv --unit person",
            "certify people.csv --columns id",
            "certify --uniform 316 --n 32561",
            "certify people.csv --columns sex,ill --reference others.csv",
            "certify --uniform 20 --n 5 --nu 0.2 --lam 0.25",
        ),
        kept=0.7,
        exceeded=0.5,
    ),
    "plan": Case(
        "plan people.csv --columns sex,ill --security 0.9",
        {"n_required": int},
        "plan people.csv",
        also=(
            "plan visits.csv --unit person --security 0.8 --record-leak 0.5",
            "plan people.csv --columns id --security 0.9",
        ),
    ),
    "harden": Case(
        "harden people.csv --security 0.8 --target ill",
        {
            **{f"before.{key}": types for key, types in CERTIFIED.items()},
            **{f"after.{key}": types for key, types in CERTIFIED.items()},
            "steps": list,
            "information_kept_estimate": OPTIONAL,
            "out": TEXT,
        },
        "harden people.csv --security 0.999999 --target ill",
        also=("harden people.csv --security 0.5 --columns sex,ill --reference others.csv",),
    ),
    "population": Case(
        "population numbers.csv --columns x --epsilon 2 --clip 3",
        {
            "epsilon": NUMBER,
            "epsilon_population": OPTIONAL,
            "pmp_epsilon_upper": OPTIONAL,
            "eta_upper": NUMBER,
            "success_upper": NUMBER,
            "sigma": OPTIONAL,
            "worst_record": int,
            "method": str,
        },
        "population numbers.csv --epsilon 2 --sigma 1",
        also=(
            "population numbers.csv --columns x,z --sigma 2 --size 1 --clip 3 --query sum",
            "population visits.csv --columns x --unit person --epsilon 1 --clip 3 "
            "--mechanism exponential --candidates candidates.csv --subsets 200",
        ),
        kept=0.99,
        exceeded=0.5,
    ),
    "bounds": Case("bounds people.csv", {"columns": dict, "out": TEXT}, "bounds nowhere.csv"),
    "protect": Case(
        "protect people.csv --target ill --bounds bounds.yaml --eta 0.1 --insecure-seed 1",
        {**MODEL, "mu": NUMBER, "persons": OPTIONAL, "budget": dict, "curve": dict},
        "protect people.csv --target nobody --bounds bounds.yaml",
    ),
    "summarize": Case(
        "summarize people.csv --statistic mean --columns age --bounds bounds.yaml --eta 0.1 "
        "--insecure-seed 1",
        {
            "eta": NUMBER,
            "mu": NUMBER,
            "values": list,
            "names": list,
            "intervals": list,
            "ranges": dict,
            "certificate.upper": NUMBER,
            "out": TEXT,
        },
        "summarize people.csv --statistic mode --bounds bounds.yaml",
        also=(
            "summarize people.csv --statistic histogram --columns sex --bounds bounds.yaml "
            "--consistent --eta 0.1 --insecure-seed 1",
        ),
    ),
    "synthesize": Case(
        "synthesize people.csv --target ill --columns sex,age --bounds bounds.yaml --eta 0.1 "
        "--insecure-seed 1",
        {
            "eta": NUMBER,
            "mu": NUMBER,
            "rows": int,
            "columns": list,
            "persons": OPTIONAL,
            "budget": dict,
            "curve": dict,
            "fidelity.two_way_tvd_estimate": NUMBER,
            "certificate.upper": NUMBER,
            "out": TEXT,
        },
        "synthesize people.csv --rows 0",
    ),
    "protect-half": Case(
        "protect-half numbers.csv --statistic mean --columns x --eta 0.1 --insecure-seed 1",
        MODEL,
        "protect-half numbers.csv --eta 0.1",
    ),
    "verify": Case(
        "verify released.json",
        {"holds": bool, "file_sha256": str, "mu": NUMBER, "eta": NUMBER, "checks": list},
        "verify people.csv",
        prepared_by="summarize people.csv --statistic mean --columns age --bounds bounds.yaml "
        "--eta 0.1 --insecure-seed 1 --out released.json",
    ),
    "ledger": Case(
        "ledger releases.ledger.json --limit-eta 0.2",
        {"releases": list, "mu": NUMBER, "eta": NUMBER, "left": NUMBER},
        "ledger people.csv",
    ),
    "audit": Case(
        "audit scores.csv --seed 0",
        AUDIT,
        "audit people.csv",
        kept=0.99,
        exceeded=0.6,
    ),
    "audit-table": Case(
        "audit-table inside.csv --nonmembers outside.csv --synthetic inside.csv",
        AUDIT,
        "audit-table people.csv",
        kept=1.0,
        exceeded=0.6,
    ),
    "audit-learner": Case(
        "audit-learner numbers.csv --target y --learner tree --shadows 8 --workers 1 --seed 0",
        AUDIT,
        "audit-learner numbers.csv --target y --learner nothing",
    ),
    "audit-text": Case(
        "audit-text --tokens tokens.csv --seed 0",
        {**AUDIT, "blind": (dict, type(None)), "not_run": dict},
        "audit-text --tokens scores.csv",
        kept=0.99,
        exceeded=0.6,
    ),
    "predict": Case(
        "predict model.skops people.csv --out predictions.csv --force",
        {"rows": int, "out": TEXT},
        "predict people.csv people.csv",
        prepared_by="protect people.csv --target ill --bounds bounds.yaml --eta 0.1 "
        "--insecure-seed 1 --out model.skops --force",
    ),
    "compare": Case(
        "compare report.json report.json",
        {"rows": list, "same_data": bool, "settings": dict, "history": list},
        "compare report.json people.csv",
    ),
    "export": Case(
        "export report.json --format model-card --out card.md --force",
        {"format": TEXT, "audience": TEXT, "out": TEXT, "report_version": TEXT},
        "export people.csv --format model-card --out other.md",
    ),
    "theorems": Case("theorems X5", {"results": list}, "theorems X999", golden=False),
}


def write_files(folder: Path) -> None:
    """Write what the cases read: tables, and the files of other commands."""
    write_tables(folder)
    for case in CASES.values():
        if case.prepared_by:
            assert command(*case.prepared_by.split(), cwd=folder).returncode == 0


def write_tables(folder: Path) -> None:
    """Write the tables that the cases read."""
    rng = np.random.default_rng(0)
    rows = 900
    people = pd.DataFrame(
        {
            "id": np.arange(rows),
            "sex": rng.choice(["f", "m"], rows),
            "age": rng.integers(20, 60, rows),
        }
    )
    people["ill"] = np.where((people["sex"] == "f") ^ (rng.random(rows) < 0.1), "yes", "no")
    people.to_csv(folder / "people.csv", index=False)
    (folder / "bounds.yaml").write_text(
        "sex: {categories: [f, m]}\nage: [0, 100]\nill: {categories: ['yes', 'no']}\n"
    )
    numbers = pd.DataFrame({"x": rng.normal(size=60).round(3)})
    numbers["y"] = np.arange(60) % 2
    numbers["z"] = rng.normal(size=60).round(3)
    numbers.to_csv(folder / "numbers.csv", index=False)
    pd.DataFrame({"x": [0.0, 0.5, 1.0]}).to_csv(folder / "candidates.csv", index=False)
    visits = pd.DataFrame({"person": np.repeat(np.arange(300), 2)})
    visits["x"] = rng.integers(0, 2, len(visits))
    visits.to_csv(folder / "visits.csv", index=False)
    other = np.random.default_rng(1)
    others = pd.DataFrame(
        {
            "id": np.arange(rows, rows + 400),
            "sex": other.choice(["f", "m"], 400),
            "age": other.integers(20, 60, 400),
        }
    )
    others["ill"] = np.where((others["sex"] == "f") ^ (other.random(400) < 0.1), "yes", "no")
    others.to_csv(folder / "others.csv", index=False)
    scores = pd.DataFrame({"score": rng.normal(size=200).round(3), "member": np.arange(200) % 2})
    scores["score"] += 2 * scores["member"]
    scores.to_csv(folder / "scores.csv", index=False)
    tokens = pd.DataFrame({"record": np.repeat(np.arange(200), 10)})
    tokens["member"] = tokens["record"] % 2
    tokens["position"] = np.tile(np.arange(10), 200)
    tokens["logprob"] = (-rng.exponential(2 - tokens["member"])).round(4)
    tokens.to_csv(folder / "tokens.csv", index=False)
    traits = pd.DataFrame(rng.normal(size=(400, 3)).round(2), columns=["a", "b", "c"])
    traits[:200].to_csv(folder / "inside.csv", index=False)
    traits[200:].to_csv(folder / "outside.csv", index=False)
    shutil.copy(Path(__file__).parent / "report" / "sample.json", folder / "report.json")
