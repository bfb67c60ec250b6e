"""Certificates forged by hand, each consistent but for one trick: both verifiers reject them."""

import copy
import json
import math

import pytest

from memberbound import summarize, verify
from memberbound.errors import InputError
from memberbound.files import file_digest
from memberbound.release.derivation import (
    PREDICATE_TYPE,
    SEAL,
    group_statement,
    json_digest,
    seal,
    statement,
)
from memberbound.release.verification import recompute_certificate
from oracle import releases
from oracle.independent import verifier

D, M, S = "derivation/", "derivation/measurements/0/", "derivation/slacks/0/"
ONE, RATES = "curve/replace_one/", "curve/replace_one/tpr_upper"


def doubled_noise(c, name=None):
    """Half the sensitivity and noise of counts, under another name."""
    for part in c["derivation"]["measurements"]:
        part |= {key: part[key] / 2 for key in ("sensitivity", "noise_scale", "grid_step")}
        part["name"] = name or part["name"]


def words(c, old, new):
    assert old in c["statement"]
    c["statement"] = c["statement"].replace(old, new)


def persons(c):
    """A release about rows, as one about persons."""
    c["unit"] = c["derivation"]["unit"] = "person"
    theorems = sorted([*c["certificate"]["theorems"], "X26"])
    c["certificate"]["theorems"] = c["derivation"]["theorems"] = theorems


def better(c, eta):
    """Print a smaller η everywhere, in words as well."""
    c["curve"] |= {"eta_upper": eta, "security_lower": 1 - 2 * eta}
    c["certificate"]["upper"] = eta
    c["curve"]["replace_one"] |= {"advantage_upper": 2 * eta, "accuracy_upper": 0.5 + eta}
    c["statement"] = statement(0.5 + eta, c["unit"])


def without_draws(c):
    c["derivation"]["measurements"][0]["coordinates"] = 0
    c["derivation"]["slacks"][0] |= {"count": 0, "amount": 0.0}
    c["derivation"]["slack"] = 0.0


def without_names(c):
    """The classes of a target are named, and no chance of naming what one record has is added."""
    c["derivation"]["measurements"][0]["name"] = "classes of the target"


def without_noise(c):
    empty = dict.fromkeys(("sensitivity", "noise_scale", "grid_step"))
    c["derivation"]["measurements"][0] |= empty | {"vectors": 0, "coordinates": 0}


def other_group(c):
    """The line for 10 records with the numbers of 5."""
    c["groups"][2] |= {key: c["groups"][1][key] for key in ("eta_upper", "accuracy_upper")}
    c["groups"][2]["statement"] = group_statement(10, c["groups"][1]["accuracy_upper"], c["unit"])


def zero_steps(c):
    """A full-batch release as one that samples, whose bounds cannot be computed in closed form."""
    c["mu"] = c["derivation"]["mu"] = None
    c["certificate"]["theorems"] = c["derivation"]["theorems"] = ["X12", "X22"]
    step = {"name": "steps", "norm": "l2", "sensitivity": 1.0, "sample_rate": 1.0, "steps": 0}
    step |= {"coordinates": 0, "noise_scale": 8.0, "grid_step": 2.0, "noise_multiplier": 8.0}
    c["derivation"]["sampled"] = [step]
    better(c, 0.001)


FORGERIES = {
    # The record.
    "adjacency": {D + "adjacency": "add-remove"},
    "adjacency shifted": {
        D + "game": "neighbour, replace-one", D + "adjacency": "every", "record": "",
    },
    "no measurements": {D + "measurements": [], D + "budget_spent": 0.0},
    "nothing at all": {
        D + "measurements": [], D + "budget_spent": 0.0, D + "slacks": [], D + "slack": 0.0,
    },
    "measurements an object": {D + "measurements": {}},
    "no noise": without_noise,
    "no draws": without_draws,
    "names left out": without_names,
    "many coordinates": {M + "coordinates": 10**300},
    "negative noise": {M + "noise_scale": -8.0},
    "negative zero": {M + "sensitivity": -0.0},
    "zero budget": {"mu": -0.0, D + "mu": -0.0, D + "budget_mu": -0.0},
    "negative slack": {D + "slack": -0.0},
    "coarse grid": {M + "grid_step": 1024.0},
    "grid of no power": {M + "grid_step": lambda step: step * 0.75},
    "no grid": {M + "grid_step": None},
    "a number as text": {M + "vectors": "1"},
    "half a vector": {M + "vectors": 0.5},
    "mu as text": {"mu": str, D + "mu": str},
    "two reasons": {D + "slacks": lambda parts: parts * 2},
    "another reason": {
        D + "slacks": lambda parts: [*parts, {**parts[0], "reason": "set aside", "amount": 0.0}],
    },
    "reason in other letters": {S + "reason": "draws in floating p\u043eint"},
    "counts with less noise": doubled_noise,
    "a space in the name": lambda c: doubled_noise(c, "counts "),
    "capitals in the name": lambda c: doubled_noise(c, "Counts"),
    "other letters in the name": lambda c: doubled_noise(c, "\u0441ounts"),
    "no mu": lambda c: (c.update(mu=None), c["derivation"].update(mu=None), better(c, 0.001)),
    "no steps": zero_steps,
    # The promise.
    "theorems as text": {"certificate/theorems": "X22", D + "theorems": "X22"},
    "another theorem": {"certificate/theorems": ["X12"], D + "theorems": ["X12"]},
    "no assumptions": {"certificate/assumptions": []},
    "assumptions as text": {"certificate/assumptions": "none"},
    "a unit in one place": {D + "unit": "person"},
    "persons": persons,
    "persons in public": lambda c: (
        persons(c), c["derivation"]["public"].insert(0, "number of persons (values of 'person')")
    ),
    "an empty unit": {"unit": "", D + "unit": ""},
    "public as text": {D + "public": "number of rows"},
    "more is public": {D + "public": lambda listed: ["the table", *listed]},
    "less was asked for": {"eta": lambda eta: eta * 0.9},
    "other rows": {"rows_trained": lambda rows: rows + 1},
    # The bounds.
    "bounds as text": {"curve/eta_upper": "0.05", "certificate/upper": "0.05"},
    "a bound that is true": {ONE + "accuracy_upper": True},
    "delta of zero": {"curve/delta": 0.0},
    "a smaller delta": {"curve/delta": 1e-9},
    "epsilon of zero": {ONE + "epsilon_upper": 0.0},
    "epsilon as text": {ONE + "epsilon_upper": "0"},
    "no rates": {RATES: {}},
    "a rate that is none": {RATES: {"nan": 0.001}},
    "a negative rate": {RATES + "/-0.5": 0.001},
    "a rate in other digits": {RATES + "/\u0660.\u0661": 1.0},
    "a rate with a gap": {RATES + "/0.0_1": 1.0},
    "a rate again": {RATES + "/0.10000": 0.1},
    "a smaller mu": {"curve/mu_upper": 0.001},
    "groups swapped": other_group,
    "groups all alike": {"groups": lambda groups: [groups[0]] * 3},
    "one more group": {"groups": lambda groups: [groups[0], *groups]},
    "no groups": {"groups": []},
    # Promises that no check is about.
    "a bound of the curve": {"curve/accuracy_upper": 0.5},
    "a bound in place of another": lambda c: (
        c["curve"].pop("delta"), c["curve"].update(accuracy_upper=0.5)
    ),
    "a bound in capitals": {ONE + "Accuracy_upper": 0.5},
    "a word of a group": {"groups/0/statements": "at most 50 %"},
    "a statement in capitals": {"Statement": "Nobody is right more than 50 % of the time."},
    "a statement with a space": {"statement ": "Nobody is right more than 50 % of the time."},
    "wide letters": {"\uff45\uff54\uff41": 0.0001},
    "other letters": {"\u0435ta": 0.0001},
    "a bound at the top": {"accuracy_upper": 0.5},
    "something not counted": {D + "not_counted": [1]},
    "a clip": {M + "clip": 0.5},
    # The sentence.
    "rounded down": {ONE + "accuracy_upper": lambda x: math.nextafter(x, 1)},
    "no negation": lambda c: words(c, "Nobody", "Somebody"),
    "another unit": lambda c: words(c, "every other record", "every other person"),
    "less than": lambda c: words(c, "more than", "less than"),
    "further words": {"statement": lambda text: text + " The data are anonymous."},
    "a space at the end": {"statement": lambda text: text + " "},
    "a hard space": lambda c: words(c, " %", "\u00a0%"),
    "zero width": lambda c: words(c, "51", "51\u200b"),
    "right to left": lambda c: words(c, "51 %", "\u202e15\u202c %"),
    "wide digits": lambda c: words(c, "51", "\uff15\uff11"),
    "one digit more": lambda c: words(c, "51 %", "50.99 %"),
    "another group's line": lambda c: c["groups"][2].update(statement=c["groups"][0]["statement"]),
    "another group's number": lambda c: c["groups"][2].update(
        statement=c["groups"][1]["statement"].replace("5 ", "10 ", 1)
    ),
}  # fmt: skip

OF_NETWORKS = {
    "rate above one": {"sample_rate": 1.5},
    "rate of zero": {"sample_rate": 0.0},
    "negative rate": {"sample_rate": -0.0},
    "no steps": {"steps": 0},
    "too many steps": {"steps": 10**9},
    "steps as text": {"steps": "80"},
    "less noise": {"noise_multiplier": lambda sigma: sigma * 0.99},
    "coarse grid": {"grid_step": lambda step: step * 2},
    "mean norm": {"norm": "l1"},
    "no scale": {"noise_scale": None},
}


def change(document, forgery):
    """Change a document: by a function, or to new values by path."""
    if callable(forgery):
        forgery(document)
        return
    for path, value in forgery.items():
        parent, *keys = document, *path.split("/")
        for key in keys[:-1]:
            parent = parent[int(key) if key.isdigit() else key]
        parent[keys[-1]] = value(parent[keys[-1]]) if callable(value) else value


def forge(certificate, forgery):
    """Return a certificate after a forgery, sealed again."""
    forged = copy.deepcopy(certificate)
    change(forged, forgery)
    assert json.dumps(forged) != json.dumps(certificate)
    forged[SEAL] = seal(forged)
    return forged


def check_rejected(file, forged, folder):
    """Require that both verifiers find something wrong."""
    path = folder / "certificate.json"
    path.write_text(json.dumps(forged), encoding="utf-8")
    assert any(check.holds is False for check in verifier.verify(file, path))
    assert not all(check.holds for check in recompute_certificate(forged, file_digest(file)))


def certificate_of(file):
    return json.loads(file.with_name(f"{file.name}.certificate.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """A released histogram, of secret noise, with its certificate."""
    file = tmp_path_factory.mktemp("counts") / "counts.json"
    listed = {"smoker": ["no", "yes"]}
    table = releases.people()[["smoker"]]
    summarize(table, statistic="histogram", eta=0.01, bounds=listed, out=file)
    return file, certificate_of(file)


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_by_hand_are_rejected(counts, tmp_path, name):
    file, certificate = counts
    check_rejected(file, forge(certificate, FORGERIES[name]), tmp_path)


FIRST, SECOND = "releases/0/", "releases/1/"
LEDGERS = {
    "negative slack": {SECOND + "slack": -1.0},
    "negative mu": {SECOND + "mu": -0.01},
    "mu as text": {SECOND + "mu": "0.1"},
    "another unit": {SECOND + "unit": "person"},
    "an id twice": lambda book: book["releases"][1].update(id=book["releases"][0]["id"]),
    "a larger limit": {"limit/mu": 9.0},
    "a limit as text": {"limit/eta": "0.3"},
    "more in the limit": {"limit/accuracy": 0.5},
    "more in the ledger": {"left": 0.3},
    "no releases": {"releases": []},
    "another file": {FIRST + "release_sha256": "0" * 64},
    "less was spent": {FIRST + "mu": lambda mu: mu / 2},
}


@pytest.fixture(scope="module")
def entered(tmp_path_factory):
    """A release, its certificate, and a ledger with it and another one."""
    folder = tmp_path_factory.mktemp("ledger")
    book = releases.make_ledger(folder)
    files = [releases.make(name, folder, book) for name in ("numbers", "counts")]
    return files[0], certificate_of(files[0]), json.loads(book.read_text("utf-8"))


def link(book, certificate):
    """Take the links, the head, and the certificate's place in the chain again."""
    link = json_digest({"limit": book["limit"], "releases": []})
    for entry in book["releases"]:
        entry["previous"] = link
        later = ("state", "out", "release_sha256")
        link = json_digest({key: value for key, value in entry.items() if key not in later})
        if entry is book["releases"][0]:
            certificate["ledger"]["link"] = link
    book["head"] = json_digest({key: value for key, value in book.items() if key != "head"})
    certificate[SEAL] = seal(certificate)


@pytest.mark.parametrize("name", [None, *LEDGERS])
def test_forged_ledgers_are_rejected(entered, tmp_path, name):
    """All links and hashes of the forged ledger are right."""
    file, certificate, genuine = entered
    book, certificate = copy.deepcopy(genuine), copy.deepcopy(certificate)
    if name is not None:
        change(book, LEDGERS[name])
    link(book, certificate)
    paths = tmp_path / "certificate.json", tmp_path / "ledger.json"
    for path, content in zip(paths, (certificate, book), strict=True):
        path.write_text(json.dumps(content), encoding="utf-8")
    assert all(check.holds is not False for check in verifier.verify(file, *paths)) == (not name)
    assert verify(file, certificate=paths[0], ledger=paths[1]).holds == (not name)


@pytest.mark.parametrize("name", ["\x1b[2Kok", "a\ud800", "\u202eno"])
def test_names_do_not_write_to_the_terminal(counts, tmp_path, capsys, name):
    file, certificate = counts
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(forge(certificate, {M + "name": name, M + "norm": "l1"})))
    assert verifier.main([str(file), "--certificate", str(path)]) == 3
    assert all(mark.isprintable() or mark == "\n" for mark in capsys.readouterr().out)


def test_a_statement_about_another_file_is_refused(counts, tmp_path):
    """An in-toto statement is about its subject; keys beside the predicate are not read."""
    file, certificate = counts
    path = tmp_path / "statement.json"
    digest = {"sha256": certificate["sha256"]}
    whole = {"_type": "https://in-toto.io/Statement/v1", "predicateType": PREDICATE_TYPE}
    good = [{"name": "a", "digest": digest}]
    for subject, more, code in (
        (good, {}, 0),
        ([{"name": "a", "digest": {"sha256": "0" * 64}}], {}, 2),
        ([], {}, 2),
        (None, {}, 2),
        (3, {}, 2),
        (good, {"statement": "Nobody is right more than 50 % of the time."}, 3),
    ):
        path.write_text(json.dumps(whole | {"subject": subject, "predicate": certificate} | more))
        assert verifier.main([str(file), "--certificate", str(path)]) == code
        if code == 0:
            assert verify(file, certificate=path).holds
        else:
            with pytest.raises(InputError):
                verify(file, certificate=path)


def test_noise_that_is_not_secret_proves_nothing(counts, tmp_path):
    file, certificate = counts
    assert verifier.main([str(file)]) == 0
    assert all(check.holds for check in recompute_certificate(certificate, file_digest(file)))
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(forge(certificate, {"secure_source": False})))
    assert verifier.main([str(file), "--certificate", str(path)]) == 2
    assert "seed" in verify(file, certificate=path).assumptions[0]
    assert "seed" not in verify(file).assumptions[0]


def test_large_files_are_refused(tmp_path):
    path = tmp_path / "certificate.json"
    path.write_bytes(b'"' + b"x" * 2**24 + b'"')
    with pytest.raises(ValueError, match="16 MB"):
        verifier.read_json(path)


def test_forged_networks_are_rejected(tmp_path):
    pytest.importorskip("opacus")
    file = releases.make("network", tmp_path)
    certificate = certificate_of(file)
    for name, forgery in OF_NETWORKS.items():
        whole = {f"derivation/sampled/0/{key}": value for key, value in forgery.items()}
        forged = forge(certificate, whole)
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(forged))
        assert any(check.holds is False for check in verifier.verify(file, path)), name
        found = recompute_certificate(forged, file_digest(file))
        assert any(not check.holds for check in found), name
    for summed in ({"curve/mu_upper": 0.05, "curve/mu_regret_upper": 0.0}, {"curve/mu_upper": 0.0}):
        check_rejected(file, forge(certificate, summed), tmp_path)
