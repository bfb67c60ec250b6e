"""Pages made from the code: the reference below ``cli.md``, and the glossary of the reports."""

from typing import Any

from memberbound.declarations import Parameter, Verb
from memberbound.faces.command_line import VERBS, verb_named
from memberbound.report.prose import GAMES, GLOSSARY

#: What is typed for a kind of argument that has no word of its own.
_TYPED = {"number": "number", "whole": "N", "rates": "rate (may be repeated)", "switch": ""}
_NOT_TYPED = ("progress", "hidden")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Add the reference to the page of the command line, and the words to the glossary."""
    if page.file.src_uri == "glossary.md":
        return f"{markdown}\n{glossary()}"
    if page.file.src_uri != "cli.md":
        return markdown
    return markdown + "\n" + "\n".join(section(verb_named(name)) for name in VERBS)


def glossary() -> str:
    """Return the glossary of the reports as a table, and the games that bounds speak of."""
    rows = [f"| {word} | {meaning} |" for word, meaning in GLOSSARY]
    games = [f"- **{name}**: {text}." for name, text in GAMES.items()]
    return "\n".join(["| word | meaning |", "|---|---|", *rows, "", "## Games", "", *games, ""])


def section(verb: Verb) -> str:
    """Return a verb's part of the reference."""
    lines = [f"## {verb.name}", "", verb.summary, ""]
    if verb.examples:
        lines += ["```console", *(f"$ {example}" for example in verb.examples), "```", ""]
    typed = [p for p in (*verb.parameters, *verb.gate) if p.kind not in _NOT_TYPED]
    if typed:
        lines += ["| | | |", "|---|---|---|", *map(_row, typed), ""]
    return "\n".join(lines)


def _row(parameter: Parameter) -> str:
    word = parameter.metavar or _TYPED.get(parameter.kind, "TEXT")
    name = word if parameter.positional else parameter.flag
    value = "" if parameter.positional else word
    default = parameter.default
    shown = "" if default in (None, False, ()) else f" Default: {default}."
    cells = (f"`{name}`", f"`{value}`" if value else "", parameter.help + shown)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def on_page_content(html: str, **_: Any) -> str:
    """Give a table without a heading a plain corner: an empty heading is read aloud as one."""
    return html.replace("<th></th>", "<td></td>")


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Take the search's stand-in for a worker from here instead of from a network."""
    above = "../" * page.file.dest_uri.count("/")
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{above}worker.js")
