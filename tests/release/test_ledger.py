"""The ledger: its limit, crashes, two processes at once, damaged files, its verb."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pandas
import pytest

import memberbound
from memberbound import InputError, Ledger, explain, protect
from memberbound import ledger as ledger_state
from memberbound.release import ledger_file
from memberbound.release.budget import Budget
from memberbound.release.ledger_file import ledger_entry
from memberbound.release.randomness import InsecureSource
from memberbound.release.release_step import ReleaseStep

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

SMALL = Budget(0.05, 1e-9)


def spend(ledger, budget=SMALL, eta=0.05, publish=lambda: None):
    with ledger_entry(ledger, "protect", "model", eta) as reserve:
        reserve(budget)
        publish()


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger.json", 0.1)


def read_again(ledger):
    return Ledger.read(ledger.path)


def test_everything_together_keeps_the_limit(ledger):
    assert ledger.curve().eta <= 0.1
    assert Budget(ledger.limit_mu * 1.0001, ledger.limit_slack).curve().eta > 0.1


def test_spending_composes_as_the_root_of_the_sum_of_squares(ledger):
    for mu in (0.1, 0.2, 0.05):
        spend(ledger, Budget(mu, 1e-9))
    now = read_again(ledger)
    squares = sum(Fraction(mu) ** 2 for mu in (0.1, 0.2, 0.05))
    assert 0 <= Fraction(now.mu) ** 2 - squares < 1e-15
    assert now.eta == Budget(now.mu, now.slack).curve().eta
    assert now.slack >= 3e-9


def test_the_budget_left_fits_and_slightly_more_does_not(ledger):
    spend(ledger, Budget.for_eta(0.05, slack=1e-9))
    left = read_again(ledger).left_eta
    with pytest.raises(InputError, match="at most"):
        spend(ledger, Budget.for_eta(left + 2e-5, slack=1e-9), left)
    spend(ledger, Budget.for_eta(left, slack=1e-9), left)
    assert read_again(ledger).left_eta < 0.003
    assert [entry.state for entry in read_again(ledger).releases] == ["released"] * 2


def test_the_limit_is_compared_exactly(ledger):
    """A square that exceeds the rest by less than the spacing of doubles is refused."""
    spend(ledger, Budget(ledger.limit_mu, 1e-9))
    with pytest.raises(InputError, match="ledger"):
        spend(ledger, Budget(1e-12, 1e-9))
    assert 1.0 + 1e-24 == 1.0
    assert len(read_again(ledger).releases) == 1


class OfSamples(Budget):
    """The budget of a network."""

    normal_mu = None


@pytest.mark.parametrize(
    ("budget", "word"),
    [
        (Budget(0.01, 1.01e-4), "limit"),  # slacks have a limit of their own
        (OfSamples(0.01, 1e-9), "network"),
        (Budget(0.05, 1e-9, source=InsecureSource(1)), "seed"),
    ],
)
def test_unsuitable_releases_are_refused(ledger, budget, word):
    assert ledger.limit_slack == 1e-4
    with pytest.raises(InputError, match=word):
        spend(ledger, budget)
    assert read_again(ledger).releases == ()


@pytest.mark.parametrize("error", [InputError, KeyboardInterrupt])
def test_a_reservation_counts_after_any_failure(ledger, error):
    """Even a refusal: it may depend on noise that was drawn."""

    def stop():
        raise error("stopped")

    with pytest.raises(error):
        spend(ledger, publish=stop)
    now = read_again(ledger)
    assert [entry.state for entry in now.releases] == ["reserved"]
    assert now.mu == SMALL.mu


@pytest.mark.parametrize(("first", "second"), [("patient", None), (None, "patient"), ("a", "b")])
def test_a_ledger_keeps_one_unit(ledger, first, second):
    """A row given to another person changes two persons, and the number of them."""
    assert "decides" in ledger_state(ledger.path).assumptions[2]
    spend(ledger, Budget(0.05, 1e-9, unit=first))
    with pytest.raises(InputError, match=r"unit must be .*got"):
        spend(ledger, Budget(0.05, 1e-9, unit=second))
    assert read_again(ledger).unit == first
    assert len(read_again(ledger).releases) == 1
    spend(ledger, Budget(0.05, 1e-9, unit=first))


def test_units_that_differ_are_public_in_a_ledger_of_an_earlier_version(ledger):
    spend(ledger)
    spend(ledger)
    content = json.loads(ledger.path.read_text())
    for entry, unit in zip(content["releases"], ("patient", None), strict=True):
        entry["unit"] = unit
        for noted in ("table", "previous", "release_sha256"):  # later than that version
            del entry[noted]
    del content["head"]
    ledger.path.write_text(json.dumps(content))
    assert read_again(ledger).unit is None
    assert "besides 'patient'" in ledger_state(ledger.path).assumptions[2]
    assert "public" in ledger_state(ledger.path).assumptions[2]
    spend(ledger)
    with pytest.raises(InputError, match="unit"):
        spend(ledger, Budget(0.05, 1e-9, unit="household"))


def test_the_owner_declares_that_a_column_is_the_same_persons(ledger, tmp_path):
    """Only names are compared; the ledger and explain list the tables that were read."""
    table = PEOPLE.assign(patient=[k // 3 for k in range(len(PEOPLE))])
    for name in ("stays.csv", "visits.csv"):
        table.to_csv(tmp_path / name, index=False)
        memberbound.summarize(
            tmp_path / name,
            statistic="mean",
            columns=["age"],
            bounds=PUBLIC,
            unit="patient",
            eta=0.02,
            ledger=ledger.path,
        )
    assert [entry.table for entry in read_again(ledger).releases] == ["stays.csv", "visits.csv"]
    state, answer = ledger_state(ledger.path), explain(ledger=ledger.path)
    (declared,) = [text for text in state.assumptions if "declaration" in text]
    assert "'patient'" in declared
    assert "stays.csv, visits.csv" in declared
    assert set(state.assumptions) <= set(answer.assumptions)
    assert answer.to_dict()["unit"] == "patient"
    assert not any("whole contribution" in text for text in answer.assumptions)


def traced(monkeypatch, path):
    """Record the writings of a ledger and the draws of noise, in order."""
    trace = []

    def record(name, event):
        call = getattr(os, name)

        def traced_call(*args, **kwargs):
            result = call(*args, **kwargs)
            if step := event(*args):
                trace.append(step)
            return result

        monkeypatch.setattr(os, name, traced_call)

    def sync(handle):
        status = os.fstat(handle)
        if os.path.samestat(status, path.parent.stat()):
            return "folder on disk"
        return f"file {status.st_ino} on disk"

    record("fsync", sync)
    record("replace", lambda _draft, name: f"file {Path(name).stat().st_ino} named")
    record("urandom", lambda _size: "noise")
    return trace


def before_the_noise(ledger, monkeypatch):
    with monkeypatch.context() as patch:
        trace = traced(patch, ledger.path)
        memberbound.summarize(PEOPLE, statistic="contingency", bounds=PUBLIC, ledger=ledger)
    return trace[: trace.index("noise")]


@pytest.mark.skipif(os.name == "nt", reason="no call for folders")
def test_a_reservation_is_on_the_disk_before_the_first_noise(ledger, monkeypatch):
    """Without syncing the folder, a power cut would undo the rename and lose the reservation."""
    content, name, folder = before_the_noise(ledger, monkeypatch)
    assert folder == "folder on disk"
    assert content.removesuffix(" on disk") == name.removesuffix(" named")
    # The broken twin.
    monkeypatch.setattr(ledger_file, "sync_folder", lambda _folder: None)
    assert "folder on disk" not in before_the_noise(ledger, monkeypatch)


def test_no_noise_where_the_folder_cannot_be_put_on_the_disk(ledger, monkeypatch):
    def refuse(_folder):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(ledger_file, "sync_folder", refuse)
    drawn = []
    with pytest.raises(memberbound.MemberboundError, match="ledger"):
        spend(ledger, publish=lambda: drawn.append(1))
    assert drawn == []


def test_a_link_to_a_ledger_is_that_ledger(ledger, monkeypatch):
    """Replacing the link by a file would leave the ledger without the release."""
    (ledger.path.parent / "elsewhere").mkdir()
    link = ledger.path.parent / "elsewhere" / "link.json"
    link.symlink_to("../ledger.json")
    spend(Ledger.read(link))
    assert len(read_again(ledger).releases) == len(Ledger.read(link).releases) == 1
    monkeypatch.chdir(ledger.path.parent)
    near = Ledger.read("ledger.json")
    monkeypatch.chdir("elsewhere")
    spend(near)
    assert len(read_again(ledger).releases) == 2


def test_a_second_name_of_a_ledger_is_refused(ledger):
    other = ledger.path.with_name("other.json")
    os.link(ledger.path, other)
    for path in (ledger.path, other):
        with pytest.raises(InputError, match="hard link"):
            spend(Ledger.read(path))
    other.unlink()
    spend(ledger)
    assert len(read_again(ledger).releases) == 1


_SPEND_UNTIL_REFUSED = """
import sys
from memberbound import InputError
from memberbound.release.budget import Budget
from memberbound.release.ledger_file import ledger_entry
made = 0
try:
    while True:
        with ledger_entry(sys.argv[1], "protect", "model", 0.05) as reserve:
            reserve(Budget(0.1, 1e-9))
        made += 1
except InputError:
    print(made)
"""


def test_processes_at_once_never_overspend(ledger):
    call = [sys.executable, "-c", _SPEND_UNTIL_REFUSED, str(ledger.path)]
    processes = [subprocess.Popen(call, stdout=subprocess.PIPE) for _ in range(3)]
    made = sum(int(process.communicate()[0]) for process in processes)
    most = int(Fraction(ledger.limit_mu) ** 2 / Fraction(0.1) ** 2)
    assert made == most
    assert len(read_again(ledger).releases) == most


_SPEND_WHILE_ASKED_TO_WAIT = """
import sys
from memberbound.release import ledger_file
from memberbound.release.budget import Budget
refuse = ledger_file._refuse_unsafe
def wait(path):
    refuse(path)
    print("locked", flush=True)
    sys.stdin.readline()
ledger_file._refuse_unsafe = wait
with ledger_file.ledger_entry(sys.argv[1], "protect", "model", 0.05) as reserve:
    reserve(Budget(0.1, 1e-9))
"""


def waiting(ledger):
    """Return a process that holds the lock until it reads a line."""
    call = [sys.executable, "-c", _SPEND_WHILE_ASKED_TO_WAIT, str(ledger.path)]
    process = subprocess.Popen(
        call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"
    return process


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed")
def test_removing_files_beside_a_ledger_admits_no_second_writer(ledger):
    first = waiting(ledger)
    for path in ledger.path.parent.iterdir():
        if path != ledger.path:
            path.unlink()
    with pytest.raises(BlockingIOError), ledger.path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second = threading.Thread(target=spend, args=(ledger,))
    second.start()
    second.join(0.2)
    assert second.is_alive()  # waits for the first one
    first.communicate("\n\n")
    second.join()
    assert first.returncode == 0
    assert [entry.state for entry in read_again(ledger).releases] == ["released"] * 2
    assert list(ledger.path.parent.iterdir()) == [ledger.path]


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be replaced")
@pytest.mark.parametrize("removed", [False, True])
def test_a_ledger_that_is_replaced_while_it_is_locked_is_refused(ledger, removed):
    """Another writer may have locked the new file, and neither would see the other."""
    text = ledger.path.read_text()
    first = waiting(ledger)
    other = ledger.path.with_name("other")
    other.write_text(text)
    ledger.path.unlink() if removed else other.replace(ledger.path)
    problem = first.communicate("\n\n")[1]
    assert first.returncode != 0
    assert "same file" in problem
    assert removed or read_again(ledger).releases == ()


#: System calls of a write; the process is killed before each of them once.
_CALLS = ("open", "fsync", "replace", "link", "close")


def _release_killed_at(ledger, index, published):
    """In a child: release, and be killed before the call of that number."""
    count = 0

    def count_calls(name):
        call = getattr(os, name)

        def stepped(*args, **kwargs):
            nonlocal count
            if count == index:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return call(*args, **kwargs)

        return stepped

    for name in _CALLS:
        setattr(os, name, count_calls(name))
    with ledger_entry(ledger, "protect", "model", 0.05) as reserve:
        reserve(SMALL)
        published.write_text("noisy numbers")
    os._exit(0)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_killed_anywhere_no_release_is_lost(tmp_path):
    for index in range(200):
        ledger = Ledger.create(tmp_path / f"{index}.json", 0.1)
        published = tmp_path / f"{index}.published"
        child = os.fork()
        if child == 0:
            _release_killed_at(ledger, index, published)
        status = os.waitpid(child, 0)[1]
        releases = read_again(ledger).releases
        if published.exists():
            assert len(releases) == 1
        spend(ledger)  # the next one is not locked out
        if os.WIFEXITED(status):
            break
    assert index > 8
    assert releases[0].state == "released"


def change(content, **keys):
    return json.dumps(content | keys)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _c: "",
        lambda _c: "[]",
        lambda c: change(c, format="memberbound-ledger/2"),
        lambda c: change(c, releases=None),
        lambda c: change(c, limit=c["limit"] | {"mu": 9.0}),
        lambda c: change(c, limit=c["limit"] | {"mu": "0.5"}),
        lambda c: change(c, releases=c["releases"] * 2),
        lambda c: change(c, releases=[c["releases"][0] | {"state": "lost"}]),
        lambda c: change(c, releases=[c["releases"][0] | {"mu": 5.0}]),
        lambda c: change(c, releases=[c["releases"][0] | {"what": 7}]),
    ],
)
def test_other_files_than_ledgers_are_refused_and_unchanged(ledger, damage):
    spend(ledger)
    text = damage(json.loads(ledger.path.read_text()))
    ledger.path.write_text(text)
    with pytest.raises(InputError, match="ledger"):
        spend(ledger)
    assert ledger.path.read_text() == text


# ── The verbs ─────────────────────────────────────────────────────────────────────────────────────

PEOPLE = pandas.DataFrame({"age": [k % 80 for k in range(900)]})
PEOPLE["old"] = PEOPLE["age"] > 40
PUBLIC = {"age": [0, 80], "old": [False, True]}
RELEASES = {
    "summarize": ({"statistic": "contingency", "bounds": PUBLIC}, "safetensors"),
    "synthesize": ({"bounds": PUBLIC}, "csv"),
    "protect": ({"bounds": PUBLIC, "target": "old"}, "json"),
}


@pytest.mark.parametrize("verb", RELEASES)
def test_a_verb_enters_its_release_and_is_refused_beyond_the_limit(ledger, tmp_path, verb):
    """Refusals come before the release is made: no file, no entry that counts."""
    options, ending = RELEASES[verb]

    def release(name):
        asked = {"ledger": ledger.path, "eta": 0.08, "out": tmp_path / f"{name}.{ending}"}
        return getattr(memberbound, verb)(PEOPLE, **options, **asked)

    first = release("first")
    now = read_again(ledger)
    (entry,) = now.releases
    assert (entry.state, entry.command, entry.eta) == ("released", verb, 0.08)
    assert entry.mu == first.to_dict()["mu"]
    assert entry.out == first.out
    with pytest.raises(InputError, match="ledger"):
        release("again")
    assert not list(tmp_path.glob("again*"))
    assert read_again(ledger) == now


def test_a_refusal_before_the_noise_costs_no_budget(ledger):
    with pytest.raises(InputError, match="rows"):
        protect(PEOPLE.head(30), target="old", ledger=ledger)
    assert read_again(ledger).mu == 0


def test_a_release_never_overwrites_its_ledger(ledger, tmp_path):
    beside = Ledger.create(tmp_path / "m.skops.certificate.json", 0.1).path
    for path, out in ((ledger.path, ledger.path), (beside, tmp_path / "m.skops")):
        with pytest.raises(InputError, match="overwrite"):
            protect(PEOPLE, target="old", bounds=PUBLIC, force=True, out=out, ledger=path)
        assert Ledger.read(path).releases == ()


def test_the_state_of_a_ledger_and_what_its_limit_means(ledger):
    assert ledger_state(ledger.path, limit_eta=0.1).eta == 0.0
    for eta in (0.05, 0.06):
        spend(ledger, Budget.for_eta(eta, slack=1e-9), eta)
    state = ledger_state(ledger.path)
    assert [entry.eta for entry in state.releases] == [0.05, 0.06]
    assert 0.06 < state.eta < state.limit_eta == 0.1
    assert 0 < state.left < 0.1
    answer = explain(ledger=ledger.path)
    assert state.eta < answer.eta_upper <= 0.1
    assert answer.adjacency == "replace-one"
    assert answer.epsilon is not None
    assert "X27" in answer.theorems


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda path: Ledger.create(path, 0.2), "exist"),
        (lambda path: ledger_state(path, limit_eta=0.2), "fixed"),
        (lambda path: ledger_state(path.with_name("none.json")), "existing"),
        (lambda path: ledger_state(path.with_name("none.json"), limit_eta=0.5), "eta"),
        (lambda path: ledger_state(path.with_name("none.txt"), limit_eta=0.1), "json"),
        (lambda _: ledger_state(7), "Ledger"),
        (lambda path: explain(ledger=path, epsilon=1.0), "one way"),
        (lambda path: explain(ledger=path, adjacency="add-remove"), "replace-one"),
        (lambda path: explain(ledger=path, target_eta=0.1), "left out"),
    ],
)
def test_bad_input(ledger, call, word):
    with pytest.raises(InputError, match=word):
        call(ledger.path)
    assert read_again(ledger) == ledger
    assert not list(ledger.path.parent.glob("none*"))


# ── The step of every release of all rows ─────────────────────────────────────────────────────────


def states(ledger):
    return [entry.state for entry in read_again(ledger).releases]


def test_a_release_is_charged_before_it_is_drawn_and_confirmed_after_it_is_written(
    ledger, tmp_path
):
    out, seen = tmp_path / "numbers.txt", []

    def draw(reserve):
        seen.append(states(ledger))
        reserve(SMALL)
        seen.append(states(ledger))
        return "3.5"

    def write(released, path):
        path.write_text(released)
        seen.append(states(ledger))

    step = ReleaseStep("summarize", "people.csv", 0.05, out, ledger)
    assert step.run("mean", draw, write) == out.read_text() == "3.5"
    assert seen == [[], ["reserved"], ["reserved"]]
    (entry,) = read_again(ledger).releases
    assert (entry.state, entry.what, entry.table) == ("released", "mean", "people.csv")
    assert entry.release_sha256 == hashlib.sha256(b"3.5").hexdigest()


@pytest.mark.parametrize("fails", ["draw", "write"])
def test_a_release_that_fails_stays_charged(ledger, tmp_path, fails):
    def draw(reserve):
        reserve(SMALL)
        if fails == "draw":
            raise OSError

    def write(*_):
        raise OSError

    step = ReleaseStep("summarize", None, 0.05, tmp_path / "numbers.json", ledger)
    with pytest.raises(OSError):  # noqa: PT011
        step.run("mean", draw, write)
    assert states(ledger) == ["reserved"]


def test_a_step_refuses_bad_options_before_anything_is_read(tmp_path):
    existing = tmp_path / "people.csv"
    existing.write_text("x\n1\n")
    good = {"out": tmp_path / "new.csv", "formats": (".csv",)}
    assert ReleaseStep("synthesize", existing, 0.05, **good).seed is None
    for bad, word in (
        ({"eta": 0.6}, "eta"),
        ({"seed": -1}, "insecure_seed"),
        ({"out": existing}, "differ"),
        ({"out": tmp_path / "new.txt"}, "end in"),
    ):
        with pytest.raises(InputError, match=word):
            ReleaseStep("synthesize", existing, **({"eta": 0.05} | good | bad))
