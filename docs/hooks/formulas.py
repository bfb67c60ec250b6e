"""Formulas as a book sets them: e^{−ε} raised and N_{k−1} lowered, in every page's text.

The sources are plain text that reads well in an editor, and nothing is fetched or run in the
browser: exponents and indices become ``<sup>`` and ``<sub>`` when the page is built.  Code is left
as it is.
"""

import re
from typing import Any

#: Tags, and whatever stands inside those whose text is not prose.
_LEFT = re.compile(r"(<(code|pre|script|style|svg|title)\b.*?</\2>|<[^>]*>)", re.DOTALL)
_LETTER = r"A-Za-zα-ωΑ-Ωℓ"
#: In braces, innermost first: ``e^{−ε}``, ``S_{&lt;i}``.
_BRACES = re.compile(r"([\^_])\{([^{}]*)\}")
#: Without them a number, or one letter with its sign: ``2^53``, ``e^ε``, ``(1+x)^−n``.
_RAISED = re.compile(rf"(?<=[\w)\]}}|‖’'̂̄>])\^(?:\(([^()]{{1,9}})\)|([−-]?(?:\d+|[{_LETTER}½∓±])))")
#: One letter (or in, out, …) below a letter or a bar, so that names_with_underscores stay: ``X_i``.
_LOWERED = re.compile(
    rf"(?:(?<=[{_LETTER}∇∫|)'̂̄̃*])(?<![a-z]{{3}})|(?<=max)|(?<=min)|(?<=sup)|(?<=inf))"
    rf"_((?:in|out)(?:,x)?\b|(?:min|max|main|ii|ij|ik|jk|xx|yy|uu|vv)\b|[0-9{_LETTER}±+−*](?![a-z](?!_)|_))"
)


def on_page_content(html: str, **_: Any) -> str:
    """Raise exponents and lower indices in the text of a page."""
    pieces = _LEFT.split(html)
    # split yields text, the part that stays, the name of its tag, text, …
    pieces[::3] = map(typeset, pieces[::3])
    del pieces[2::3]
    return "".join(pieces)


def typeset(text: str) -> str:
    """Return a text with exponents and indices as HTML.

    >>> typeset("TPR ≤ e^εFPR + δ, e^{−2ε}, X_{n₁}, max_k N_k, pmp_epsilon_upper")
    'TPR ≤ e<sup>ε</sup>FPR + δ, e<sup>−2ε</sup>, X<sub>n₁</sub>, max<sub>k</sub> N<sub>k</sub>, \
pmp_epsilon_upper'
    """
    for _ in range(3):
        text = _BRACES.sub(lambda found: _set(found[1], found[2]), text)
    text = _RAISED.sub(lambda found: _set("^", found[1] or found[2]), text)
    return _LOWERED.sub(lambda found: _set("_", found[1]), text)


def _set(sign: str, text: str) -> str:
    tag = "sup" if sign == "^" else "sub"
    return f"<{tag}>{text}</{tag}>"
