"""Files appear whole or not at all; what is not a plain file (a device, a pipe, a link) stays what it is."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from planner.errors import InputError

STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
"""Names of this process's open files; so are /dev/fd/N and /proc/self/fd/N."""


ENDINGS = (".csv", ".htm", ".html", ".json", ".jsonl", ".md", ".parquet", ".pdf", ".sh", ".xlsx", ".yaml", ".yml")
"""Endings that say what is in a file: one of them on another content misleads people and programs."""


@contextmanager
def whole_file(path: Path, field: str = "--out") -> Iterator[Path]:
    """A scratch file to fill, whose content ``path`` holds at the end.

    A plain file is replaced in one step, behind symbolic links where there are any; a device, a pipe or an open file
    such as /dev/stdout is written to. Nothing is left of a body that raises. Raises InputError naming ``field`` where
    ``path`` cannot be written.
    """
    target = _plain(path, field)
    part = _scratch(path, field, target)
    try:
        yield part
        try:
            if target is None:
                with part.open("rb") as content, _stream(path) as out:
                    shutil.copyfileobj(content, out)
            else:
                os.chmod(part, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
                os.replace(part, target)
        except OSError as error:
            raise _unwritable(path, field, error) from None
    finally:
        part.unlink(missing_ok=True)


def check_target(path: Path, field: str = "--out") -> None:
    """Raises InputError where :func:`whole_file` could not write: before the work, not after."""
    target = _plain(path, field)
    if target is not None:
        _scratch(path, field, target).unlink()


def check_ending(path: Path, own: tuple[str, ...], field: str = "--out", *, needed: bool = True) -> None:
    """Raises InputError where the name of a plain file does not end in one of ``own``.

    With ``needed`` false any other name will do, unless its ending (of :data:`ENDINGS`) promises another content.
    """
    ending = path.suffix.lower()
    wrong = ending not in own and (needed or ending in ENDINGS)
    if wrong and _plain(path, field) is not None:
        raise InputError(field, str(path), f"a file that ends in {' or '.join(own)}")


def plain_file(path: Path, field: str = "--out") -> Path:
    """The plain file behind ``path``, there or to be made, in whose folder files can be made; else InputError."""
    target = _plain(path, field)
    if target is None:
        raise InputError(field, str(path), "a plain file, which can be read again and added to")
    check_target(target, field)
    return target


def write_bytes(path: Path, content: bytes, field: str = "--out") -> None:
    """:func:`whole_file` of ``content``."""
    with whole_file(path, field) as part:
        try:
            part.write_bytes(content)
        except OSError as error:
            raise _unwritable(path, field, error) from None


def _plain(path: Path, field: str) -> Path | None:
    """The plain file that ``path`` is or will be, behind its links; None for a device, a pipe or an open file."""
    if _descriptor(path) is not None:
        return None
    try:
        mode: int | None = path.stat().st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise _unwritable(path, field, error) from None
    if mode is not None and stat.S_ISDIR(mode):
        raise InputError(field, str(path), "a file, not a folder")
    if mode is not None and not stat.S_ISREG(mode):
        return None
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(field, str(path), "a path in a folder that exists")
    return target


def _scratch(path: Path, field: str, target: Path | None) -> Path:
    """An empty file beside ``target``, else where temporary files go."""
    try:
        folder = None if target is None else target.parent
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise InputError(field, str(path), f"a folder that can be written ({error.strerror})") from None
    os.close(handle)
    return Path(name)


def _descriptor(path: Path) -> int | None:
    """Number of the open file that a path such as /dev/stdout names."""
    name = os.path.abspath(path)
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", name)
    return int(found[1]) if found else STREAMS.get(name)


def _stream(path: Path) -> BinaryIO:
    """What is not a plain file, open for writing; an open file goes on where it stands."""
    number = _descriptor(path)
    if number is None:
        return path.open("wb")
    with suppress(ValueError, OSError):
        sys.stdout.flush()
    return os.fdopen(os.dup(number), "wb")


def _unwritable(path: Path, field: str, error: OSError) -> InputError:
    return InputError(field, str(path), f"a file that can be written ({error.strerror or error})")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
