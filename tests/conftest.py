"""Settings of property tests, the number of processes, and a real browser for tests of pages.

Property tests draw the same examples every time, so that ``make test`` fails for a change and
never by chance.  ``MEMBERBOUND_EXAMPLES=explore`` (``make test-long``) draws new ones.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from hypothesis.internal.conjecture import providers

# No deadlines: a busy machine is not a bug.  Fixed examples find nothing new in a second run, so
# there are few of them; `make test-long` draws a hundred new ones.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)
_EXAMPLES = os.environ.get("MEMBERBOUND_EXAMPLES", "fixed")
settings.load_profile(_EXAMPLES)
if _EXAMPLES == "fixed" and hasattr(providers, "_get_local_constants"):
    # Hypothesis also draws constants found in our imported modules, which depend on the tests that
    # ran before in the same process, so the examples would not be fixed.
    _NOTHING = providers.Constants()
    providers._get_local_constants = lambda: _NOTHING

# Several test processes already share the cores, so a test starts no processes by default; each
# would have to import everything again.
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")


@pytest.fixture(scope="session", autouse=True)
def verified_releases() -> Iterator[None]:
    """Run the independent verifier on every release that a test saves in its own process.

    Networks are left out, because comparing one with an attack takes half a second;
    ``verbs/test_verify.py`` does it.
    """
    from memberbound.release import saving
    from oracle.independent import verifier

    write = saving.write_atomically

    def write_and_verify(path: Path, fill: Callable[[Path], None], force: bool) -> None:
        write(path, fill, force)
        text = saving.certificate_path(path).read_text(encoding="utf-8")
        if not json.loads(text)["derivation"].get("sampled"):
            wrong = [check for check in verifier.verify(path, None) if check.holds is False]
            assert not wrong, wrong

    saving.write_atomically = write_and_verify
    yield
    saving.write_atomically = write


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites the golden files of ``verbs/test_wording.py``."""
    parser.addoption("--update-wording", action="store_true", help="write tests/verbs/golden")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[None]:
    """Collect doctests in src only: tests have none, and searching them takes time."""
    found: list[Any] = yield
    return [part for part in found if not isinstance(part, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable garbage collection while tests are collected, because these objects persist.

    It would take a quarter of the collection time in every process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


#: The files that take longest, longest first.  A process that is free takes the next file; if a
#: long one came last, the others would wait for it.
LONGEST = (
    "release/test_replay.py",
    "faces/web/test_pages.py",
    "faces/web/test_serving.py",
    "faults/test_operations.py",
    "tables/test_roles.py",
    "studies/test_study.py",
    "verbs/test_population.py",
    "repo/test_examples.py",
    "faults/test_damaged_files.py",
    "report/test_exporting.py",
    "report/test_page.py",
    "faces/web/test_jobs.py",
    "attacks/test_synthetic_tables.py",
    "verbs/test_audit_text.py",
    "tables/test_exact_cells.py",
    "attacks/test_splits.py",
    "papers/test_iid_figures.py",
    "release/test_half_estimator.py",
    "report/test_drawing.py",
    "release/test_synthetic.py",
    "attacks/test_learner_audit.py",
    "faces/web/test_work.py",
    "faults/test_engines.py",
)


#: Mutation tests run every case: any of them could be the one that detects a mutant.
EVERY_CASE = "MEMBERBOUND_EVERY_CASE"


def thin_out(items: list[pytest.Item], thinned: Mapping[str, Any]) -> None:
    """Mark as long the cases that ``thinned.toml`` leaves to ``make test-long``."""
    here, seen = Path(__file__).parent, Counter[str]()
    for item in items:
        file = item.path.relative_to(here).as_posix() if here in item.path.parents else ""
        rule = thinned.get(file, {}).get(getattr(item, "originalname", ""))
        if rule is not None and item.get_closest_marker("long") is None:
            number = seen[item.nodeid.split("[")[0]]
            seen[item.nodeid.split("[")[0]] += 1
            if number % rule["every"] != rule["first"]:
                item.add_marker("long")


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first; the others, and the tests within a file, keep their order."""
    here = Path(__file__).parent
    if EVERY_CASE not in os.environ:
        thin_out(items, tomllib.loads((here / "thinned.toml").read_text("utf-8")))
    indices = {here / name: index for index, name in enumerate(LONGEST)}
    items.sort(key=lambda item: indices.get(item.path, len(indices)))


#: Debian's names and the usual others.
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--no-sandbox",  # root in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # One process for all pages, which keeps what it has compiled: else every page that is opened
    # starts one.  A page's origin and policy, not its process, decide which addresses it may reach.
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
)


def chromium_path() -> str | None:
    """The browser's executable, or nothing."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def needed_chromium() -> str:
    """Return the browser's executable; skip the test, with a reason, if there is none."""
    path = chromium_path()
    if path is None:
        reason = "no Chromium here; on Debian: apt-get install chromium chromium-driver"
        if os.environ.get("MEMBERBOUND_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A Chromium for the session."""
    path = needed_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(_QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def context(chromium: Any) -> Any:
    """Browser context of all pages: scripts are compiled once, and no data is stored."""
    return chromium.new_context()


@pytest.fixture(scope="session")
def tabs() -> list[Any]:
    """Empty tabs left by earlier tests, because a new tab is a fresh process."""
    return []


def listen(page: Any, address: str) -> Callable[[], None]:
    """Collect a page's problems in ``page.complaints``, and return a function that stops this.

    Problems are logged or thrown errors, and requests to any other address.
    """
    own = address if address.startswith("file:") else "/".join(address.split("/")[:3])
    page.complaints = []

    def console(message: Any) -> None:
        if message.type in ("error", "warning"):
            page.complaints.append(f"{message.type}: {message.text}")

    def record_exception(problem: Any) -> None:
        page.complaints.append(f"exception: {problem}")

    def request(asked: Any) -> None:
        if not asked.url.startswith((own, "data:", "blob:", "about:")):
            page.complaints.append(f"request to {asked.url}")

    heard = {"console": console, "pageerror": record_exception, "request": request}
    for event, hear in heard.items():
        page.on(event, hear)

    def stop() -> None:
        for event, hear in heard.items():
            page.remove_listener(event, hear)

    return stop


@pytest.fixture
def open_page(chromium: Any, context: Any, tabs: list[Any]) -> Iterator[Callable[..., Any]]:
    """Open pages as ``open_page(address, width=1400, scheme="light")``.

    Further options create a separate browser context.  A page that logs or throws an error, or
    requests any other address, fails the test at its end, unless the test clears
    ``page.complaints`` (a list of sentences).
    """
    opened: list[tuple[Any, Callable[[], None], bool]] = []

    def open_(address: str, *, width: int = 1400, scheme: str = "light", **options: Any) -> Any:
        if options:
            page = chromium.new_page(**options)
        else:
            page = tabs.pop() if tabs else context.new_page()
        page.set_default_timeout(30_000)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        opened.append((page, listen(page, address), not options))
        page.goto(address)
        return page

    yield open_
    complaints = [complaint for page, *_ in opened for complaint in page.complaints]
    for page, stop, shared in opened:
        stop()
        if shared:
            page.unroute_all(behavior="ignoreErrors")
            page.goto("about:blank")
            tabs.append(page)
        else:
            page.close()
    assert not complaints, complaints
