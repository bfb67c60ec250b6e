"""``certify`` and ``plan`` as functions: laws against rationals, tables against their counts."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from memberbound.errors import InputError
from memberbound.iid.certificates import certify_counts
from memberbound.iid.profiles import CountProfile
from memberbound.iid.sample_sizes import smallest_n_for_table
from memberbound.iid.worst_case import leak_of_law
from memberbound.numerics.roots import least_whole
from memberbound.verbs.certify import certify, certify_profile
from memberbound.verbs.plan import plan
from oracle.iid import worst_leak


@pytest.mark.parametrize("gamma", [Fraction(1), Fraction(3, 2), Fraction(1, 2)])
@pytest.mark.parametrize("n", [1, 7, 25])
def test_law_against_rationals(n, gamma):
    law = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    nu = float(gamma / (1 + gamma))
    result = certify(probabilities=[float(p) for p in law], n=n, nu=nu)
    truth = worst_leak(law, n, gamma)
    assert Fraction(result.delta_upper) >= truth * (1 - Fraction(1, 10**12))
    assert result.delta_upper <= float(truth) * (1 + 1e-6) + 1e-9
    assert Fraction(result.security_lower) <= 1 - truth + Fraction(1, 10**12)


def test_accuracy_is_the_best_attack():
    # n = 1, two fair atoms: the member is known, a stranger agrees half of the time.
    result = certify(probabilities=[0.5, 0.5], n=1)
    assert result.to_dict()["accuracy_upper"] == pytest.approx(0.75, rel=1e-12)
    weighted = certify(probabilities=[0.5, 0.5], n=1, nu=0.25, lam=2.0).to_dict()
    assert weighted["accuracy_upper"] == pytest.approx(0.875, rel=1e-12)
    assert weighted["accuracy_weighted_upper"] == pytest.approx(1.625, rel=1e-12)
    assert "accuracy_weighted_upper" not in result.to_dict()


def test_uniform_equals_the_law():
    one = certify(uniform=50, n=333).to_dict()
    other = certify(probabilities=np.full(50, 0.02), n=333).to_dict()
    assert one["delta_upper"] == pytest.approx(other["delta_upper"], rel=1e-10)
    assert one["record_leak"]["max"] == pytest.approx(other["record_leak"]["max"], rel=1e-10)


def test_a_table_is_certified_from_its_counts(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(f"{i % 3},{i % 2}" for i in range(600)) + "\n")
    result = certify(path).to_dict()
    assert (result["rows"], result["n"], result["atoms"]) == (600, 600, 6)
    direct = certify_counts(CountProfile.from_counts([100] * 6))
    assert result["delta_upper"] == direct.delta_upper
    fewer = certify(path, columns=["b"]).to_dict()
    assert fewer["atoms"] == 2
    assert fewer["delta_upper"] < result["delta_upper"]


def test_more_rows_than_the_table_has():
    profile = CountProfile.from_counts([100] * 6)
    here = certify_profile(profile)
    more = certify_profile(profile, n=60_000)
    assert more.delta_upper < here.delta_upper
    assert "X16" in more.theorems
    assert more.delta_upper >= leak_of_law(np.full(6, 1 / 6), 60_000)


def test_reference_rows_help(tmp_path):
    rng = np.random.default_rng(3)
    train, extra = tmp_path / "t.csv", tmp_path / "r.csv"
    for path, rows in ((train, 500), (extra, 20_000)):
        values = rng.integers(0, 40, rows)
        path.write_text("x\n" + "\n".join(map(str, values)) + "\n")
    alone = certify(train)
    beside = certify(train, reference=extra)
    assert beside.delta_upper < alone.delta_upper
    assert beside.delta_upper >= leak_of_law(np.full(40, 1 / 40), 500)


def test_records_are_written_with_their_leak(tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "leaks.csv"
    path.write_text("x\n" + "a\n" * 300 + "b\n")
    result = certify(path, records=out)
    lines = out.read_text().splitlines()
    assert lines[0] == "x,record_leak_upper"
    assert len(lines) == 302
    leaks = {line.split(",")[0]: float(line.split(",")[1]) for line in lines[1:]}
    assert leaks["b"] == 1.0
    assert leaks["a"] == pytest.approx(result.leaks.leak[-1])
    with pytest.raises(InputError):
        certify(path, records=out)
    certify(path, records=out, force=True)


BAD = [
    ({}, "exactly one"),
    ({"uniform": 5, "probabilities": [1.0], "n": 3}, "exactly one"),
    ({"uniform": 5}, "n must be given"),
    ({"uniform": 5, "n": 0}, "n must be"),
    ({"probabilities": [0.5, 0.4], "n": 10}, "1"),
    ({"uniform": 5, "n": 10, "unit": "a"}, "apply only to a table"),
    ({"uniform": 5, "n": 10, "nu": 1}, "nu must be"),
    ({"table": "missing.csv"}, "missing.csv"),
]


@pytest.mark.parametrize(("options", "word"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_input(options, word):
    with pytest.raises(InputError) as caught:
        certify(**options)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- plan --------------------------------------------------------------------------------------


def test_plan_for_a_law_is_exact():
    law = [0.5, 0.3, 0.2]
    n = plan(security=0.9, probabilities=law).n_required
    assert leak_of_law(law, n) <= 0.1 < leak_of_law(law, n - 1)


def test_plan_for_records():
    n = plan(record_leak=0.1, uniform=20).n_required
    assert certify(uniform=20, n=n).record_leak.max <= 0.1
    both = plan(record_leak=0.1, security=0.99, uniform=20).n_required
    assert both == max(n, plan(security=0.99, uniform=20).n_required)


def test_plan_for_a_table_is_certified_and_valid():
    rng = np.random.default_rng(11)
    law = np.full(30, 1 / 30)
    enough = least_whole(lambda m: leak_of_law(law, m) <= 0.1)
    profiles = [CountProfile.from_counts(c) for c in rng.multinomial(2000, law, size=6)]
    found = [smallest_n_for_table(profile, security=0.9) for profile in profiles]
    # At β = 0.05 more than 3 of 6 has probability below 1e-4.
    assert sum(n < enough for n in found) <= 3
    assert max(found) <= 3 * enough


def test_plan_explains_when_no_number_can_be_certified(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "\n".join(map(str, range(100))) + "\n")
    result = plan(path, security=0.9)
    assert result.n_required is None
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"uniform": 5}, "target"),
        ({"security": 1.0, "uniform": 5}, "security"),
        ({"security": 0.5}, "exactly one"),
        ({"security": 0.5, "uniform": 5, "columns": ["a"]}, "apply only to a table"),
    ],
)
def test_bad_plans(options, word):
    with pytest.raises(InputError, match=word):
        plan(**options)


@pytest.mark.parametrize("index", [0, 2])
def test_values_of_probability_zero_are_not_atoms(index, tmp_path):
    law = [0.5, 0.5]
    padded = [*law[:index], 0.0, *law[index:]]
    here, there = certify(probabilities=law, n=100), certify(probabilities=padded, n=100)
    assert there.to_dict() == here.to_dict()
    path = tmp_path / "law.csv"
    path.write_text("p\n" + "\n".join(map(str, padded)), encoding="utf-8")
    assert certify(probabilities=path, n=100).to_dict() == here.to_dict()
    wish = {"security": 0.9, "record_leak": 0.1}
    assert plan(probabilities=padded, **wish).to_dict() == plan(probabilities=law, **wish).to_dict()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tiny", [5e-324, 1e-12])
def test_an_atom_however_rare_leaks_at_most_everything(tiny):
    found = certify(probabilities=[0.5, 0.5, tiny], n=100).to_dict()
    assert found["atoms"] == 3
    assert found["record_leak"]["max"] <= 1


def visits():
    """2000 persons with two visits each."""
    rng = np.random.default_rng(3)
    return pd.DataFrame({"person": np.repeat(np.arange(2000), 2), "x": rng.integers(0, 2, 4000)})


def test_unit_is_carried_by_every_face_of_certify():
    by_person, by_row = certify(visits(), unit="person"), certify(visits(), columns="x")
    assert by_person.to_dict()["unit"] == "person"
    assert by_row.to_dict()["unit"] is None
    assert certify(uniform=3, n=10).to_dict()["unit"] is None
    assert set(by_person.to_dict()) == set(by_row.to_dict())
    assert by_person.rows == 2000
    assert not any("the rows are" in a.lower() for a in by_person.assumptions)
    assert by_person.atoms == 3  # the bags {0, 0}, {0, 1} and {1, 1}
    vacuous = certify(visits().assign(x=np.arange(4000)), unit="person")
    assert vacuous.delta_upper == 1.0
    assert all("2000 rows" not in warning for warning in vacuous.warnings)


@pytest.mark.parametrize("wish", [{"security": 0.8}, {"security": 0.8, "record_leak": 0.5}])
def test_unit_is_carried_by_every_face_of_plan(wish):
    by_person, by_row = plan(visits(), unit="person", **wish), plan(visits(), columns="x", **wish)
    assert by_person.to_dict()["unit"] == "person"
    assert by_row.to_dict()["unit"] is None
    assert set(by_person.to_dict()) == set(by_row.to_dict())
    needed = by_person.n_required
    # The wording is accurate: this many persons, certified as persons.
    again = certify(visits(), unit="person", n=needed)
    assert again.security_lower >= 0.8
    none = plan(visits().assign(x=np.arange(4000)), unit="person", security=0.9)
    assert none.n_required is None
