"""Write Markdown from untrusted texts: column names, labels, messages.

Characters with a meaning in Markdown, its tables, HTML or mathematics become numeric character
references, which every renderer shows as the character itself and none reads as markup.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from memberbound.report import words
from memberbound.report.page import environment

if TYPE_CHECKING:
    from jinja2 import Environment

_MARKUP = frozenset("\\`*_{}[]<>|~$&#@")
#: Starts of a line that Markdown reads as a list, a heading or a rule.
_FIRST = re.compile(r"^(?:[-+=]|(\d+)[.)](?=\s|$))")
#: Addresses that some renderers turn into links.
_ADDRESS = re.compile(r"(?i)(?<=[a-z])(:)(?=//)|(?<=www)(\.)|(?<=mailto)(:)|(?<=xmpp)(:)")
#: Unicode categories of characters that are invisible or reverse the direction of the text.
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def clean(text: object) -> str:
    r"""Return a text on one line, without invisible or unencodable characters.

    >>> clean("two\nlines, a\u202e turn and half a pair \ud800")
    'two lines, a turn and half a pair �'
    """
    whole = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in str(text))
    visible = (c for c in whole if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    return " ".join("".join(visible).split())


def escape(text: object) -> str:
    """Escape a text so that Markdown shows it verbatim, on one line.

    >>> escape("a|b <c> `d`")
    'a&#124;b &#60;c&#62; &#96;d&#96;'
    >>> escape("1. x"), escape("- x")
    ('1&#46; x', '&#45; x')
    """
    # "****" around an empty text would itself be markup.
    safe = "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in clean(text)) or "–"
    safe = _ADDRESS.sub(lambda mark: f"&#{ord(mark.group())};", safe)
    first = _FIRST.match(safe)
    if first is None:
        return safe
    number = first.group(1) or ""
    return f"{number}&#{ord(safe[len(number)])};{safe[len(number) + 1 :]}"


@cache
def _markdown() -> Environment:
    """Return the Jinja environment of Markdown templates, which escapes every value."""
    from markupsafe import Markup

    def finalize(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(escape(value))

    return environment().overlay(finalize=finalize)


def fill_markdown(template: str, **facts: object) -> str:
    """Render a Markdown template."""
    text = _markdown().get_template(template).render(words=words(), **facts)
    return text.rstrip("\n") + "\n"
