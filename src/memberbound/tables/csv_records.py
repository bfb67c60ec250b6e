"""Find the ends of CSV records, and normalise their line ends.

A quote opens a field only at its beginning, and two quotes inside quotes are one.  The end of the
first line is the end of every record; any other carriage return or line feed outside quotes belongs
to a value.  Some programs write such values without quotes (pandas, for a carriage return), and the
engine rejects such files, so :func:`quote_line_ends` quotes these values.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import IO

#: Number of bytes per section.
SECTION = 2**23
_QUOTED = rb'"(?:[^"]+|"")*+'


def sections(stream: IO[bytes], delimiter: bytes, end: bytes = b"\n") -> Iterator[bytes]:
    """Yield sections of whole CSV records; after a stray quote, the whole remainder.

    Examples:
        >>> import io
        >>> rows = b'1,"a,b"' + bytes([10]) + b"2,c" + bytes([10])
        >>> [len(section) for section in sections(io.BytesIO(rows), b",")]
        [12]
    """
    start = rb"(?:(?<=[\r\n" + re.escape(delimiter) + rb"])|\A)"
    quoted = re.compile(start + _QUOTED + rb'("|\Z)')
    rest = b""
    while chunk := stream.read(SECTION):
        block = rest + chunk
        fields = [(field.start(), field.end()) for field in quoted.finditer(block)]
        if sum(block.count(b'"', *field) for field in fields) != block.count(b'"'):
            yield block + stream.read()
            return
        limit = len(block)
        # The last field may continue, even after a quote, which may be the first of two.
        if fields and fields[-1][1] == limit:
            limit = fields.pop()[0]
        last = block.rfind(end, 0, limit)
        while last >= 0:
            while fields and fields[-1][0] > last:
                fields.pop()
            if not fields or fields[-1][1] <= last:
                break
            last = block.rfind(end, 0, fields[-1][0])
        rest = block[last + 1 :]
        if last >= 0:
            yield block[: last + 1]
    if rest:
        yield rest


def scan_lines(chunks: Iterable[bytes], header: bytes, end: bytes) -> tuple[bool, list[int]]:
    r"""Return whether a file holds line ends other than ``end``, and which lines repeat the header.

    ``chunks`` are the bytes of the file, without empty ones; ``end`` is ``\n``, ``\r\n`` or ``\r``.
    Line ends inside quotes count too.  Lines are numbered from 1.

    Examples:
        >>> scan_lines([b"a,b" + bytes([10]) + b"1,2" + bytes([10]), b"a,b"], b"a,b", bytes([10]))
        (False, [3])
        >>> scan_lines([b"a" + bytes([13, 10]) + b"b" + bytes([13])], b"a", bytes([13, 10]))
        (True, [])
    """
    mark = end[-1:]
    line = re.compile(mark + re.escape(header) + rb"(?=\r?" + mark + rb")")
    # Bytes that decide whether a line repeats the header; append them to the last line.
    padding = mark + bytes(len(header) + 1)
    returns = feeds = pairs = lines = 0
    last = rest = b""
    repeats = []
    for chunk in itertools.chain(chunks, [b""]):
        returns += chunk.count(b"\r")
        feeds += chunk.count(b"\n")
        pairs += (last + chunk).count(b"\r\n")
        last = chunk[-1:]
        block, counted = rest + (chunk or padding), 0
        decided = max(0, len(block) - len(padding))
        for match in line.finditer(block):
            if match.start() < decided:
                lines += block.count(mark, counted, match.start() + 1)
                counted = match.start() + 1
                repeats.append(lines + 1)
        lines += block.count(mark, counted, decided)
        rest = block[decided:]
    if end == b"\r\n":
        return not returns == feeds == pairs, repeats
    return bool(feeds if end == b"\r" else returns), repeats


def quote_line_ends(stream: IO[bytes], delimiter: bytes, end: bytes) -> Iterator[bytes]:
    r"""Yield the same records with quotes around values that contain line ends other than ``end``.

    ``\n`` and ``\r\n`` both end records if ``end`` is one of them, and are then written as ``\n``.

    Guarantee: the output for a value depends on its own bytes and ``end`` alone.

    Examples:
        >>> import io
        >>> rows = b"1,a" + bytes([13]) + b"b" + bytes([10])
        >>> b"".join(quote_line_ends(io.BytesIO(rows), b",", bytes([10])))
        b'1,"a\rb"\n'
    """
    pair = end == b"\r\n"
    one = b"\n" if pair else end
    other = b"\r" if one == b"\n" else b"\n"
    outside = rb"[^" + re.escape(delimiter + one) + rb"]"
    start = rb"(?:(?<=[" + re.escape(delimiter + one) + rb"])|\A)"
    field = re.compile(
        start + rb"(?:" + _QUOTED + rb'"' + other + rb"?|(?!\")"
        rb"[^\r\n" + re.escape(delimiter) + rb"]*" + other + outside + rb"*)"
    )

    def quote(match: re.Match[bytes]) -> bytes:
        value, after = match[0], match.string[match.end() : match.end() + 1]
        closed = value.startswith(b'"')
        ends = after == one or (pair and not after)
        if one == b"\n" and value.endswith(b"\r") and ends:
            value = value[:-1]
        if closed or other not in value:
            return value
        return b'"' + value.replace(b'"', b'""') + b'"'

    for section in sections(stream, delimiter, one):
        yield field.sub(quote, section)
