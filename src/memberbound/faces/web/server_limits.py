"""How much one server gives away, and how it refuses a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from memberbound.errors import MemberboundError, positive, whole_number

__all__ = ["GIB", "MIB", "Limits", "RefusedError", "first_sentence", "sized"]

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """Limits of a server; sizes are in bytes and times in seconds.

    Edge cases: ``running=0`` accepts jobs and starts none, which tests use.
    """

    upload_bytes: int = 2 * GIB
    unpacked_bytes: int = 8 * GIB
    rows: int = 50_000_000
    columns: int = 2_000
    body_bytes: int = 4 * MIB
    report_bytes: int = 32 * MIB
    answer_bytes: int = 64 * MIB
    job_memory_bytes: int = 4 * GIB
    job_disk_bytes: int = 16 * GIB
    job_seconds: float = 3600.0
    inspection_seconds: float = 600.0
    silence_seconds: float = 60.0
    running: int = 2
    #: Models that an audit trains at the same time, all within the memory of its job.
    workers: int = 2
    queued: int = 6
    kept_jobs: int = 30
    kept_files: int = 20
    kept_views: int = 10
    calculations: int = 2
    calculation_memory_bytes: int = 2 * GIB
    calculation_seconds: float = 20.0
    waiting: int = 1000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name.endswith("seconds"):
                positive(name, value)
            else:
                whole_number(name, value, at_least=0 if name in ("running", "queued") else 1)

    def to_dict(self) -> dict[str, float]:
        """Return the limits as the health endpoint shows them."""
        return asdict(self)


def sized(count: float) -> str:
    """Return a number of bytes as people write it.

    Examples:
        >>> sized(2 * GIB), sized(1536), sized(10)
        ('2 GiB', '1.5 KiB', '10 bytes')
    """
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:g} bytes"


class RefusedError(MemberboundError):
    """A request that is answered with a status of its own and ``{"error": sentence}``."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def first_sentence(problems: Sequence[Mapping[str, Iterable[object]]]) -> str:
    """Return the first of pydantic's complaints as a sentence, without quoting the input."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{place[:200] or 'the request'}: {message}."
