"""Folders of servers: private, in use while their server lives, and deleted when it was killed."""

import os
import tempfile

import pytest

from memberbound.faces.web.application import State
from memberbound.faces.web.processes import Limits
from memberbound.files import PrivateFolder, remove_leftovers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks of the system are needed")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_data_of_a_killed_server_go_when_the_next_one_starts(place):
    left = place / "memberbound-serve-killed"
    left.mkdir()
    (left / "lock").touch()  # which nobody holds
    (left / "table.csv").write_text("name\nsomebody\n")
    os.utime(left, (0, 0))
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
    for path in (used.path, pointing):
        os.utime(path, (0, 0))
    assert remove_leftovers() == []
    assert all(path.exists() for path in (used.path, without_lock, link, elsewhere, pointing))
    used.remove()
    assert not used.path.exists()
