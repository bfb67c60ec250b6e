"""``verify``: genuine releases hold, and 250 forged certificates of each kind do not."""

import copy
import json
import math
import os
import shutil
import subprocess
import sys

import pytest

from commands import command
from memberbound import ledger, verify
from memberbound.errors import InputError
from memberbound.files import file_digest
from memberbound.release.derivation import SEAL, json_digest, seal
from memberbound.release.verification import recompute_certificate
from oracle import releases
from oracle.independent import FILE as VERIFIER
from oracle.independent import verifier
from oracle.mutated_certificates import mutate

QUICK = [name for name in releases.NAMES if name != "network"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a genuine release of every kind, by name, with its certificate."""
    folder = tmp_path_factory.mktemp("releases")
    return {name: releases.make(name, folder) for name in QUICK}


def certificate_of(file):
    return json.loads(file.with_name(f"{file.name}.certificate.json").read_text(encoding="utf-8"))


def holds(certificate, digest):
    return all(check.holds for check in recompute_certificate(certificate, digest))


@pytest.mark.parametrize("name", QUICK)
def test_genuine_releases_hold(made, name):
    answer = verify(made[name])
    assert answer.holds, [check for check in answer.checks if not check.holds]
    certificate = certificate_of(made[name])
    assert (answer.mu, answer.eta) == (certificate["mu"], certificate["curve"]["eta_upper"])
    assert answer.file_sha256 == file_digest(made[name])
    assert answer.refuted_claim is None


@pytest.mark.parametrize("name", QUICK)
def test_forged_certificates_are_rejected(made, name):
    certificate, digest = certificate_of(made[name]), file_digest(made[name])
    assert holds(certificate, digest)
    for what, other in mutate(certificate, 250):
        assert not holds(other, digest), (name, what)


@pytest.mark.long
@pytest.mark.parametrize("name", QUICK)
def test_ten_thousand_forged_certificates_are_rejected(made, name):
    certificate, digest = certificate_of(made[name]), file_digest(made[name])
    for what, other in mutate(certificate, 10_000, seed=1):
        assert not holds(other, digest), (name, what)


def test_networks_hold_and_forged_ones_do_not(tmp_path):
    pytest.importorskip("opacus")
    file = releases.make("network", tmp_path)
    assert verify(file).holds
    certificate, digest = certificate_of(file), file_digest(file)
    for what, other in mutate(certificate, 12, seed=3):
        assert not holds(other, digest), what


@pytest.mark.parametrize("change", ["certificate", "eta"])
def test_a_looser_bound_is_accepted(made, change):
    """A printed bound may be larger than the recomputed one."""
    file = made["model"]
    looser, digest = certificate_of(file), file_digest(file)
    if change == "certificate":
        looser["curve"]["eta_upper"] = looser["certificate"]["upper"] = 0.0505
    looser["eta"] = 0.051
    looser[SEAL] = seal(looser)
    assert holds(looser, digest)
    looser["curve"]["eta_upper"] = looser["certificate"]["upper"] = 0.04999
    looser[SEAL] = seal(looser)
    assert not holds(looser, digest)


def test_a_consistent_record_with_a_constant_sensitivity_too_small_is_rejected(made):
    """Sensitivity, share and μ shrink together: only the name shows that it is a histogram."""
    file = made["counts"]
    forged, digest = certificate_of(file), file_digest(file)
    for part in forged["derivation"]["measurements"]:
        part["sensitivity"] *= 0.5
        part["noise_scale"] *= 0.5
        part["grid_step"] *= 0.5
    forged[SEAL] = seal(forged)
    wrong = [check.name for check in recompute_certificate(forged, digest) if not check.holds]
    assert wrong == ["sensitivities"]


def test_the_first_failure_is_the_reason_and_the_exit_code_is_3(made, tmp_path):
    file = shutil.copy(made["numbers"], tmp_path / "means.json")
    forged = certificate_of(made["numbers"])
    forged["derivation"]["measurements"][0]["noise_scale"] *= 2
    forged[SEAL] = seal(forged)
    (tmp_path / "means.json.certificate.json").write_text(json.dumps(forged))
    ended = command("verify", str(file), "--json")
    answer = json.loads(ended.stdout)
    assert (ended.returncode, answer["holds"], answer["mu"], answer["eta"]) == (
        3,
        False,
        None,
        None,
    )
    failed = [check["name"] for check in answer["checks"] if not check["holds"]]
    assert failed == ["noise scales", "grids"]
    assert command("verify", str(made["numbers"])).returncode == 0


def test_a_file_that_was_changed_does_not_hold(made, tmp_path):
    file = tmp_path / "means.json"
    file.write_bytes(made["numbers"].read_bytes().replace(b"0", b"1"))
    shutil.copy(f"{made['numbers']}.certificate.json", f"{file}.certificate.json")
    answer = verify(file)
    assert [check.name for check in answer.checks if not check.holds] == ["file"]


def test_a_model_that_states_other_noise_than_its_certificate_does_not_hold(made, tmp_path):
    content = json.loads(made["model"].read_text(encoding="utf-8"))
    content["measurements"][-1]["noise_scale"] *= 2
    file = tmp_path / "model.json"
    file.write_text(json.dumps(content))
    other = certificate_of(made["model"]) | {"sha256": file_digest(file)}
    other[SEAL] = seal(other)
    (tmp_path / "model.json.certificate.json").write_text(json.dumps(other))
    answer = verify(file)
    assert [check.name for check in answer.checks if not check.holds] == ["file content"]


def test_several_releases_add_up(made):
    answer = verify([made["model"], made["numbers"], made["table"]])
    assert answer.holds
    listed = [certificate_of(made[name])["mu"] for name in ("model", "numbers", "table")]
    assert answer.mu == pytest.approx(math.hypot(*listed), rel=1e-14)
    assert answer.mu >= math.hypot(*listed) * (1 - 1e-15)
    assert answer.file_sha256 is None
    assert [file.holds for file in answer.files] == [True] * 3
    assert "X27" in answer.theorems


def test_the_owner_compares_the_number_of_records(made, tmp_path):
    table = releases.people(persons=True)
    assert verify(made["model of persons"], table=table).holds
    fewer = table[table["person"] != "p0"]
    answer = verify(made["model of persons"], table=fewer)
    assert [check.name for check in answer.checks if not check.holds] == ["number of records"]


# ── The ledger ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def entered(tmp_path_factory):
    """Return a ledger with four releases, and the first two of them."""
    folder = tmp_path_factory.mktemp("ledger")
    book = releases.make_ledger(folder)
    files = [releases.make(name, folder, book) for name in ("numbers", "counts")]
    for _ in range(2):
        releases.make("boosting", _empty(folder), book)
    return book, files


def _empty(folder):
    for file in folder.glob("boosting.json*"):
        file.unlink()
    return folder


def sealed(content):
    """Return a ledger with its head recomputed."""
    rest = {key: value for key, value in content.items() if key != "head"}
    return rest | {"head": json_digest(rest)}


def remove(content):
    del content["releases"][1]


def exchange(content):
    content["releases"][1], content["releases"][2] = content["releases"][2], content["releases"][1]


def shrunk(content):
    content["releases"][2]["mu"] *= 0.5


def raise_limit(content):
    content["limit"] |= {"eta": 0.4, "mu": 3.0}


def cut(content):
    del content["releases"][-1]


def rename(content):
    content["releases"][0]["state"] = "reserved"


@pytest.mark.parametrize("forge", [remove, exchange, shrunk, raise_limit])
def test_removed_moved_and_changed_entries_are_detected(entered, tmp_path, forge):
    book, files = entered
    content = json.loads(book.read_text(encoding="utf-8"))
    assert verify(files[1], ledger=book).holds
    forge(content)
    other = tmp_path / "ledger.json"
    other.write_text(json.dumps(sealed(content)))
    answer = verify(files[1], ledger=other)
    assert "ledger chain" in [check.name for check in answer.checks if not check.holds]
    assert command("verify", str(files[1]), "--ledger", str(other)).returncode == 3
    with pytest.raises(InputError, match="damaged"):
        ledger(other)


@pytest.mark.parametrize("forge", [cut, rename])
def test_the_head_detects_changes_that_links_miss(entered, tmp_path, forge):
    book, files = entered
    content = json.loads(book.read_text(encoding="utf-8"))
    forge(content)
    other = tmp_path / "ledger.json"
    other.write_text(json.dumps(content))
    answer = verify(files[1], ledger=other)
    assert [check.name for check in answer.checks if not check.holds] == ["ledger chain"]


def test_a_release_is_not_in_another_ledger(entered, made, tmp_path):
    book, files = entered
    empty = releases.make_ledger(tmp_path)
    assert not verify(files[0], ledger=empty).holds
    # A release without a ledger names no entry.
    assert not verify(made["numbers"], ledger=book).holds


# ── Bad input ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "not json",
        '{"sha256": 1, "sha256": 2}',
        '{"sha256": NaN}',
        '{"sha256": "x", "derivation": []}',
        "[" * 100_000,
        "[" * 400 + "]" * 400,
        '{"a":' * 50_000,
        '{"sha256": ' + "9" * 5000 + "}",
        '{"kind": "linear model", "version": "0.1.0", "sha256": "x"}',
        '"' + "x" * 2**24 + '"',
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=lambda text: text[:20],
)
def test_certificates_that_are_none_are_refused_in_one_sentence(made, tmp_path, text):
    file = tmp_path / "c.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as problem:
        verify(made["numbers"], certificate=file)
    assert "\n" not in str(problem.value)
    ended = command("verify", str(made["numbers"]), "--certificate", str(file))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "number", ["1e999", "-1", "1e308", "1" * 300, "true", "null", '"0.05"', "[0.05]", "{}"]
)
@pytest.mark.parametrize("key", ["mu", "noise_scale", "slack", "records"])
def test_numbers_that_are_none_fail_and_do_not_crash(made, tmp_path, number, key):
    text = json.dumps(certificate_of(made["numbers"]))
    before = f'"{key}": '
    start = text.rindex(before) + len(before)
    end = min(at for at in (text.find(mark, start) for mark in ",}") if at > 0)
    file = tmp_path / "c.json"
    file.write_text(text[:start] + number + text[end:])
    answer = verify(made["numbers"], certificate=file)
    assert not answer.holds
    json.dumps(answer.to_dict(), allow_nan=False)


def test_a_format_must_be_a_text(made, tmp_path):
    file = tmp_path / "c.json"
    other = certificate_of(made["numbers"])
    other["derivation"]["format"] = [1]
    file.write_text(json.dumps(other))
    assert not verify(made["numbers"], certificate=file).holds


def test_missing_files_folders_and_pipes_are_refused(made, tmp_path):
    alone = shutil.copy(made["numbers"], tmp_path / "alone.json")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere")
    for wrong in ("none.json", ".", "pipe.json", "link.json"):
        with pytest.raises(InputError):
            verify(tmp_path / wrong)
    with pytest.raises(InputError, match="missing"):
        verify(alone)
    with pytest.raises(InputError):
        verify([])
    with pytest.raises(InputError, match="single"):
        verify([made["numbers"], made["counts"]], certificate=alone)
    with pytest.raises(InputError, match="ledger"):
        verify(made["numbers"], ledger=alone)


def test_a_link_to_a_release_is_the_release(made, tmp_path):
    (tmp_path / "means.json").symlink_to(made["numbers"])
    beside = f"{made['numbers']}.certificate.json"
    (tmp_path / "means.json.certificate.json").symlink_to(beside)
    assert verify(tmp_path / "means.json").holds


# ── The independent verifier, which shares no code with this package ──────────────────────────────


def confirms(file, certificate, folder, book=None):
    """Tell whether the independent verifier accepts a certificate."""
    path = folder / "certificate.json"
    path.write_text(json.dumps(certificate), encoding="utf-8")
    return all(check.holds is not False for check in verifier.verify(file, path, book))


@pytest.mark.parametrize("name", QUICK)
def test_the_independent_verifier_confirms_genuine_releases_only(made, name, tmp_path):
    file, certificate = made[name], certificate_of(made[name])
    # The tests' noise is not secret.
    assert [check.name for check in verifier.verify(file, None) if not check.holds] == ["secrecy"]
    for what, other in mutate(certificate, 100, seed=7):
        assert not confirms(file, other, tmp_path), (name, what)


@pytest.mark.long
@pytest.mark.parametrize("name", QUICK)
def test_the_independent_verifier_rejects_ten_thousand_forged_certificates(made, name, tmp_path):
    for what, other in mutate(certificate_of(made[name]), 10_000, seed=2):
        assert not confirms(made[name], other, tmp_path), (name, what)


@pytest.fixture(scope="module")
def trained_network(tmp_path_factory):
    pytest.importorskip("opacus")
    return releases.make("network", tmp_path_factory.mktemp("network"))


@pytest.mark.long
def test_the_independent_verifier_compares_networks_with_an_attack(trained_network):
    checks = {check.name: check.holds for check in verifier.verify(trained_network, None)}
    assert [name for name, holds in checks.items() if holds is None] == [
        "secrecy",
        "bounds",
        "groups",
    ]
    assert all(holds is not False for holds in checks.values())


@pytest.mark.long
def test_the_independent_verifier_rejects_forged_networks(trained_network, tmp_path):
    certificate = certificate_of(trained_network)
    forged = mutate(certificate, 200, seed=3)
    kept = [what for what, other in forged if confirms(trained_network, other, tmp_path)]
    # Only a bound between the attack's success and the printed one.
    assert len(kept) <= 10
    assert all(what.startswith(("curve/", "groups/")) for what in kept), kept


@pytest.mark.parametrize("forge", [remove, exchange, shrunk, raise_limit, cut, rename])
def test_the_independent_verifier_reads_the_chain(entered, tmp_path, forge):
    book, files = entered
    certificate = certificate_of(files[1])
    assert confirms(files[1], certificate, tmp_path, book)
    content = json.loads(book.read_text(encoding="utf-8"))
    forge(content)
    other = tmp_path / "ledger.json"
    for text in (content, sealed(content)) if forge not in (cut, rename) else (content,):
        other.write_text(json.dumps(text))
        assert not confirms(files[1], certificate, tmp_path, other)


@pytest.fixture(scope="module")
def repeated(tmp_path_factory):
    """A certificate with two measurements of one name, as synthetic tables of many columns have."""
    certificate = certificate_of(releases.make("counts", tmp_path_factory.mktemp("repeated")))
    record = certificate["derivation"]
    last = record["measurements"][-1]
    assert last["vectors"] == 1
    half = math.nextafter(last["mu"] / math.sqrt(2), 0.0)
    part = {"mu": half, "budget_share": (half / record["budget_mu"]) ** 2}
    part["noise_scale"] = math.nextafter(last["sensitivity"] / half, math.inf)
    part["grid_step"] = 2.0 ** math.floor(math.log2(part["noise_scale"] / 4))
    record["measurements"][-1:] = [last | part, last | part]
    count = sum(each["coordinates"] for each in record["measurements"])
    assert count <= record["slacks"][0]["count"]
    certificate[SEAL] = seal(certificate)
    return certificate


def test_measurements_with_the_same_name_are_all_checked(repeated, made, tmp_path):
    """A synthetic table measures several pairs: none of them hides another."""
    sha = repeated["sha256"]
    assert holds(repeated, sha)
    file = made["counts"]
    genuine = repeated | {"sha256": file_digest(file)}
    genuine[SEAL] = seal(genuine)
    assert confirms(file, genuine, tmp_path)
    for index in (-1, -2):
        for key, factor in (("sensitivity", 0.5), ("noise_scale", 2.0), ("grid_step", 2.0)):
            other = copy.deepcopy(genuine)
            other["derivation"]["measurements"][index][key] *= factor
            other[SEAL] = seal(other)
            assert not confirms(file, other, tmp_path), (index, key)
            assert not holds(other, file_digest(file)), (index, key)


@pytest.mark.parametrize("kind", ["sum", "calibration", "counts"])
def test_the_independent_verifier_leaves_other_games_open(made, tmp_path, kind):
    """It belongs to the file; the answer names who can recompute the bound and confirms nothing."""
    file = made["numbers"]
    other = {"sha256": file_digest(file), "derivation": {"format": f"memberbound-{kind}/1"}}
    path = tmp_path / "other.json"
    for tampered, code in ((False, 2), (True, 3)):
        path.write_text(json.dumps(other | {SEAL: "0" * 64 if tampered else seal(other)}))
        assert verifier.main([str(file), "--certificate", str(path)]) == code


def test_the_independent_verifier_runs_alone(made, entered, tmp_path):
    """A clean Python without site packages; bad files end with 2 and one sentence."""
    alone = shutil.copy(VERIFIER, tmp_path / "verify.py")
    odd, pipe = tmp_path / "odd.json", tmp_path / "pipe.json"
    odd.write_text('{"derivation": {"format": [1]}}')
    os.mkfifo(pipe)
    for arguments, code in (
        ([entered[1][0]], 0),
        ([entered[1][0], "--ledger", entered[0]], 0),
        ([made["model"], "--certificate", f"{made['numbers']}.certificate.json"], 3),
        ([tmp_path / "none.json"], 2),
        ([made["model"], "--certificate", made["table"]], 2),
        ([made["model"], "--certificate", odd], 3),
        ([pipe, "--certificate", f"{made['model']}.certificate.json"], 2),
    ):
        ended = subprocess.run(
            [sys.executable, "-I", "-S", str(alone), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        assert len(ended.stderr.strip().splitlines()) == (code == 2)
