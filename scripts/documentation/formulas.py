"""Formulas as a book sets them: e^{−ε} raised and N_{k−1} lowered, in every page's text.

The sources are plain text that reads well in an editor, and nothing is fetched or run in the
browser: exponents and indices become ``<sup>`` and ``<sub>`` in the Markdown that is written.
Code, link targets and HTML tags are left as they are.
"""

import re

#: Code (fenced, indented, in a line) and link targets.
CODE = re.compile(r"(```.*?```|^ {4}.*?$|`[^`]*`|\]\([^)]*\))", re.DOTALL | re.MULTILINE)
#: The same, front matter, anchors of headings, tags, and the text of tags that is no prose.
_VERBATIM = re.compile(
    CODE.pattern[:-1] + r"|\A---\n.*?\n---$|\{ #[^}]*\}"
    r"|<(?:(code|pre|script|style|svg|title)\b.*?</\2>|/?[A-Za-z!][^>]*>))",
    CODE.flags,
)
_LETTER = r"A-Za-zα-ωΑ-Ωℓ"
#: Markdown may have a backslash before them.
_LOW, _STAR = r"\\?_", r"\\?\*"
#: In braces, innermost first: ``e^{−ε}``, ``S_{&lt;i}``.
_BRACES = re.compile(rf"(\^|{_LOW})\{{([^{{}}]*)\}}")
#: Without them a number, or one letter with its sign: ``2^53``, ``e^ε``, ``(1+x)^−n``.
_RAISED = re.compile(rf"(?<=[\w)\]}}|‖’'̂̄>])\^(?:\(([^()]{{1,9}})\)|([−-]?(?:\d+|[{_LETTER}½∓±])))")
#: One letter (or in, out, …) below a letter or a bar, so that names_with_underscores stay: ``X_i``.
_LOWERED = re.compile(
    rf"(?:(?<=[{_LETTER}∇∫|)'̂̄̃*])(?<![a-z]{{3}})|(?<=max)|(?<=min)|(?<=sup)|(?<=inf))"
    rf"{_LOW}((?:in|out)(?:,x)?\b|(?:min|max|main|ii|ij|ik|jk|xx|yy|uu|vv)\b"
    rf"|(?:[0-9{_LETTER}±+−]|{_STAR})(?![a-z](?!{_LOW})|{_LOW}))"
)


def set_formulas(markdown: str) -> str:
    """Raise exponents and lower indices in the text of a page.

    >>> set_formulas("`x^2` is x^2, see [a_1](a_1.md), <b id='x_1'>x_1</b>")
    "`x^2` is x<sup>2</sup>, see [a<sub>1</sub>](a_1.md), <b id='x_1'>x<sub>1</sub></b>"
    """
    pieces = _VERBATIM.split(markdown)
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
        text = _BRACES.sub(lambda match: _set(match[1], match[2]), text)
    text = _RAISED.sub(lambda match: _set("^", match[1] or match[2]), text)
    return _LOWERED.sub(lambda match: _set("_", match[1]), text)


def _set(sign: str, text: str) -> str:
    tag = "sup" if sign == "^" else "sub"
    return f"<{tag}>{text}</{tag}>"
