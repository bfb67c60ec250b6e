"""Limits on attack success, checked against answers, for use as a build gate.

An answer that supports limits declares which of its numbers are success rates (probabilities of
being right about membership), and which *parts* of them are known:

============  ==========================================================================
part          the number that must not be above the limit
============  ==========================================================================
``ceiling``   proved upper bound for every attack; 1 if nothing is proved
``estimate``  estimated rate of the best attack tried; neither proved nor a bound
``floor``     lower bound for that attack, at the audit's confidence
============  ==========================================================================

Passing on the ceiling is a guarantee; passing on the estimate or the floor only means that no
attack tried exceeded the limit.  The command line turns an exceeded limit into exit code 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal
from xml.etree import ElementTree

from memberbound.errors import InputError, finite_number, one_of
from memberbound.files import write_atomically
from memberbound.quantities import Kind, marked, percent

Part = Literal["ceiling", "estimate", "floor"]
PARTS: tuple[Part, ...] = ("ceiling", "estimate", "floor")
_KINDS: dict[Part, Kind] = {"ceiling": "certificate", "estimate": "estimate", "floor": "audit"}


@dataclass(frozen=True)
class Success:
    """The known success rate of membership inference on some record.

    ``what`` names the attacker and the record; ``blind`` is the success rate of the likelier
    answer.  If nothing could be ``measured``, there is no number, and no limit is checked.
    """

    what: str
    blind: float = 0.5
    ceiling: float | None = None
    estimate: float | None = None
    floor: float | None = None
    measured: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class Limit:
    """The largest allowed success rate, and the part that is checked.

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
        """Return the part to check, among those that an answer knows; the first by default.

        An answer without a ceiling must not pass as if its ceiling were low.
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
class LimitCheck:
    """The comparison of one number with a limit."""

    what: str
    on: Part
    value: float | None
    most: float
    blind: float
    measured: bool = True

    @property
    def exceeded(self) -> bool:
        """Whether the number is above the limit; a missing number is, because it proves nothing.

        A missing ceiling counts as 1.  An unmeasured number is neither above nor within the limit.
        """
        if not self.measured:
            return False
        if self.value is None:
            return self.on != "ceiling" or self.most < 1
        return self.value > self.most

    @property
    def sentence(self) -> str:
        """A sentence that states whether the number is above or within the limit."""
        limit = f"the limit of {percent(self.most, 'given')}"
        if not self.measured:
            return f"{self.what}: not measured, so {limit} was not checked"
        if self.value is None and self.on != "ceiling":
            return f"{self.what}: there is no {self.on} to hold against {limit}"
        # A floor at the level of blind guessing is below every limit, and is not shown as a
        # finding.
        blind = self.blind if self.on == "floor" else None
        shown = marked(self.value, _KINDS[self.on], blind=blind)
        relation = "above" if self.exceeded else "within"
        low = self.blind > self.most
        alone = f" (blind guessing is right {percent(self.blind, 'upper')})" if low else ""
        return f"{self.what}: {self.on} {shown}, {relation} {limit}{alone}"


@dataclass(frozen=True)
class Held:
    """The result of checking an answer against a limit."""

    command: str
    checks: tuple[LimitCheck, ...]

    @property
    def exceeded(self) -> bool:
        """Whether any number is above the limit."""
        return any(check.exceeded for check in self.checks)

    @property
    def outcome(self) -> str:
        """The outcome in a word or two."""
        if self.exceeded:
            return "limit exceeded"
        return "passed" if any(check.measured for check in self.checks) else "not measured"

    @property
    def sentence(self) -> str:
        """The numbers above the limit; if there are none, those within it."""
        checks = [check for check in self.checks if check.exceeded] or self.checks
        return "; ".join(check.sentence for check in checks) + "."


class Limited:
    """An answer that can be checked against a limit."""

    #: The verb, for messages and reports.
    VERB: ClassVar[str]
    #: The known parts; the first is checked by default.
    FAILS_ON: ClassVar[tuple[Part, ...]]
    #: Description of the compared number, for the help of the command.
    COMPARED: ClassVar[str]

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the numbers to compare with a limit on this part."""
        raise NotImplementedError

    def held_to(self, limit: float | Limit, on: Part | None = None) -> Held:
        """Check every number against a limit.

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
                LimitCheck(s.what, part, getattr(s, part), limit.most, s.blind, s.measured)
                for s in self.successes(part)
            ),
        )

    def exceeds(self, limit: float, on: Part | None = None) -> bool:
        """Return whether some number exceeds a limit on the success rate.

        Examples:
            >>> import memberbound
            >>> answer = memberbound.explain(epsilon=1)
            >>> answer.exceeds(0.55), answer.exceeds(0.75)
            (True, False)
        """
        return self.held_to(limit, on).exceeded


def write_junit(held: Held, path: Path) -> None:
    """Write JUnit XML, which every build server reads: a test case per number.

    Overwrites an earlier file, like every run of a build.
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
    write_atomically(path, lambda draft: draft.write_bytes(text + b"\n"), force=True)
