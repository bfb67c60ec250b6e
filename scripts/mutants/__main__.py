"""Run the tests against each mutant: ``python -m mutants`` (``make test-mutants``).

One process imports everything and collects the tests once.  Each mutant is a fork of it, in which
the mutated code takes the place of the code of the functions.  Tests that reach the mutated
function run, those first that killed its other mutants, then the quick and narrow ones, until one
fails.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fnmatch
import functools
import gc
import hashlib
import importlib
import inspect
import json
import math
import os
import random
import re
import resource
import signal
import sys
import time
import tomllib
import types
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from mutants.operators import Mutant, faults

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "memberbound"
SETTINGS = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text("utf-8"))
SAMPLE = ROOT / "tests" / "mutants_sample.json"
CACHE = ROOT / "build" / "mutants"
HARMLESS: dict[str, str] = {
    f"{entry['room']}:{mutant}": entry["reason"]
    for entry in SETTINGS.get("harmless", ())
    for mutant in entry["mutants"]
}


def digest(*parts: str | bytes) -> str:
    """Return a hash of texts."""
    joined = b"\0".join(p.encode() if isinstance(p, str) else p for p in parts)
    return hashlib.sha256(joined).hexdigest()[:16]


@functools.cache
def text_of(path: Path) -> str:
    """Return the source of a module as it was when first read: it may change during a long run."""
    return path.read_text("utf-8")


@functools.cache
def code_of(path: Path) -> str:
    """Return a hash of the code of a module, which comments, layout and docstrings leave."""
    tree = ast.parse(text_of(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    return digest(ast.dump(tree))


def target_files() -> list[Path]:
    """Return the modules that are mutated."""
    chosen = {p for pattern in SETTINGS["modules"] for p in SOURCE.glob(pattern)}
    left_out = {SOURCE / name for name in SETTINGS["left_out"]}
    return sorted(p for p in chosen - left_out if p.suffix == ".py")


def first_match(table: str, path: str) -> list[str]:
    """Return the setting of the first pattern that a path matches."""
    return next((v for k, v in SETTINGS[table].items() if fnmatch.fnmatch(path, k)), [])


def all_mutants() -> list[Mutant]:
    """Return every mutant, with keys that differ."""
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    for path in target_files():
        short = path.relative_to(SOURCE)
        room = short.parent.name
        kinds = first_match("kinds", str(short))
        for index, (kind, scope, names, _, _, text) in enumerate(faults(ast.parse(text_of(path)))):
            mutant = Mutant(room, str(short), kind, scope, names, text, index)
            if (kinds and kind not in kinds) or f"{short}:{scope}" in SETTINGS["left_out"]:
                continue
            seen[mutant.key] += 1
            if seen[mutant.key] > 1:
                mutant = replace(mutant, text=f"{text} #{seen[mutant.key]}")
            found.append(mutant)
    return found


def module_of(path: str) -> str:
    """Return the name of a module from its path."""
    return "memberbound." + path.removesuffix(".py").replace("/", ".")


def choose(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """Return a sample that keeps its members when others come or go."""
    return sorted(mutants, key=lambda m: digest(str(seed), m.key))[:size]


def is_meant(pattern: str, mutant: Mutant) -> bool:
    """Return whether an entry of the list of harmless mutants is about this one."""
    form = ".*".join(map(re.escape, pattern.split("*")))
    return pattern == mutant.key or bool(re.fullmatch(form, mutant.key, re.DOTALL))


def reason_for(mutant: Mutant) -> str | None:
    """Return why a mutant is harmless, if it is listed."""
    return next((why for pattern, why in HARMLESS.items() if is_meant(pattern, mutant)), None)


def name_old_entries(mutants: list[Mutant]) -> None:
    """Print what the list of harmless mutants says of mutants that are no more."""
    for pattern in HARMLESS:
        if not any(is_meant(pattern, mutant) for mutant in mutants):
            print(f"gone      {pattern}")


# ── Putting a mutant in place, in a fork ──────────────────────────────────────────────────────────


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def put_in_place(mutant: Mutant, functions: dict[str, list[types.FunctionType]]) -> None:
    """Give the functions of the module the mutated code, or its constants the mutated values."""
    path = SOURCE / mutant.path
    tree = ast.parse(text_of(path))
    _, _, _, (parent, field, index), new, _ = list(faults(tree))[mutant.index]
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new
    code = compile(ast.fix_missing_locations(tree), str(path), "exec")
    if not mutant.scope or mutant.scope in names_used_at_import(tree):
        replace_values(mutant, code)
    mutated = {(c.co_qualname, c.co_firstlineno): c for c in code_objects(code)}
    for function in functions[str(path)]:
        old = function.__code__
        changed = mutated.get((old.co_qualname, old.co_firstlineno), old)
        if changed != old and changed.co_freevars == old.co_freevars:
            function.__code__ = changed


def names_used_at_import(tree: ast.Module) -> set[str]:
    """Return the names that constants of the module are computed with."""
    constants = [n for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign) and n.value]
    return {n.id for c in constants for n in ast.walk(c.value) if isinstance(n, ast.Name)}


def replace_values(mutant: Mutant, code: types.CodeType) -> None:
    """Run the mutated module aside and bind its values wherever the old ones are bound."""
    name = module_of(mutant.path)
    aside: dict[str, Any] = {"__name__": name, "__file__": code.co_filename}
    exec(code, aside)
    module = sys.modules[name]
    plain = int | float | str | tuple | frozenset | dict | np.ndarray
    for key, value in aside.items():
        old = vars(module).get(key)
        if isinstance(value, type) and isinstance(old, type) and value.__module__ == name:
            for attribute, inner in vars(value).items():
                if isinstance(inner, plain) and not attribute.startswith("__"):
                    if vars(old).get(attribute) != inner:
                        setattr(old, attribute, inner)
                elif attribute == "__init__" and isinstance(inner, types.FunctionType):
                    vars(old)["__init__"].__defaults__ = inner.__defaults__
                    vars(old)["__init__"].__kwdefaults__ = inner.__kwdefaults__
        elif isinstance(value, plain) and not key.startswith("__") and repr(old) != repr(value):
            for other in list(sys.modules.values()):
                if getattr(other, "__dict__", {}).get(key) is old:
                    setattr(other, key, value)


# ── The run, inside one session of pytest ─────────────────────────────────────────────────────────


class Runner:
    """A plugin that replaces pytest's loop over the tests by a loop over the mutants."""

    def __init__(self, chosen: list[Mutant], options: argparse.Namespace) -> None:
        self.chosen, self.options = chosen, options
        self.killers: dict[str, Counter[str]] = defaultdict(Counter)
        self.trusted: dict[str, bool] = {}
        self.results: dict[str, str] = {}  # the killing test, "time", or "" for a survivor

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Do not shrink: the first example that fails is enough."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.get_profile("fixed"), phases=phases)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants."""
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self.items = {item.nodeid: item for item in session.items}
        for path in {m.path for m in self.chosen}:  # those too that are imported when needed
            with contextlib.suppress(ImportError):
                importlib.import_module(module_of(path))
        self.functions: dict[str, list[types.FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType):
                self.functions[thing.__code__.co_filename].append(thing)
            elif isinstance(thing, functools._lru_cache_wrapper):
                thing.cache_clear()
        self.warm_up()
        gc.freeze()
        if self.options.killers is None:
            self.measure()
        self.run()
        return True

    def warm_up(self) -> None:
        """Compute what tests keep for all of their cases once, not in every fork."""
        for module in {item.module for item in self.items.values() if hasattr(item, "module")}:
            for thing in vars(module).values():
                if (
                    isinstance(thing, functools._lru_cache_wrapper)
                    and thing.__module__ == module.__name__
                    and not inspect.signature(thing).parameters
                ):
                    thing()

    def fork(self, task: Any, seconds: float) -> tuple[int, int]:
        """Start ``task`` in a process of its own; what it returns can be read from the pipe."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            return pid, reading
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            os.write(writing, json.dumps(task()).encode())
        except BaseException as problem:  # the mutant cannot even be put in place
            os.write(writing, json.dumps(f"error: {problem!r}").encode())
        finally:
            os._exit(0)

    # ── Which test reaches which function, and how long it takes ──────────────────────────────────

    def measure(self) -> None:
        """Run each test file once and note what its tests reach; kept between runs."""
        files: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in self.items.values():
            files[item.path].append(item)
        self.reached: dict[str, list[str]] = defaultdict(list)
        self.seconds: dict[str, float] = {}
        self.breadth: dict[str, int] = {}
        for k, (path, items) in enumerate(files.items(), 1):
            kept = (
                CACHE / "reach" / f"{digest(str(path.relative_to(ROOT)), path.read_bytes())}.json"
            )
            known = json.loads(kept.read_text()) if kept.exists() else {"modules": {"": ""}}
            if any(self.functions_of(m) != names for m, names in known["modules"].items()):
                print(f"\rmeasuring {k} of {len(files)}: {path.name:40}", end="", flush=True)
                pid, pipe = self.fork(lambda items=items, kept=kept: self.trace(items, kept), 900)
                os.read(pipe, 1 << 20)
                os.close(pipe)
                os.waitpid(pid, 0)
                known = json.loads(kept.read_text()) if kept.exists() else {"tests": {}}
            for test, (seconds, scopes) in known["tests"].items():
                if test in self.items:
                    self.seconds[test], self.breadth[test] = seconds, len(scopes)
                    for scope in scopes:
                        self.reached[scope].append(test)
        for test in self.seconds:
            self.reached[test] = [test]
        print()

    @functools.cache  # noqa: B019
    def functions_of(self, module: str) -> str:
        """Return a hash of the names of the functions of a module."""
        path = SOURCE / module
        text = text_of(path) if path.is_file() else ""
        nodes = ast.walk(ast.parse(text))
        return digest(*sorted(n.name for n in nodes if isinstance(n, ast.FunctionDef)))

    def trace(self, items: list[pytest.Item], kept: Path) -> str:
        """Note which functions each passing test calls."""
        targets = {str(p): str(p.relative_to(SOURCE)) for p in target_files()}
        found: dict[str, tuple[float, list[str]]] = {}
        codes: set[types.CodeType] = set()

        def note(frame: types.FrameType, *_: object) -> None:
            codes.add(frame.f_code)

        for k, item in enumerate(items):
            codes.clear()
            begun = time.process_time()
            sys.settrace(note)
            reports = runtestprotocol(item, log=False, nextitem=(*items, None)[k + 1])
            sys.settrace(None)
            spent = time.process_time() - begun
            if all(r.passed for r in reports):
                scopes = {
                    f"{targets[c.co_filename]}:{c.co_qualname.split('.<locals>')[0]}"
                    for c in codes
                    if c.co_filename in targets
                }
                found[item.nodeid] = (spent, sorted(scopes))
        kept.parent.mkdir(parents=True, exist_ok=True)
        modules = {scope.split(":")[0] for _, scopes in found.values() for scope in scopes}
        known = {"modules": {m: self.functions_of(m) for m in modules}, "tests": found}
        kept.write_text(json.dumps(known))
        return ""

    # ── Mutants ───────────────────────────────────────────────────────────────────────────────────

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach the mutant, as many as the time allowed holds."""
        if self.options.killers is not None:
            return [self.options.killers[mutant.key]]
        scopes = {f"{mutant.path}:{mutant.scope}"}
        if not mutant.scope:
            names = {n.rsplit(".", 1)[-1] for n in mutant.names}
            scopes = {
                f"{Path(file).relative_to(SOURCE)}:{f.__code__.co_qualname.split('.<locals>')[0]}"
                for file, functions in self.functions.items()
                if file.startswith(str(SOURCE))
                for f in functions
                if any(names & {*c.co_names} for c in code_objects(f.__code__))
            }
            scopes |= {scope for scope in self.reached if scope.startswith(f"{mutant.path}:")}
            known = {*self.seconds}  # and tests that look at the constant itself
            scopes |= {t for t in known if names & {*self.items[t].obj.__code__.co_names}}  # type: ignore[attr-defined]
        reach = {t for scope in scopes for t in self.reached[scope] if self.trusted.get(t, True)}
        history = self.killers[f"{mutant.path}:{mutant.scope}"]
        own = Path(mutant.path).parts[-2]
        ordered = sorted(
            reach,
            # A quick test, of this room, that calls few functions looks at them most closely.
            key=lambda t: (
                -history[t],
                self.seconds[t] * self.breadth[t] * (1 if f"/{own}/" in t else 3),
                t,
            ),
        )
        tests, spent = [], 0.0
        for test in ordered:
            spent += self.seconds[test]
            if spent > self.options.budget and tests:
                break
            tests.append(test)
        return tests

    def attempt(self, mutant: Mutant | None, tests: list[str]) -> str:
        """Return the first test that fails with the mutant in place."""
        if mutant is not None:
            put_in_place(mutant, self.functions)
        items = [self.items[test] for test in tests]
        for item, after in zip(items, [*items[1:], None], strict=True):
            if any(r.failed for r in runtestprotocol(item, log=False, nextitem=after)):
                return item.nodeid
        return ""

    def is_trusted(self, test: str) -> bool:
        """Return whether a test that killed passes here without any mutant; looked at once."""
        if test in self.items and test not in self.trusted:
            pid, pipe = self.fork(lambda: self.attempt(None, [test]), 60)
            os.waitpid(pid, 0)
            self.trusted[test] = os.read(pipe, 1 << 16) == b'""'
            os.close(pipe)
        return self.trusted.get(test, True)

    def run(self) -> None:
        """Try every mutant, a few at a time."""
        waiting, running = list(reversed(self.chosen)), {}
        begun, cached = time.monotonic(), 0
        while waiting or running:
            while waiting and len(running) < self.options.jobs:
                mutant = waiting.pop()
                tests = self.tests_of(mutant)
                verdict, tests, passed = self.recall(mutant, tests)
                if verdict is not None:
                    self.note(mutant, verdict)
                    cached += 1
                elif not tests or (self.options.skip_harmless and reason_for(mutant)):
                    self.note(mutant, "")
                else:
                    limit = 5 + 4 * sum(getattr(self, "seconds", {}).get(t, 5) for t in tests)
                    pid, pipe = self.fork(
                        lambda mutant=mutant, tests=tests: self.attempt(mutant, tests), limit
                    )
                    deadline = time.monotonic() + 40 * limit + 60
                    running[pid] = (mutant, (*passed, *tests), pipe, deadline)
            for pid, (mutant, tests, pipe, deadline) in list(running.items()):
                late = time.monotonic() > deadline
                if late:
                    os.kill(pid, signal.SIGKILL)
                if os.waitpid(pid, 0 if late else os.WNOHANG)[0]:
                    verdict = os.read(pipe, 1 << 16) or b'"time"'
                    os.close(pipe)
                    del running[pid]
                    if not self.is_trusted(json.loads(verdict)):
                        print(f"\rfails without a mutant: {json.loads(verdict)}")
                        if self.options.killers is None:
                            waiting.append(mutant)
                            continue
                        verdict = b'""'
                    self.note(mutant, json.loads(verdict))
                    self.remember(mutant, tests)
                    done = len(self.results)
                    left = (time.monotonic() - begun) / (done - cached) * len(waiting) / 60
                    print(
                        f"\r{done} of {len(self.chosen)}, {left:.0f} min left ", end="", flush=True
                    )
            time.sleep(0.005)
        print()

    def note(self, mutant: Mutant, verdict: str) -> None:
        """Keep a verdict, and which test killed."""
        self.results[mutant.key] = verdict
        if not verdict and not reason_for(mutant):
            print(f"\rsurvived  {mutant.kind:10} {mutant.path}  {mutant.key}")
        if verdict in self.items:
            self.killers[f"{mutant.path}:{mutant.scope}"][verdict] += 1

    @functools.cache  # noqa: B019
    def code_of_test(self, test: str) -> str:
        """Return a hash of a test and of everything in its file but the other tests."""
        item = self.items[test]
        tree = ast.parse(text_of(item.path))
        name = getattr(item, "originalname", None)
        kept = [
            node
            for node in tree.body
            if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
            or node.name == name
        ]
        return digest(*map(ast.dump, kept))

    def recall(self, mutant: Mutant, tests: list[str]) -> tuple[str | None, list[str], list[str]]:
        """Return an earlier verdict that still holds, the tests to be run, and those that passed.

        A killed mutant stays killed while its killer is unchanged; otherwise that test runs first.
        Tests that passed and are unchanged pass again.
        """
        kept = self.kept(mutant)
        if self.options.fresh or self.options.killers is not None or not kept.exists():
            return None, tests, []
        known = json.loads(kept.read_text())
        verdict, same = known["verdict"], known["code"] == code_of(SOURCE / mutant.path)
        if verdict in self.items:
            if same and known["killer"] == self.code_of_test(verdict):
                return verdict, tests, []
            return None, [verdict, *(t for t in tests if t != verdict)], []
        if verdict and same:
            return verdict, tests, []
        passed = [t for t in tests if same and known["passed"].get(t) == self.code_of_test(t)]
        left = [t for t in tests if t not in passed]
        return (None if left else ""), left, passed

    def remember(self, mutant: Mutant, tests: Iterable[str]) -> None:
        """Keep a verdict for the next run."""
        verdict, kept = self.results[mutant.key], self.kept(mutant)
        known: dict[str, Any] = {"verdict": verdict, "code": code_of(SOURCE / mutant.path)}
        if verdict in self.items:
            known["killer"] = self.code_of_test(verdict)
        else:
            known["passed"] = {test: self.code_of_test(test) for test in tests}
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(known))

    def kept(self, mutant: Mutant) -> Path:
        """Return where the verdict on a mutant is kept."""
        return CACHE / "verdicts" / f"{digest(mutant.key)}.json"


def report(chosen: list[Mutant], results: dict[str, str]) -> float:
    """Print the share killed per module and kind; return the share killed."""
    killed, counted, harmless = Counter[str](), Counter[str](), Counter[str]()
    for mutant in chosen:
        for name in (mutant.path, f"kind: {mutant.kind}", "all"):
            if not results[mutant.key] and reason_for(mutant):
                harmless[name] += 1
            else:
                counted[name] += 1
                killed[name] += bool(results[mutant.key])
    for name in sorted({*counted, *harmless}, key=lambda n: (n == "all", n[:5] == "kind:", n)):
        share = killed[name] / max(counted[name], 1)
        of_all = killed[name] / (counted[name] + harmless[name])
        print(
            f"{name:36} {killed[name]:5} of {counted[name]:5} killed {share:7.1%}"
            f"  harmless {harmless[name]:3}, killed of all {of_all:7.1%}"
        )
    return killed["all"] / max(counted["all"], 1)


def keep_sample(chosen: list[Mutant], runner: Runner, size: int) -> None:
    """Write killed mutants of all rooms in turn, with the quick tests that killed them."""
    turns: Counter[str] = Counter()

    def take_turn(mutant: Mutant, name: str) -> tuple[int, str, Mutant]:
        turns[name] += 1
        return turns[name], digest(mutant.key), mutant

    quick = [m for m in chosen if runner.seconds.get(runner.results[m.key], math.inf) < 1]
    # Within a room its modules take turns.
    killed = sorted(take_turn(m, m.path) for m in sorted(quick, key=lambda m: digest(m.key)))
    turn = sorted(take_turn(m, m.room) for _, _, m in killed)
    kept = {m.key: runner.results[m.key] for _, _, m in turn[:size]}
    SAMPLE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> int:
    """Parse the options, run, and return 0 if enough mutants are killed."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--only", action="append", help="modules, such as 'numerics/*'")
    parser.add_argument("--match", help="mutants whose key contains this text")
    parser.add_argument("--tests", action="append", help="only these tests, such as a new file")
    parser.add_argument("--sample", type=int, help="as many mutants, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", action="store_true", help="the sample of the repository")
    parser.add_argument("--keep-sample", type=int, help="as many killed mutants for --fixed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", type=float, default=20, help="CPU seconds of tests per mutant")
    parser.add_argument("--skip-harmless", action="store_true", help="do not try those listed")
    parser.add_argument("--fresh", action="store_true", help="forget earlier verdicts")
    parser.add_argument("--least", type=float, default=0.97, help="the share that must be killed")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    options = parser.parse_args()
    options.killers = json.loads(SAMPLE.read_text("utf-8")) if options.fixed else None
    chosen = all_mutants()
    name_old_entries(chosen)
    if options.only:
        chosen = [m for m in chosen if any(fnmatch.fnmatch(m.path, o) for o in options.only)]
    if options.match:
        chosen = [m for m in chosen if options.match in m.key]
    if options.sample:
        chosen = choose(chosen, options.sample, options.seed)
    random.Random(0).shuffle(chosen)
    if options.list:
        print("\n".join(sorted(m.key for m in chosen)))
        return 0
    paths = {m.path for m in chosen}
    tests = options.tests or sorted({t for path in paths for t in first_match("tests", path)})
    if options.killers is not None:
        chosen = [m for m in chosen if m.key in options.killers]
        gone = set(options.killers) - {m.key for m in chosen}
        for key in sorted(gone):
            print(f"gone      {key}")
        if len(gone) > len(options.killers) / 4:
            print("Too many are gone: choose a new sample, see CONTRIBUTING.md.")
            return 1
        tests = sorted({options.killers[m.key].split("[")[0] for m in chosen})
    runner = Runner(chosen, options)
    os.chdir(ROOT)
    arguments = ["-qq", "-s", "-p", "no:xdist", "-p", "no:cacheprovider", "--disable-warnings"]
    # Not below the usual folder, which other runs of pytest tidy up.
    CACHE.mkdir(parents=True, exist_ok=True)
    arguments += ["-o", "tmp_path_retention_policy=none", f"--basetemp={CACHE / str(os.getpid())}"]
    arguments += [f"--ignore={name}" for name in SETTINGS["wording"]]
    os.environ["MEMBERBOUND_EVERY_CASE"] = "1"  # tests/conftest.py
    problem = pytest.main([*arguments, *tests], plugins=[runner])
    if len(runner.results) < len(chosen):
        print(f"pytest ended early ({problem}).")
        return 1
    if options.keep_sample:
        keep_sample(chosen, runner, options.keep_sample)
    return int(report(chosen, runner.results) < options.least)


if __name__ == "__main__":
    sys.exit(main())
