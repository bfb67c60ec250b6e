"""Limits of a server on sizes, times and concurrency."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """Limits of a server; sizes are in bytes and times in seconds.

    Edge cases: ``running=0`` accepts jobs but starts none, for tests.
    """

    upload_bytes: int = 2 * GIB
    body_bytes: int = 32 * MIB
    answer_bytes: int = 64 * MIB
    job_memory_bytes: int = 4 * GIB
    job_disk_bytes: int = 16 * GIB
    job_seconds: float = 3600.0
    question_seconds: float = 20.0
    #: Time to inspect an upload, in addition to the time for its size.
    inspection_seconds: float = 60.0
    inspection_bytes_per_second: float = 32 * MIB
    #: Maximum columns of an uploaded table: each takes about 25 ms to inspect, even with few rows.
    columns: int = 1000
    #: Concurrent questions, and concurrent inspections of uploads; others wait.
    questions: int = 2
    inspections: int = 2
    running: int = 2
    queued: int = 6
    kept_jobs: int = 30
    kept_files: int = 20
    kept_views: int = 10


def format_size(count: float) -> str:
    """Format a number of bytes for people.

    Examples:
        >>> format_size(2 * GIB), format_size(1536), format_size(10)
        ('2 GiB', '1.5 KiB', '10 bytes')
    """
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:g} bytes"
