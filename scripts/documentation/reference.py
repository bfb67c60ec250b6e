"""Pages made from the code: the options of every verb, and the glossary of the reports."""

from memberbound.declarations import Parameter, Verb
from memberbound.faces.command_line import VERBS, verb_named
from memberbound.report import words

#: Placeholders of kinds of arguments without their own metavar.
_TYPED = {"number": "number", "whole": "N", "rates": "rate (may be repeated)", "switch": ""}
_NOT_TYPED = ("progress", "hidden")


def with_options(page: str) -> str:
    """Return the page of the command line with the reference of every verb below it."""
    return page + "\n" + "\n".join(section(verb_named(name)) for name in VERBS)


def with_glossary(page: str) -> str:
    """Return the page of the glossary with the words of the reports, and the games, below it."""
    rows = [f"| {word} | {meaning} |" for word, meaning in words()["glossary"].items()]
    games = [f"- **{name}**: {text}." for name, text in words()["games"].items()]
    table = ["| word | meaning |", "|---|---|", *rows]
    return "\n".join([page, *table, "", "## Who attacks", "", *games, ""])


def section(verb: Verb) -> str:
    """Return a verb's part of the reference."""
    lines = [f"## {verb.name}", "", verb.summary, ""]
    if verb.examples:
        lines += ["```console", *(f"$ {example}" for example in verb.examples), "```", ""]
    typed = [p for p in (*verb.parameters, *verb.limit_parameters) if p.kind not in _NOT_TYPED]
    if typed:
        lines += ["| option | value | meaning |", "|---|---|---|", *map(_row, typed), ""]
    return "\n".join(lines)


def _row(parameter: Parameter) -> str:
    word = parameter.metavar or _TYPED.get(parameter.kind, "TEXT")
    name = word if parameter.positional else parameter.flag
    value = "" if parameter.positional else word
    default = parameter.default
    shown = "" if default in (None, False, ()) else f" Default: {default}."
    cells = (f"`{name}`", f"`{value}`" if value else "", parameter.help + shown)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
