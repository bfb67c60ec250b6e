"""``verify`` on answers, reports, coarser tables and releases of a half: no forgery passes."""

import json

import numpy as np
import pandas as pd
import pytest

from commands import command
from memberbound import certify, harden, plan, population, protect_half, summarize, verify
from memberbound.errors import InputError
from memberbound.files import file_digest
from memberbound.release.derivation import SEAL, seal
from oracle.mutated_answers import change, mutate, paths, write

DRAWS = np.random.default_rng(3)
ROWS = 1200
PEOPLE = pd.DataFrame(
    {
        "age": DRAWS.integers(18, 90, ROWS),
        "sex": DRAWS.choice(["f", "m"], ROWS),
        "ward": DRAWS.choice(list("abcde"), ROWS),
    }
)
PEOPLE["ill"] = np.where(PEOPLE["age"] + DRAWS.normal(0, 15, ROWS) > 60, "yes", "no")
COUNTED = ["sex", "ward", "ill"]
FEW = PEOPLE[["age"]].iloc[:60].assign(height=np.arange(60.0))
POINTS = [[30.0, 10.0], [60.0, 40.0]]


def released_numbers(table=PEOPLE):
    return summarize(
        table, statistic="mean", columns=["age"], bounds={"age": [0, 100]}, insecure_seed=1
    )


#: Answer → its call, and the owner's table.
ANSWERS = {
    "certify": (lambda: certify(PEOPLE, columns=COUNTED), PEOPLE),
    "certify part": (lambda: certify(PEOPLE, columns=COUNTED, n=400, nu=0.3), PEOPLE),
    "certify more": (lambda: certify(PEOPLE, columns=COUNTED, n=5000), PEOPLE),
    "certify reference": (
        lambda: certify(PEOPLE[:800], columns=COUNTED, reference=PEOPLE[800:]),
        PEOPLE[:800],
    ),
    "certify law": (lambda: certify(probabilities=[0.5, 0.25, 0.25], n=50, lam=2.0), None),
    "certify uniform": (lambda: certify(uniform=40, n=3000), None),
    "plan": (lambda: plan(PEOPLE, columns=COUNTED, security=0.9), PEOPLE),
    "plan law": (lambda: plan(probabilities=[0.5, 0.25, 0.25], record_leak=0.2), None),
    "plan uniform": (lambda: plan(uniform=40, security=0.9), None),
    "harden": (lambda: harden(PEOPLE, security=0.85, target="ill"), None),
    "population": (lambda: population(FEW, epsilon=4.0, clip=100.0), FEW),
    "population target": (lambda: population(FEW, target_success=0.7, clip=100.0), FEW),
    "population choice": (
        lambda: population(
            FEW[:10], mechanism="exponential", candidates=POINTS, epsilon=2.0, clip=100.0
        ),
        FEW[:10],
    ),
    "summarize": (released_numbers, None),
}
#: Keys that cannot be checked without the table, and those that are no bounds.
OWNERS = {
    "summarize": ("intervals", "method"),
    "harden": ("before", "information_estimate", "frontier_estimate"),
    "population": (
        "success_upper",
        "pmp_epsilon_upper",
        "eta_upper",
        "most_exposed",
        "coupling",
        "method",
        "confidence",
        "sentence",
    ),
}


@pytest.fixture(scope="module")
def answers():
    """Return every answer as its command prints it with ``--json``."""
    return {name: json.loads(json.dumps(make().to_dict())) for name, (make, _) in ANSWERS.items()}


@pytest.mark.parametrize("name", ANSWERS)
def test_genuine_answers_hold(answers, tmp_path, name):
    path = write(answers[name], tmp_path)
    answer = verify(path)
    assert answer.holds, [check for check in answer.checks if not check.holds]
    assert answer.file_sha256 == file_digest(path)
    assert answer.game.name == answers[name]["game"]
    _, table = ANSWERS[name]
    if table is not None:
        owned = verify(path, table=table)
        assert owned.holds, [check for check in owned.checks if not check.holds]
        assert len(owned.checks) > len(answer.checks)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_that_promise_more_are_rejected(answers, tmp_path, name):
    # A plan may hold at a slightly higher confidence as well.
    further = ("confidence",) if name == "plan" else OWNERS.get(name.split()[0], ())
    apart = ("derivation", *further)
    for path, other in mutate(answers[name], 8 if name == "plan" else 40, apart=apart):
        answer = verify(write(other, tmp_path))
        assert not answer.holds, path
        assert answer.statement is None
        assert answer.eta is None


def test_nothing_is_proved_that_only_the_owner_can_recompute(answers, tmp_path):
    """A bound on single records that is too small, with its sentence: no verifier can detect it."""
    path = write(answers["population"], tmp_path)
    alone, owner = verify(path), verify(path, table=FEW)
    assert (alone.holds, alone.eta, alone.statement) == (True, None, None)
    assert (owner.eta, owner.statement) == (
        answers["population"]["eta_upper"], answers["population"]["sentence"]
    )  # fmt: skip
    assert "--table" in alone.sentence


@pytest.mark.parametrize("name", ["population", "population target"])
def test_only_the_owner_recomputes_bounds_from_rows(answers, tmp_path, name):
    for path, other in mutate(answers[name], 4, seed=1, apart=("derivation",)):
        assert not verify(write(other, tmp_path), table=FEW).holds, path


@pytest.mark.parametrize("name", [n for n in ANSWERS if n.split()[0] in ("certify", "plan")])
def test_counts_that_leak_less_are_rejected(answers, tmp_path, name):
    """More rows in a cell, fewer cells, more likely atoms: the bounds no longer follow."""
    whole = answers[name]
    for path, value in paths(whole["derivation"]):
        if isinstance(value, str) or (len(path) > 1 and path[1] > 1):
            continue
        new = value * 0.9 if isinstance(value, float) else value + 1
        other = change(whole, ("derivation", *path), new)
        assert not verify(write(other, tmp_path)).holds, path


def test_a_looser_bound_holds(answers, tmp_path):
    looser = change(answers["certify"], ("record_leak", "max"), 0.99)
    assert verify(write(looser, tmp_path)).holds


def test_another_table_has_other_counts_and_records(answers, tmp_path):
    for name, table in (("certify", PEOPLE[1:]), ("plan", PEOPLE[:-1]), ("population", FEW[::-1])):
        answer = verify(write(answers[name], tmp_path), table=table)
        assert [check.name for check in answer.checks if not check.holds][:1] in (
            ["counts of the table"],
            ["records of the table"],
        )


def test_the_file_beside_an_answer_is_its_table(answers, tmp_path):
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    PEOPLE[1:].to_csv(tmp_path / "fewer.csv", index=False)
    path = write(answers["certify"], tmp_path)
    assert verify(tmp_path / "people.csv", certificate=path).holds
    assert not verify(tmp_path / "fewer.csv", certificate=path).holds


# ── Coarser tables ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def coarse(tmp_path_factory):
    """Return the file of a coarser table, and its certificate."""
    out = tmp_path_factory.mktemp("coarse") / "safe.csv"
    harden(PEOPLE, security=0.85, target="ill", out=out)
    return out, json.loads(out.with_name("safe.csv.certificate.json").read_text("utf-8"))


def test_coarser_tables_hold_and_forged_ones_do_not(coarse, tmp_path):
    file, certificate = coarse
    answer = verify(file)
    assert answer.holds, answer.checks
    assert answer.game.name == "iid"
    for path, other in mutate(certificate, 12):
        assert not verify(file, certificate=write(other, tmp_path)).holds, path


def test_coarser_tables_that_promise_something_else_are_rejected(coarse, tmp_path):
    file, certificate = coarse
    for path, new in (
        (("certificate", "theorems"), ["X18"]),
        (("certificate", "kind"), "estimate"),
        (("certificate",), None),
        (("bounds",), []),
        (("unit",), "person"),
    ):
        other = change(certificate, path, new)
        assert not verify(file, certificate=write(other, tmp_path)).holds, path


def test_a_coarser_table_with_other_rows_does_not_hold(coarse, tmp_path):
    file, certificate = coarse
    lines = file.read_text("utf-8").splitlines()
    other = tmp_path / "safe.csv"
    other.write_text("\n".join([*lines[:-1], lines[-1].replace(",", ",x", 1)]) + "\n", "utf-8")
    forged = certificate | {"sha256": file_digest(other)}
    forged[SEAL] = seal(forged)
    answer = verify(other, certificate=write(forged, tmp_path))
    assert [check.name for check in answer.checks if not check.holds] == ["counts of the file"]


# ── Releases of a secret half ─────────────────────────────────────────────────────────────────────

HALVES = {
    "sum": {"statistic": "mean", "columns": ["age", "height"]},
    "counts": {"statistic": "histogram", "columns": ["age"]},
    "pairs": {"statistic": "quantiles", "columns": ["age"], "method": "neighbour"},
    "mixtures": {"statistic": "quantiles", "columns": ["age"], "record": "average"},
    "centre": {"statistic": "quantiles", "columns": ["age"], "method": "moment"},
    "izzo": {"statistic": "quantiles", "columns": ["age"], "method": "izzo"},
}


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Return releases of a half by name, with their certificates."""
    folder, made = tmp_path_factory.mktemp("halves"), {}
    for name, options in HALVES.items():
        out = folder / f"{name}.json"
        pairs = {} if name in ("sum", "counts") else {"pairs": 150, "workers": 1}
        protect_half(FEW, eta=0.3, out=out, insecure_seed=1, **options, **pairs)
        text = out.with_name(f"{name}.json.certificate.json").read_text("utf-8")
        made[name] = out, json.loads(text)
    return made


@pytest.mark.parametrize("name", HALVES)
def test_halves_hold_and_forged_ones_do_not(halves, tmp_path, name):
    file, certificate = halves[name]
    for given in (None, FEW):
        answer = verify(file, table=given)
        assert answer.holds, [check for check in answer.checks if not check.holds]
        proved = name not in ("sum", "counts") or given is not None
        eta = certificate["certificate"]["upper"] if proved else None
        assert (answer.game.name, answer.eta) == ("subset", eta)
        assert (answer.statement is not None) == proved
    table = FEW if name in ("sum", "counts") else None
    # The scales of mixtures are tested in steps: one may hold at a slightly higher confidence.
    apart = ("method", "confidence") if name == "mixtures" else ("method",)
    for path, other in mutate(certificate, 30 if table is None else 6, apart=apart):
        assert not verify(file, certificate=write(other, tmp_path), table=table).holds, path


@pytest.mark.parametrize("name", ["sum", "pairs", "izzo"])
def test_halves_that_promise_something_else_are_rejected(halves, tmp_path, name):
    file, certificate = halves[name]
    for path, new in (
        (("unit",), "person"),
        (("certificate", "kind"), "estimate"),
        (("certificate", "theorems"), ["X99"]),
        (("certificate", "theorems"), []),
        (("noise", "law"), "laplace"),
        (("method",), "best"),
        (("certificate",), None),
        (("noise",), 3),
    ):
        other = change(certificate, path, new)
        assert not verify(file, certificate=write(other, tmp_path)).holds, path


def test_halves_with_other_draws_or_further_promises_are_rejected(halves, tmp_path):
    """Draws that were left out, repeated or not numbers; a bound where no check reads it."""
    file, certificate = halves["centre"]
    draws = certificate["derivation"]["lengths"]
    for path, new in (
        (("derivation", "lengths"), sorted(draws)[:-10]),
        (("derivation", "lengths"), draws * 100),
        (("derivation", "lengths"), [-draw for draw in draws]),
        (("derivation", "lengths"), list(map(str, draws))),
        (("derivation", "distances"), [0.0] * len(draws)),
        (("certificate", "theorems"), ["X4"]),
        (("certificate", "eta_upper"), 0.1),
        (("accuracy_upper",), 0.5),
        (("Statement",), "Nobody is right more than 50 % of the time."),
    ):
        other = change(certificate, path, new)
        assert not verify(file, certificate=write(other, tmp_path)).holds, path
    record = {"format": "memberbound-calibration/1", "distances": [0.0] * len(draws)}
    apart = {key: certificate["derivation"][key] for key in ("statements", "floor")}
    other = change(certificate, ("derivation",), record | apart)
    assert not verify(file, certificate=write(other, tmp_path)).holds


@pytest.mark.parametrize("name", ["pairs", "mixtures", "centre"])
def test_halves_with_less_noise_or_fewer_moves_are_rejected(halves, tmp_path, name):
    file, certificate = halves[name]
    record = certificate["derivation"]
    kind = "lengths" if "lengths" in record else "distances"
    scale = certificate["scale"]
    less = change(change(certificate, ("scale",), scale / 2), ("noise", "scale"), scale / 2)
    more = change(certificate, ("derivation", kind), [min(1.0, 2 * x) for x in record[kind]])
    fewer = change(certificate, ("derivation", kind), record[kind][:5])
    one = change(certificate, ("derivation", "statements"), 7)
    less_eta = change(change(certificate, ("eta",), 0.2), ("certificate", "upper"), 0.2)
    forged = [less, fewer, one, less_eta] + ([more] if kind == "distances" else [])
    for other in forged:
        assert not verify(file, certificate=write(other, tmp_path)).holds


def test_ledgers_are_of_all_rows(halves, tmp_path):
    from memberbound import ledger

    ledger(tmp_path / "ledger.json", limit_eta=0.3)
    with pytest.raises(InputError, match="all rows"):
        verify(halves["sum"][0], ledger=tmp_path / "ledger.json")


# ── Reports, and documents that are none ──────────────────────────────────────────────────────────


def test_answers_that_are_none_end_with_one_sentence(answers, tmp_path):
    whole = answers["certify"]
    for other in (
        whole | {"command": "audit"},
        whole | {"derivation": None},
        {"command": "study", "steps": []},
        {"command": "study", "steps": [{"result": 1}]},
    ):
        ended = command("verify", str(write(other, tmp_path)))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert len(ended.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"format": "memberbound-counts/1"},
        {"format": "memberbound-counts/1", "count": [1], "cells": [-1]},
        {"format": "memberbound-counts/1", "count": [2, 1], "cells": [1, 1]},
        {"format": "memberbound-counts/1", "count": [1], "cells": [1, 2]},
        {"format": "memberbound-counts/1", "count": [True], "cells": [1]},
        {"format": "memberbound-counts/1", "count": [10**400], "cells": [1]},
        {"format": "memberbound-counts/1", "probability": [2.0], "cells": [1]},
        {"format": "memberbound-counts/1", "uniform": "many"},
        {"format": "memberbound-counts/1", "uniform": 5, "extra": 1},
        {"format": "memberbound-population/1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["certify", "plan", "population", "summarize", "harden"])
def test_records_that_are_none_fail_and_do_not_crash(answers, tmp_path, record, name):
    answer = verify(write(answers[name] | {"derivation": record}, tmp_path))
    assert not answer.holds
    json.dumps(answer.to_dict(), allow_nan=False)
