"""Files appear whole or not at all, and what is no plain file is written to, never replaced."""

from __future__ import annotations

import os
import pty
import stat
import threading
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.writing import check_target, plain_file, whole_file, write_bytes


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    target, link = tmp_path / "target" / "plan.yaml", tmp_path / "plan.yaml"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert names(tmp_path / "target") == ["plan.yaml"]


def test_a_link_to_nothing_yet(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("made.yaml")
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "made.yaml").read_bytes() == b"new"


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(InputError, match="--out"):
        write_bytes(tmp_path / "a", b"x")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"plan")
    reader.join(5)
    assert read == [b"plan"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_a_device_is_written_to(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        terminal = tmp_path / "terminal"
        terminal.symlink_to(os.ttyname(theirs))
        write_bytes(terminal, b"plan\n")
        assert os.read(ours, 100).strip() == b"plan"
        assert terminal.is_symlink()
        assert stat.S_ISCHR(terminal.stat().st_mode)
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_open_file_goes_on_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as log:
        log.write(b"before ")
        write_bytes(Path(f"/dev/fd/{log.fileno()}"), b"plan ")
        log.write(b"after")
    assert path.read_bytes() == b"before plan after"


def test_a_body_that_fails_leaves_what_was(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("old")

    def fail() -> None:
        with whole_file(path) as part:
            part.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["plan.yaml"]


@pytest.mark.parametrize("path", ["/proc/plan.yaml", "/no/such/folder/plan.yaml", "/"])
def test_where_nothing_can_be_written(path: str) -> None:
    for act in (check_target, plain_file, lambda p: write_bytes(p, b"x")):
        with pytest.raises(InputError, match="--out: got"):
            act(Path(path))


def test_a_full_device_is_a_sentence() -> None:
    with pytest.raises(InputError, match="No space left"):
        write_bytes(Path("/dev/full"), b"x")


def test_what_is_read_again_is_a_plain_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="a plain file"):
        plain_file(pipe)
    check_target(pipe)
    (tmp_path / "link").symlink_to("rows.csv")
    assert plain_file(tmp_path / "link") == tmp_path / "rows.csv"
    assert names(tmp_path) == ["link", "pipe"]
