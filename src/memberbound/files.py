"""Check input and output files, read small documents, and write files atomically.

A draft is written first and then renamed; it is locked like the folders of
:mod:`memberbound.scratch`.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from memberbound.errors import InputError, MemberboundError, unwritable
from memberbound.scratch import remove_leftover, try_lock

TABLE_ENDINGS = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather")
#: Maximum bytes of a hand-written document.
_DOCUMENT = 2**24
#: Maximum levels of a document.
_DEEPEST = 100
#: YAML types that are read as plain text.
_WORDS = ("bool", "timestamp")
#: YAML types without a JSON equivalent, except dates.
_FOREIGN_TAGS = ("binary", "omap", "pairs", "set")
#: Numbers with an exponent, which YAML 1.1 reads as text without a point or a sign.
_FLOAT = re.compile(r"[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)[eE][-+]?[0-9]+")
_DRAFT = ".memberbound-"


def check_output(
    path: str | os.PathLike[str],
    *,
    name: str = "out",
    formats: tuple[str, ...] = TABLE_ENDINGS,
    source: str | Path | None = None,
    force: bool = False,
) -> Path:
    """Return a writable path, or raise before any work is done."""
    target = Path(path)
    if not target.name.lower().endswith(formats):
        raise InputError(f"{name} must end in {', '.join(formats)}, got {str(path)!r}.")
    if not target.parent.is_dir():
        raise InputError(f"{name} must be in an existing folder, got {str(path)!r}.")
    if target.is_dir():
        raise InputError(f"{name} must be a file, got the folder {str(path)!r}.")
    both = source is not None and target.exists() and Path(source).exists()
    if source is not None and both and target.samefile(source):
        raise InputError(f"{name} must differ from the table that is read, got {str(path)!r}.")
    if target.exists() and not force:
        raise InputError(
            f"{name} must not exist yet, got {str(path)!r}. Overwrite it with --force."
        )
    return target


def check_input(path: Path, name: str) -> None:
    """Reject anything but a regular file, because a pipe or a device may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no such name"
        raise InputError(f"{name} must be an existing file, got {str(path)!r}: {why}.") from None
    if not stat.S_ISREG(mode):
        kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe"}
        kind = next((word for test, word in kinds.items() if test(mode)), "a device")
        raise InputError(f"{name} must be an existing file, got {str(path)!r}, which is {kind}.")


def read_document(
    path: str | os.PathLike[str], name: str, kind: str | None = None, *, words: bool = False
) -> object:
    """Read a small JSON or YAML file; YAML unless it ends in ``.json``.

    YAML aliases are refused, because a few lines can expand exponentially; the types are those of
    JSON and dates.  Duplicate keys are refused.  ``1e-3`` is a number, as in YAML 1.2 and JSON.
    With ``words``, ``no`` and ``2020-01-01`` are text.

    Edge cases: anything but a file, a file above 16 MB, not UTF-8, nested too deeply or malformed
    raises an InputError that calls it ``name``.
    """
    file = Path(path)
    kind = kind or ("JSON" if file.suffix.lower() == ".json" else "YAML")
    check_input(file, name)
    try:
        with file.open("rb") as opened:
            content = opened.read(_DOCUMENT + 1)  # it may grow meanwhile
        if len(content) > _DOCUMENT:
            raise InputError(f"{name} must be at most 16 MB, got {file.name!r}.")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name} must be {kind} (UTF-8), got {file.name!r}.") from None
    except OSError as error:
        raise InputError(
            f"{name} must be a readable file, got {str(file)!r}: {error.strerror}."
        ) from None

    def refuse(word: str) -> None:
        raise InputError(f"{name} must hold finite numbers, got {word}.")

    try:
        if kind == "JSON":
            value = json.loads(text, parse_constant=refuse, object_pairs_hook=_without_repeats)
        else:
            value = _yaml_value(text, words)
        if _is_deep(value):
            raise RecursionError
        return value
    except RecursionError:
        raise InputError(f"{name} must not be nested too deeply, got {file.name!r}.") from None
    except InputError:
        raise
    except ValueError as error:
        first = (str(error).splitlines() or ["unreadable"])[0].rstrip(".")
        raise InputError(f"{name} must be {kind}, got {file.name!r}: {first}.") from None


def _is_deep(value: object) -> bool:
    """Return whether a document has more levels than any function here should descend."""
    level = [value]
    for _ in range(_DEEPEST):
        inner = [each for each in level if isinstance(each, (dict, list))]
        level = [v for each in inner for v in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return False
    return True


def _without_repeats(pairs: list[tuple[object, object]]) -> dict[object, object]:
    """Return the pairs as a mapping; refuse duplicate keys."""
    mapping: dict[object, object] = {}
    for name, value in pairs:
        if name in mapping:
            raise ValueError(f"{name!r} is given twice")
        mapping[name] = value
    return mapping


def _yaml_value(text: str, words: bool) -> object:
    import yaml

    left_out = _WORDS if words else ()

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [rule for rule in rules if rule[0].rsplit(":", 1)[-1] not in left_out]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: object, index: object) -> object:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases are not allowed")
            return super().compose_node(parent, index)

        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[object, object]:
            mapping: dict[object, object] = super().construct_mapping(node, deep)
            _without_repeats([(self.construct_object(key, deep=True), 0) for key, _ in node.value])
            return mapping

        yaml_constructors = {  # noqa: RUF012
            tag: construct
            for tag, construct in yaml.SafeLoader.yaml_constructors.items()
            if tag is None or tag.rsplit(":", 1)[-1] not in _FOREIGN_TAGS
        }

    Plain.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("+-.0123456789"))
    try:
        return yaml.load(text, Loader=Plain)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except (TypeError, LookupError, AttributeError) as error:  # for example, a list as a key
        raise ValueError(f"{type(error).__name__} at an odd value") from None


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(text: str, path: Path, *, force: bool = False, private: bool = False) -> None:
    """Write a text file atomically."""

    def write(draft: Path) -> None:
        draft.write_text(text, encoding="utf-8")

    write_atomically(path, write, force, private=private)


def write_atomically(
    path: Path, write: Callable[[Path], object], force: bool, *, private: bool = False
) -> None:
    """Write a file atomically: ``write`` fills a draft next to ``path``, which is then renamed.

    A failure leaves nothing behind.  The draft is synced to disk before the rename, so a power cut
    leaves the old file or the new one.  Drafts left by killed runs in the same folder are deleted.
    With ``private``, for rows and predictions about them, only this user can read the file,
    whatever the umask.
    """
    remove_drafts(path.parent)
    draft = path.parent.absolute() / f"{_DRAFT}{secrets.token_hex(8)}"
    handle = -1
    try:
        # Private while it is being written.
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try_lock(handle)
        try:
            write(draft)
        except (ArithmeticError, TypeError, ValueError) as error:  # Arrow refuses mixed columns
            if isinstance(error, MemberboundError):
                raise
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path} cannot hold this table: {first}.") from error
        draft.chmod(0o600 if private else _usual_mode(draft))
        os.fsync(handle)
        _rename(draft, path, force)
    except OSError as error:
        raise unwritable(str(path), error) from error
    finally:
        if handle >= 0:
            os.close(handle)
        draft.unlink(missing_ok=True)


def _usual_mode(draft: Path) -> int:
    """Return the default permissions of a new file in this folder.

    Create an empty file, because reading the umask would change it briefly in all threads.
    """
    probe = draft.with_name(f"{draft.name}-mode")
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        return stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        os.close(handle)
        probe.unlink()


def _rename(draft: Path, path: Path, force: bool) -> None:
    if force:
        draft.replace(path)
    else:
        try:
            os.link(draft, path)  # fails if the file has appeared meanwhile
        except FileExistsError:
            raise InputError(f"out must not exist yet, got {str(path)!r}.") from None
        except OSError:  # no hard links: reserve the name first, if it is free
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                raise InputError(f"out must not exist yet, got {str(path)!r}.") from None
            draft.replace(path)


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, for this user alone."""
    for above in reversed(folder.parents):
        if not above.exists():
            above.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)  # an earlier version may have created it


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that a power cut cannot undo a rename.

    Windows has no such call; its file systems journal names.
    """
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_drafts(folder: Path) -> None:
    """Delete drafts of killed runs in a folder."""
    for draft in folder.glob(f"{_DRAFT}*"):
        remove_leftover(draft, stat.S_ISREG, draft)


# ── The encoding of CSV files ─────────────────────────────────────────────────────────────────────


def codec_named(encoding: str | None) -> str | None:
    """Return Python's name of an encoding (None for None); reject unknown encodings."""
    if encoding is None:
        return None
    try:
        codec = codecs.lookup(encoding).name
        "".encode(codec)  # some codecs do not encode text
    except (LookupError, ValueError):
        raise InputError(
            f"encoding must be one that Python knows, such as latin-1, cp1252 or utf-16, got "
            f"{encoding!r}."
        ) from None
    return codec
