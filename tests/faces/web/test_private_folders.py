"""Folders of servers: private, in use while their server lives, and deleted when it was killed."""

import os
import subprocess
import sys
import tempfile

import pytest

from memberbound.faces.web.application import State
from memberbound.faces.web.limits import Limits
from memberbound.files import PrivateFolder, remove_leftovers

KILLED = """
import os, signal
from memberbound.files import PrivateFolder
folder = PrivateFolder("memberbound-serve-").path
(folder / "files").mkdir()
(folder / "files" / "table.csv").write_text("name\\nsomebody\\n")
print(folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks of the system are needed")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def killed(place):
    """Leave the folder of a process that was killed."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLED],
        env=os.environ | {"TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    (folder,) = place.glob("memberbound-serve-*")
    assert str(folder) == ran.stdout.strip()
    assert ran.returncode == -9
    return folder


def test_the_data_of_a_killed_server_go_when_the_next_one_starts(place):
    left = killed(place)
    assert (left / "files" / "table.csv").exists()
    server = State(Limits())
    assert not left.exists()
    assert server.folder.exists()
    assert server.folder.stat().st_mode & 0o077 == 0


def test_folders_in_use_and_those_of_others_stay(place, tmp_path_factory):
    used = PrivateFolder()
    without_lock = place / "memberbound-serve-starting"
    without_lock.mkdir()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "lock").touch()
    link = place / "memberbound-serve-link"
    link.symlink_to(elsewhere)
    pointing = place / "memberbound-serve-pointing"
    pointing.mkdir()
    (pointing / "lock").symlink_to(elsewhere / "lock")
    assert remove_leftovers() == []
    assert all(path.exists() for path in (used.path, without_lock, link, elsewhere, pointing))
    used.remove()
    assert not used.path.exists()
