"""Markdown from texts that may hold anything: names of columns, labels, messages.

Characters that Markdown, its tables, HTML or mathematics give a meaning to become numeric character
references, which every renderer shows as the character itself and none reads as markup.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

__all__ = ["bullets", "clean", "escaped", "table"]

_MARKUP = frozenset("\\`*_{}[]<>|~$&#@")
#: Without these a text at the start of a line would become a list, a heading or a rule.
_FIRST = re.compile(r"^(?:[-+=]|(\d+)[.)](?=\s|$))")
#: Addresses that some renderers turn into links by themselves.
_ADDRESS = re.compile(r"(?i)(?<=[a-z])(:)(?=//)|(?<=www)(\.)|(?<=mailto)(:)|(?<=xmpp)(:)")
#: Categories of characters that cannot be seen or turn the direction of what follows.
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def clean(text: object) -> str:
    r"""Return a text on one line, without characters that cannot be seen or stored.

    >>> clean("two\nlines, a\u202e turn and half a pair \ud800")
    'two lines, a turn and half a pair �'
    """
    whole = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in str(text))
    seen = (c for c in whole if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    return " ".join("".join(seen).split())


def escaped(text: object) -> str:
    """Return a text that Markdown shows as it is, on one line.

    >>> escaped("a|b <c> `d`")
    'a&#124;b &#60;c&#62; &#96;d&#96;'
    >>> escaped("1. x"), escaped("- x")
    ('1&#46; x', '&#45; x')
    """
    # An empty text between two marks would be a mark itself.
    said = "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in clean(text)) or "–"
    said = _ADDRESS.sub(lambda found: f"&#{ord(found.group())};", said)
    first = _FIRST.match(said)
    if first is None:
        return said
    number = first.group(1) or ""
    mark = said[len(number)]
    return f"{number}&#{ord(mark)};{said[len(number) + 1 :]}"


def bullets(items: Iterable[str]) -> list[str]:
    """Return the lines of a list; the items are Markdown already."""
    return [f"- {item}" for item in items]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
