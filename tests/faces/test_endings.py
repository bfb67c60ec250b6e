"""Ends of a command: one sentence, an exit code, a traceback only on request."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from statistics import NormalDist

import pytest

from commands import command, python
from memberbound import explain
from memberbound.errors import InputError, MemberboundError, shorten
from memberbound.faces import endings
from memberbound.faces.command_line import _run_guarded
from memberbound.faces.endings import ending, keep_traceback
from memberbound.files import write_atomically
from memberbound.scratch import PrivateFolder, remove_leftovers

UNFORESEEN = (
    "import sys; from memberbound import verbs; import memberbound.verbs.explain as m\n"
    "import memberbound\n"
    "def explain(epsilon: float = 1.0):\n"
    "    '''Fail.\n\n    Args:\n        epsilon: a number.\n    '''\n"
    "    return {}['nobody expects this']\n"
    "memberbound.explain = explain\n"
    "sys.argv = ['memberbound', 'explain']\n"
    "from memberbound.faces.command_line import main\n"
    "main()\n"
)


def run(code, tmp_path, **environment):
    folders = {"TMPDIR": str(tmp_path), "COLUMNS": ""}
    return python("-c", code, env=folders | environment, code=None)


def test_an_unexpected_error_gives_one_sentence_and_a_private_file(tmp_path):
    ran = run(UNFORESEEN, tmp_path)
    assert ran.returncode == 1
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    (file,) = tmp_path.glob("memberbound-traceback-*.txt")
    assert line == (f"memberbound: unexpected error (KeyError). Details are in {file}.")
    assert file.stat().st_mode & 0o077 == 0
    assert "KeyError: 'nobody expects this'" in file.read_text()
    shown = run(UNFORESEEN, tmp_path, MEMBERBOUND_DEBUG="1")
    assert "Traceback (most recent call last)" in shown.stderr
    assert shown.stderr.splitlines()[-1].startswith("memberbound: unexpected error")


def test_a_full_disk_does_not_hide_the_sentence(tmp_path):
    ran = run(UNFORESEEN.replace("main()\n", (
        "import tempfile\n"
        "def full(*a, **k): raise OSError(28, 'No space left on device')\n"
        "tempfile.mkstemp = full\nmain()\n"
    )), tmp_path)  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr == (
        "memberbound: unexpected error (KeyError). Details could not be written to a file.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_only_the_newest_tracebacks_are_kept(tmp_path):
    paths = [keep_traceback(ValueError(str(i)), tmp_path) for i in range(25)]
    assert all(paths)
    assert len(list(tmp_path.iterdir())) == 20
    assert paths[-1].exists()


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (InputError("n must be 1, got 2."), 2, "n must be 1, got 2."),
        (MemberboundError("no."), 1, "no."),
        (KeyboardInterrupt(), 130, "stopped."),
        (RuntimeError("Query interrupted"), 130, "stopped."),
        (MemoryError(), 1, "out of memory."),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "o.csv"), 1, "o.csv: No space left"),
        (OSError("odd"), 1, "odd."),
        (RecursionError("deep"), 1, "unexpected error (RecursionError)"),
    ],
)
def test_every_kind_has_its_sentence_and_code(problem, code, words, capsys, monkeypatch):
    monkeypatch.setattr(endings, "keep_traceback", lambda *_: None)
    monkeypatch.delenv("COLUMNS", raising=False)

    def fail():
        raise problem

    assert _run_guarded(fail) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_an_epsilon_is_answered_with_the_eta_that_keeps_it(tmp_path):
    """η of normal noise, checked by the profile that explain certifies."""
    table = tmp_path / "t.csv"
    table.write_text("a,y\n1,0\n")
    ended = command("protect", str(table), "--target", "y", "--epsilon", "1")
    assert (ended.returncode, ended.stdout) == (2, "")
    eta = float(re.search(r"protect takes --eta, not --epsilon: --eta (\S+) is", ended.stderr)[1])
    mu = 2 * NormalDist().inv_cdf(0.5 + eta)
    kept, less = (explain(gdp=mu * k, delta=1e-5).epsilon for k in (1, 1.01))
    assert kept <= 1 < less
    assert "takes --eta" in command("synthesize", str(table), "--epsilon=x").stderr
    assert "No such option" in command("certify", str(table), "--epsilon", "1").stderr


def test_a_call_with_too_few_or_too_many_arguments_shows_one_that_runs():
    for verb, *given in (("predict", "table.csv"), ("audit-text", "texts.csv")):
        ended = command(verb, *given)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert f"For example: memberbound {verb} " in ended.stderr


def test_messages_are_bounded_lines_without_control_characters():
    names = ", ".join(f"'column{i}'" for i in range(10_000))
    told = str(InputError(f"the table has no column 'x'; it has {names}."))
    assert len(told) <= 600
    assert told.startswith("the table has no column 'x'; it has 'column0'")
    assert told.endswith("'column9999'.")
    assert shorten("a\x1b[31m\nb\udc80") == "a\\x1b[31m b\\udc80"
    assert shorten("x" * 10**7).count("x") > 500


SLEEPER = """
import sys, time
import memberbound
from memberbound.scratch import PrivateFolder
def explain(epsilon: float = 1.0):
    '''Wait.

    Args:
        epsilon: a number.
    '''
    with PrivateFolder() as folder:
        (folder / "rows.csv").write_text("somebody")
        print(folder, flush=True)
        time.sleep(60)
memberbound.explain = explain
sys.argv = ['memberbound', 'explain']
from memberbound.faces.command_line import main
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_signal_ends_in_order_and_a_kill_is_tidied_by_the_next_run(number, code, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    started = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdout=-1, stderr=-1, text=True, env=environment
    )
    folder = started.stdout.readline().strip()
    assert (tmp_path / folder / "rows.csv").exists()
    started.send_signal(number)
    _, said = started.communicate(timeout=60)
    assert started.returncode == code
    if number == signal.SIGKILL:
        os.utime(folder, (0, 0))  # a minute later
        run("import sys; sys.argv[1:] = ['--version']\n"
            "from memberbound.faces.command_line import main; main()", tmp_path)  # fmt: skip
    else:
        assert said == "memberbound: stopped.\n"
    assert list(tmp_path.iterdir()) == []


def test_drafts_of_killed_runs_go_and_those_in_use_stay(tmp_path):
    old, fresh = tmp_path / ".memberbound-old", tmp_path / ".memberbound-fresh"
    old.write_text("somebody's row")
    fresh.write_text("just now")
    long_ago = time.time() - 3600
    os.utime(old, (long_ago, long_ago))
    seen = []

    def write(draft):
        os.utime(draft, (long_ago, long_ago))  # old, but held by this run
        write_atomically(tmp_path / "b.txt", lambda other: other.write_text("b"), False)
        seen.append(draft.exists())
        draft.write_text("a")

    write_atomically(tmp_path / "a.txt", write, False)
    assert seen == [True]
    assert sorted(p.name for p in tmp_path.iterdir()) == [".memberbound-fresh", "a.txt", "b.txt"]


def test_a_failed_write_names_the_output_and_leaves_the_old_file(tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")

    def full(draft):
        draft.write_text("half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(MemberboundError, match=r"out\.csv could not be written: No space left"):
        write_atomically(out, full, True)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_signal_that_an_engine_forgot_is_still_143(monkeypatch):
    monkeypatch.setattr(endings._sigterm_seen, "is_set", lambda: True)
    assert ending(RuntimeError("Query interrupted")) == ("stopped.", 143)
    assert ending(InputError("a step failed."))[1] == 143


@pytest.mark.skipif(os.name != "posix", reason="locks of the system are needed")
def test_folders_in_use_and_those_of_others_stay(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    used = PrivateFolder()
    without_lock = tmp_path / "memberbound-serve-starting"
    without_lock.mkdir()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "lock").touch()
    link = tmp_path / "memberbound-serve-link"
    link.symlink_to(elsewhere)
    pointing = tmp_path / "memberbound-serve-pointing"
    pointing.mkdir()
    (pointing / "lock").symlink_to(elsewhere / "lock")
    for path in (used.path, pointing):
        os.utime(path, (0, 0))
    remove_leftovers(str(tmp_path))
    assert all(path.exists() for path in (used.path, without_lock, link, elsewhere, pointing))
    used.remove()
    assert not used.path.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_temporary_files_are_removed_at_exit_but_not_by_a_fork(tmp_path):
    script = (
        "import os, sys\n"
        "from memberbound.scratch import PrivateFolder\n"
        "kept = PrivateFolder()\n"
        "if os.fork() == 0:\n"
        "    sys.exit(0)\n"
        "os.wait()\n"
        "print(kept.path.is_dir())\n"
    )
    assert python("-c", script, env={"TMPDIR": str(tmp_path)}).stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_is_loaded_is_one_sentence(number, tmp_path):
    code = (
        "import os, sys\n"
        "class Stopped:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        name == 'memberbound.faces.command_line' and os.kill(os.getpid(), {number:d})\n"
        "sys.meta_path.insert(0, Stopped())\n"
        "from memberbound.__main__ import main; main()"
    )
    ended = run(code, tmp_path)
    assert (ended.returncode, ended.stderr) == (128 + number, "memberbound: stopped.\n")
