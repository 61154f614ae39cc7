"""Locks on files: who holds them, what they leave, and what they keep away from."""

import os
import threading
from pathlib import Path

import pytest

from flows.locks import HeldError, hold, private


def test_a_lock_is_held_by_one_who_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    lock = tmp_path / "below" / "lock"
    with hold(lock, "ann"):
        with pytest.raises(HeldError, match="^ann$"), hold(lock, "bob"):
            pass
        assert lock.read_text() == "ann"
    assert not lock.exists()
    lock.write_text("what a killed holder has left")
    with hold(lock, "bob"):
        assert lock.read_text() == "bob"


def test_one_who_waits_never_holds_the_file_that_was_removed(tmp_path: Path) -> None:
    lock, held, most = tmp_path / "lock", 0, 0

    def work() -> None:
        nonlocal held, most
        for _ in range(50):
            with hold(lock, "me", wait=True):
                held += 1
                most = max(most, held)
                os.sched_yield()
                held -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and not lock.exists()


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lock").symlink_to("victim")
    with pytest.raises(OSError, match="symbolic link"), hold(tmp_path / "lock", "me"):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_private_directory_is_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = private(tmp_path / "home" / "own")
    place.chmod(0o777)
    assert private(place).stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(place)
    (tmp_path / "file").touch()
    for other in ("link", "file"):
        with pytest.raises(ValueError, match=f"{other}: "):
            private(tmp_path / other)
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    with pytest.raises(ValueError, match=f"directory of user {own}, expected a directory of user {own + 1}; remove it"):
        private(place)
