"""The ledger file: its limit, what a crash leaves, two processes at once, damaged files."""

import json
import os
import signal
import subprocess
import sys
from fractions import Fraction

import pandas
import pytest

from memberbound import InputError, Ledger, protect, summarize
from memberbound.release.budget import Budget
from memberbound.release.ledger_file import entered
from memberbound.release.randomness import InsecureSource
from memberbound.verbs.ledger import ledger as ledger_state

SMALL = Budget(0.05, 1e-9)


def spend(ledger, budget=SMALL, eta=0.05, publish=lambda: None):
    with entered(ledger, "protect", "model", eta) as release:
        release.reserve(budget)
        publish()


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger.json", 0.1)


def reread(ledger):
    return Ledger.read(ledger.path)


def test_everything_together_keeps_the_limit(ledger):
    assert ledger.curve().eta <= 0.1
    assert Budget(ledger.limit_mu * 1.0001, ledger.limit_slack).curve().eta > 0.1


def test_what_is_spent_is_that_of_one_release_of_the_squares_root(ledger):
    for mu in (0.1, 0.2, 0.05):
        spend(ledger, Budget(mu, 1e-9))
    now = reread(ledger)
    squares = sum(Fraction(mu) ** 2 for mu in (0.1, 0.2, 0.05))
    assert 0 <= Fraction(now.mu) ** 2 - squares < 1e-15
    assert now.eta == Budget(now.mu, now.slack).curve().eta
    assert now.slack >= 3e-9


def test_what_is_left_fits_and_a_little_more_does_not(ledger):
    spend(ledger, Budget.for_eta(0.05, slack=1e-9))
    left = reread(ledger).left_eta
    with pytest.raises(InputError, match="at most"):
        spend(ledger, Budget.for_eta(left + 2e-5, slack=1e-9), left)
    spend(ledger, Budget.for_eta(left, slack=1e-9), left)
    assert reread(ledger).left_eta < 0.003
    assert [entry.state for entry in reread(ledger).releases] == ["released"] * 2


def test_the_limit_is_compared_exactly(ledger):
    """A square that exceeds what is left by less than a double can tell is refused."""
    spend(ledger, Budget(ledger.limit_mu, 1e-9))
    with pytest.raises(InputError, match="ledger"):
        spend(ledger, Budget(1e-12, 1e-9))
    assert 1.0 + 1e-24 == 1.0
    assert len(reread(ledger).releases) == 1


def test_slacks_have_a_limit_of_their_own(ledger):
    with pytest.raises(InputError, match="ledger"):
        spend(ledger, Budget(0.01, ledger.limit_slack * 1.01))
    assert reread(ledger).releases == ()


def test_a_network_is_refused(ledger):
    class Sampled(Budget):
        normal_mu = None

    with pytest.raises(InputError, match="network"):
        spend(ledger, Sampled(0.01, 1e-9))


@pytest.mark.parametrize("error", [InputError, KeyboardInterrupt])
def test_whatever_comes_after_the_reservation_it_counts(ledger, error):
    """Even a refusal: it may depend on noise that was drawn."""

    def stop():
        raise error("stopped")

    with pytest.raises(error):
        spend(ledger, publish=stop)
    now = reread(ledger)
    assert [entry.state for entry in now.releases] == ["reserved"]
    assert now.mu == SMALL.mu


def test_units_that_differ_are_public(ledger):
    """A row given to another person changes two persons, and the number of them."""
    assert "A record is a row." in ledger_state(ledger.path).assumptions[2]
    spend(ledger, Budget(0.05, 1e-9, unit="patient"))
    assert reread(ledger).unit == "patient"
    assert "person" in ledger_state(ledger.path).assumptions[2]
    spend(ledger)
    assert reread(ledger).unit is None
    (told,) = [text for text in ledger_state(ledger.path).assumptions if "'patient'" in text]
    assert "public" in told


def test_a_link_to_a_ledger_is_that_ledger(ledger, monkeypatch):
    """Replacing the link by a file would leave the ledger without the release."""
    (ledger.path.parent / "elsewhere").mkdir()
    link = ledger.path.parent / "elsewhere" / "link.json"
    link.symlink_to("../ledger.json")
    spend(Ledger.read(link))
    assert len(reread(ledger).releases) == len(Ledger.read(link).releases) == 1
    monkeypatch.chdir(ledger.path.parent)
    near = Ledger.read("ledger.json")
    monkeypatch.chdir("elsewhere")
    spend(near)
    assert len(reread(ledger).releases) == 2


def test_a_second_name_of_a_ledger_is_refused(ledger):
    other = ledger.path.with_name("other.json")
    os.link(ledger.path, other)
    for path in (ledger.path, other):
        with pytest.raises(InputError, match="hard link"):
            spend(Ledger.read(path))
    other.unlink()
    spend(ledger)
    assert len(reread(ledger).releases) == 1


_SPEND_UNTIL_REFUSED = """
import sys
from memberbound import InputError
from memberbound.release.budget import Budget
from memberbound.release.ledger_file import entered
made = 0
try:
    while True:
        with entered(sys.argv[1], "protect", "model", 0.05) as release:
            release.reserve(Budget(0.1, 1e-9))
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
    assert len(reread(ledger).releases) == most


#: Calls of the system that a writing makes; each is made the last one once.
_CALLS = ("open", "fsync", "replace", "link", "close")


def _release_killed_at(ledger, place, published):
    """In a child: release, and be killed before the call of that number."""
    count = 0

    def counted(name):
        call = getattr(os, name)

        def stepped(*args, **kwargs):
            nonlocal count
            if count == place:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return call(*args, **kwargs)

        return stepped

    for name in _CALLS:
        setattr(os, name, counted(name))
    with entered(ledger, "protect", "model", 0.05) as release:
        release.reserve(SMALL)
        published.write_text("noisy numbers")
    os._exit(0)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_killed_anywhere_no_release_is_lost(tmp_path):
    for place in range(200):
        ledger = Ledger.create(tmp_path / f"{place}.json", 0.1)
        published = tmp_path / f"{place}.published"
        child = os.fork()
        if child == 0:
            _release_killed_at(ledger, place, published)
        status = os.waitpid(child, 0)[1]
        releases = reread(ledger).releases
        if published.exists():
            assert len(releases) == 1
        spend(ledger)  # the next one is not locked out
        if os.WIFEXITED(status):
            break
    assert place > 8
    assert releases[0].state == "released"


def changed(content, **keys):
    return json.dumps(content | keys)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _c: "",
        lambda _c: "[]",
        lambda c: changed(c, format="memberbound-ledger/2"),
        lambda c: changed(c, releases=None),
        lambda c: changed(c, limit=c["limit"] | {"mu": 9.0}),
        lambda c: changed(c, limit=c["limit"] | {"mu": "0.5"}),
        lambda c: changed(c, releases=c["releases"] * 2),
        lambda c: changed(c, releases=[c["releases"][0] | {"state": "lost"}]),
        lambda c: changed(c, releases=[c["releases"][0] | {"mu": 5.0}]),
        lambda c: changed(c, releases=[c["releases"][0] | {"what": 7}]),
    ],
)
def test_what_is_no_ledger_is_refused_and_left_alone(ledger, damage):
    spend(ledger)
    text = damage(json.loads(ledger.path.read_text()))
    ledger.path.write_text(text)
    with pytest.raises(InputError, match="ledger"):
        spend(ledger)
    assert ledger.path.read_text() == text


def test_the_limit_of_a_ledger_stays(ledger):
    with pytest.raises(InputError, match="exist"):
        Ledger.create(ledger.path, 0.2)
    assert reread(ledger).limit_eta == 0.1
    with pytest.raises(InputError, match="eta"):
        Ledger.create(ledger.path.with_name("other.json"), 0.5)


def test_noise_from_a_seed_is_refused(ledger):
    with pytest.raises(InputError, match="seed"):
        spend(ledger, Budget(0.05, 1e-9, source=InsecureSource(1)))
    assert reread(ledger).releases == ()


@pytest.fixture
def people():
    return pandas.DataFrame({"age": [k % 80 for k in range(900)]})


def test_a_verb_enters_its_release_and_is_refused_beyond_the_limit(ledger, people, tmp_path):
    """What is refused is refused before it is made: no file, no entry that counts."""
    asked = {"statistic": "mean", "bounds": {"age": [0, 80]}, "ledger": ledger.path}
    first = summarize(people, **asked, eta=0.08, out=tmp_path / "mean.safetensors")
    now = reread(ledger)
    (entry,) = now.releases
    assert (entry.state, entry.command, entry.eta) == ("released", "summarize", 0.08)
    assert entry.mu == first.to_dict()["mu"]
    assert entry.out == str(tmp_path / "mean.safetensors")
    with pytest.raises(InputError, match="ledger"):
        summarize(people, **asked, eta=0.08, out=tmp_path / "again.safetensors")
    assert not (tmp_path / "again.safetensors").exists()
    assert reread(ledger) == now


def test_what_is_refused_before_the_noise_costs_nothing(ledger, people):
    with pytest.raises(InputError, match="rows"):
        protect(people.assign(old=people["age"] > 40), target="old", ledger=ledger)
    assert reread(ledger).mu == 0


def test_a_release_never_overwrites_its_ledger(ledger, people, tmp_path):
    table = people.assign(old=people["age"] > 40)
    asked = {"target": "old", "bounds": {"age": [0, 80], "old": [False, True]}, "force": True}
    beside = tmp_path / "m.skops.certificate.json"
    for path, out in ((ledger.path, ledger.path), (beside, tmp_path / "m.skops")):
        if path != ledger.path:
            Ledger.create(path, 0.1)
        with pytest.raises(InputError, match="overwrite"):
            protect(table, **asked, out=out, ledger=path)
        assert Ledger.read(path).releases == ()
