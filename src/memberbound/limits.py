"""A limit on how often somebody may be right, and whether an answer keeps it: the gate of a build.

An answer that can be held to a limit says which of its numbers are successes (probabilities of
being right about membership), and which *part* of them it knows:

============  ==========================================================================
part          the number that must not be above the limit
============  ==========================================================================
``ceiling``   what is proved that nobody exceeds; where nothing is proved it is 1
``estimate``  what the best attack tried reached, neither proved nor a bound
``floor``     what that attack is proved to reach, at the audit's confidence
============  ==========================================================================

Passing on the ceiling is a promise; passing on the estimate or the floor only means that no attack
tried did worse.  The command line turns an exceeded limit into exit code 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal
from xml.etree import ElementTree

from memberbound.errors import InputError, finite_number, one_of
from memberbound.files import written_whole
from memberbound.quantities import Kind, marked, percent

Part = Literal["ceiling", "estimate", "floor"]
PARTS: tuple[Part, ...] = ("ceiling", "estimate", "floor")
_KINDS: dict[Part, Kind] = {"ceiling": "certificate", "estimate": "estimate", "floor": "audit"}


@dataclass(frozen=True)
class Success:
    """How often somebody is right about the membership of some record, as far as it is known.

    ``what`` says who is right about whom; ``blind`` is how often the likelier answer is right.
    Where nothing could be ``measured`` there is no number, and no limit is checked.
    """

    what: str
    blind: float = 0.5
    ceiling: float | None = None
    estimate: float | None = None
    floor: float | None = None
    measured: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class Limit:
    """The largest success rate that is allowed, and the part of it that is looked at.

    Examples:
        >>> Limit(0.55)
        Limit(most=0.55, on=None)
        >>> Limit(55)
        Traceback (most recent call last):
        memberbound.errors.InputError: fail_above must be in [0.5, 1], got 55. It is how often ...
    """

    most: float
    on: Part | None = None

    def __post_init__(self) -> None:
        remedy = "It is how often somebody may be right, and a coin is right half of the time."
        if not 0.5 <= finite_number("fail_above", self.most, remedy) <= 1:
            raise InputError(f"fail_above must be in [0.5, 1], got {self.most!r}. {remedy}")
        if self.on is not None:
            one_of("fail_on", self.on, PARTS)

    def part(self, known: tuple[Part, ...], whose: str) -> Part:
        """Return the part that is looked at, of those that an answer knows; the first unless told.

        An answer that knows no ceiling must not pass for one that has a low ceiling.
        """
        if self.on is None or self.on in known:
            return known[0] if self.on is None else self.on
        choices = " or ".join(map(repr, known))
        raise InputError(
            f"fail_on must be {choices} for {whose}, got {self.on!r}. {_ABSENT[self.on]}"
        )


_ABSENT: dict[Part, str] = {
    "ceiling": "Attacks that were tried prove no ceiling for those that were not.",
    "estimate": "It proves a ceiling and tries no attack; audit does.",
    "floor": "It proves a ceiling and tries no attack; audit does.",
}


@dataclass(frozen=True)
class Check:
    """One number held against a limit."""

    what: str
    on: Part
    value: float | None
    most: float
    blind: float
    measured: bool = True

    @property
    def exceeded(self) -> bool:
        """Whether the number is above the limit; one that is missing is, for it proves nothing.

        No ceiling is the ceiling 1.  What was not measured is neither above nor within.
        """
        if not self.measured:
            return False
        if self.value is None:
            return self.on != "ceiling" or self.most < 1
        return self.value > self.most

    @property
    def sentence(self) -> str:
        """Which number is above, or within, which limit."""
        limit = f"the limit of {percent(self.most, 'given')}"
        if not self.measured:
            return f"{self.what}: not measured, so {limit} was not checked"
        if self.value is None and self.on != "ceiling":
            return f"{self.what}: there is no {self.on} to hold against {limit}"
        # A floor that blind guessing reaches is below every limit, and is not shown as a finding.
        blind = self.blind if self.on == "floor" else None
        shown = marked(self.value, _KINDS[self.on], blind=blind)
        relation = "above" if self.exceeded else "within"
        low = self.blind > self.most
        alone = f" (blind guessing is right {percent(self.blind, 'upper')})" if low else ""
        return f"{self.what}: {self.on} {shown}, {relation} {limit}{alone}"


@dataclass(frozen=True)
class Held:
    """What came of holding an answer to a limit."""

    command: str
    checks: tuple[Check, ...]

    @property
    def exceeded(self) -> bool:
        """Whether any number is above the limit."""
        return any(check.exceeded for check in self.checks)

    @property
    def outcome(self) -> str:
        """What came of it, in a word or two."""
        if self.exceeded:
            return "limit exceeded"
        return "passed" if any(check.measured for check in self.checks) else "not measured"

    @property
    def sentence(self) -> str:
        """The numbers above the limit; where there is none, those within it."""
        checks = [check for check in self.checks if check.exceeded] or self.checks
        return "; ".join(check.sentence for check in checks) + "."


class Limited:
    """An answer that can be held to a limit."""

    #: The verb, for messages and reports.
    VERB: ClassVar[str]
    #: The parts that are known; the first is looked at unless told otherwise.
    FAILS_ON: ClassVar[tuple[Part, ...]]
    #: What is compared, for the help of the command.
    COMPARED: ClassVar[str]

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the numbers that a limit on this part is about."""
        raise NotImplementedError

    def held_to(self, limit: float | Limit, on: Part | None = None) -> Held:
        """Hold every number to a limit.

        Examples:
            >>> import memberbound
            >>> memberbound.explain(epsilon=0.1).held_to(0.55).sentence
            'any attack on any record: ceiling ≤ 52.5 %, within the limit of 55 %.'
        """
        limit = limit if isinstance(limit, Limit) else Limit(limit, on)
        part = limit.part(self.FAILS_ON, self.VERB)
        return Held(
            self.VERB,
            tuple(
                Check(s.what, part, getattr(s, part), limit.most, s.blind, s.measured)
                for s in self.successes(part)
            ),
        )

    def exceeds(self, limit: float, on: Part | None = None) -> bool:
        """Tell whether some number is above a limit on how often anybody may be right.

        Examples:
            >>> import memberbound
            >>> answer = memberbound.explain(epsilon=1)
            >>> answer.exceeds(0.55), answer.exceeds(0.75)
            (True, False)
        """
        return self.held_to(limit, on).exceeded


def write_junit(held: Held, path: Path) -> None:
    """Write JUnit XML, which every build server reads: a test case per number.

    It replaces an earlier file, as every run of a build does.
    """
    failed = sum(check.exceeded for check in held.checks)
    skipped = str(sum(not check.measured for check in held.checks))
    counts = {"tests": str(len(held.checks)), "failures": str(failed), "errors": "0"}
    name = f"memberbound {held.command}"
    root = ElementTree.Element("testsuites", {"name": name, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, "skipped": skipped, **counts})
    for check in held.checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"memberbound.{held.command}", name=check.what
        )
        if check.exceeded:
            failure = ElementTree.SubElement(case, "failure", message=check.sentence, type=check.on)
            failure.text = check.sentence
        elif not check.measured:
            ElementTree.SubElement(case, "skipped", message=check.sentence)
        else:
            ElementTree.SubElement(case, "system-out").text = check.sentence
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    written_whole(path, lambda draft: draft.write_bytes(text + b"\n"), force=True)
