"""Every result leads to a function that exists, names the result, and has an example that runs."""

import doctest
import importlib
import inspect

import pytest

from memberbound.papers.calls import Call
from memberbound.papers.results import PAPERS, entries

MODULES = {
    "A25": "aubinais2025", "A24": "aubinais2024", "A23": "aubinais2023", "I24": "izzo2024",
    "L24": "lowy2024", "X": "beyond",
}  # fmt: skip
#: What a function returns, not a function of a result.
RESULTS = {"Ceiling", "NoisyOutput", "PrivacyCurve"}
#: Hypotheses, a class of models and a table of words: nothing can be computed.
WITHOUT = {"A25-eq11", "A24-eq6", "A24-E4.4", "I24-Tab1"}
CALLS = sorted({entry.call for entry in entries() if entry.call})
#: One path per function; a verb's example is a doctest of its own module.
ONCE = sorted({Call(path).function: path for path in CALLS if "papers" in path}.values())


def key_of(entry):
    return "X" if entry.id.startswith("X") else entry.id.split("-")[0]


def module_of(key):
    return importlib.import_module(f"memberbound.papers.{MODULES[key]}")


def test_every_result_has_a_call_in_the_module_of_its_paper():
    without = {entry.id for entry in entries() if entry.call is None}
    assert without == WITHOUT, "a new result needs a call (CONTRIBUTING.md)"
    assert set(MODULES) == set(PAPERS)
    for entry in entries():
        if entry.call is None:
            continue
        home, _, name = entry.call.rpartition(".")
        if home == "memberbound":  # a verb
            assert entry.id.startswith("X")
            continue
        assert home == f"memberbound.papers.{MODULES[key_of(entry)]}", entry.id
        assert name in module_of(key_of(entry)).__all__


@pytest.mark.parametrize("key", [key for key in MODULES if key != "A23"])
def test_the_first_line_of_a_function_names_its_result(key):
    """A23 restates A24 and shows its functions."""
    known = {name for entry in entries() for name in (entry.id, *entry.also)}
    for name in module_of(key).__all__:
        function = getattr(module_of(key), name)
        home = function.__module__
        first = inspect.getdoc(function).splitlines()[0]
        if home.startswith("memberbound.papers") and name not in RESULTS:
            ids = first.split(": ")[0].split(", ")
            assert set(ids) <= known, (name, first)
        assert first[-1] in ".:", first


def test_certifying_functions_state_their_guarantee():
    """Every number rounded to one side has a guarantee, a theorem and assumptions."""
    for key in MODULES:
        for name in module_of(key).__all__:
            text = inspect.getdoc(getattr(module_of(key), name))
            if "rounded up" in text or "rounded down" in text or "outward" in text:
                assert "Guarantee" in text or "Enclose" in text or "Return upper" in text or (
                    "upper bounds on" in text or "enclose" in text
                ), (key, name)  # fmt: skip


@pytest.mark.parametrize("path", ONCE)
def test_the_example_that_theorems_shows_runs_by_itself(path):
    """The same function shown by another paper differs in an import, which is looked at alone."""
    call = Call(path)
    assert call.example.count(">>>") >= 2
    for other in CALLS:
        if Call(other).function is call.function:
            first = Call(other).example.splitlines()[0]
            exec(first.removeprefix(">>> "), {})
    test = doctest.DocTestParser().get_doctest(call.example + "\n", {}, path, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    lines = []
    runner.run(test, out=lines.append)
    assert runner.failures == 0, "".join(lines)


def test_a_signature_is_readable():
    call = Call("memberbound.papers.aubinais2025.leak_of_law")
    assert call.signature == "leak_of_law(probabilities, n, nu=0.5, lam=1.0, multiplicity=None)"
    verb = Call("memberbound.harden")
    assert verb.example.startswith(">>> from memberbound import harden")
