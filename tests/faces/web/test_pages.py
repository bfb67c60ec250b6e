"""The pages of the calculator in a real browser: each path from opening to an exported result."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import memberbound
from conftest import listen
from memberbound.faces.command_line import verb_named
from memberbound.faces.web.child import JOBS
from memberbound.faces.web.labels import label
from memberbound.faces.web.schemas import web_parameters
from memberbound.quantities import marked
from report.sample import sample
from web.pages_checks import cli, download, shortcomings, violations

pytestmark = pytest.mark.browser

STATIC = Path(memberbound.__file__).parent / "faces" / "web" / "static"
#: A name that would run if it were ever taken for markup.
NASTY = '<img src=x onerror="window.broken = 1">'
PNG = b"\x89PNG\r\n\x1a\n"
Open = Callable[..., Any]


@pytest.fixture
def clipboard(context: Any) -> Iterator[None]:
    """Pages may read and write the clipboard."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield
    context.clear_permissions()


@pytest.fixture
def visit(open_page: Open, served: str) -> Open:
    """Open a page of the calculator by the part of the address after ``#``."""

    def visit_(route: str, **options: Any) -> Any:
        page = open_page(f"{served}/#{route}", **options)
        page.set_default_timeout(120_000)  # a busy machine is no bug
        page.locator(".page").wait_for()
        return page

    return visit_


@pytest.fixture(scope="module")
def tab(context: Any, served: str) -> Iterator[Any]:
    """One open calculator for tests that need no fresh one."""
    page = context.new_page()
    page.goto(f"{served}/#/study")
    page.set_default_timeout(120_000)
    yield page
    page.close()


@pytest.fixture
def turn(tab: Any, served: str) -> Iterator[Open]:
    """Go to a page by the part of the address after ``#``, as a link within the calculator does."""
    stop = listen(tab, served)

    def turn_(route: str) -> Any:
        tab.set_viewport_size({"width": 1400, "height": 900})
        # From another page, so that the awaited content is not in sight yet.
        for part in ("/study", route):
            tab.evaluate("(place) => { location.hash = place; }", part)
            tab.locator(f".page[data-page={part[1:].split('?')[0]}]").wait_for()
        return tab

    yield turn_
    stop()
    assert not tab.complaints


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with common and rare rows, and names that must stay text."""
    rng = np.random.default_rng(0)
    parts = {"sex": ["f", "m"], "region": ["north", "south"], NASTY: ["a", "b"]}
    people = pd.DataFrame({name: rng.choice(values, 2000) for name, values in parts.items()})
    people["age"] = rng.integers(20, 30, 2000)
    people.loc[2000] = ["f", NASTY, "a", 99]
    people.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def ceiling(value: float, quantity: str = "accuracy", places: int | None = None) -> str:
    return str(marked(value, "certificate", quantity, places))


def plainly(text: str) -> str:
    return " ".join(text.split())


def wait_for_answer(page: Any) -> None:
    page.locator(".plot[data-drawn]").first.wait_for()


def command(page: Any) -> str:
    text: str = page.get_by_label("Command line", exact=True).last.inner_text()
    return text


def wait_for(page: Any, text: str) -> None:
    """Wait until the sentence of the answer holds a text."""
    page.locator(".sentence", has_text=text).first.wait_for()


def refused_only(page: Any, status: str) -> None:
    """A browser logs refused requests, which are not the page's fault; nothing else was logged."""
    assert all(status in complaint for complaint in page.complaints), page.complaints
    page.complaints.clear()


def held_jobs(page: Any) -> list[dict[str, Any]]:
    """Intercept the page's requests without starting anything; return the list of requests."""
    sent: list[dict[str, Any]] = []

    def hold(route: Any) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(status=429, json={"error": "kept."})

    page.route("**/api/jobs", hold)
    return sent


# --- Explain ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("clipboard")
def test_explain_gives_the_numbers_of_the_command_line(visit: Open, tmp_path: Path) -> None:
    page = visit("/explain?epsilon=8&delta=1e-5&fpr=0.01")
    wait_for_answer(page)
    expected = memberbound.explain(epsilon=8, delta=1e-5, fpr=[0.01])
    assert page.locator(".sentence").inner_text() == expected.sentence
    cells = page.locator(".results td").all_inner_texts()
    assert ceiling(expected.accuracy_upper) == "≤ 99.97 %"
    assert any("≤ 99.97 %" in text for text in map(plainly, cells))
    assert all(plainly(text) in expected.summary() for text in cells)
    # Exports: the same dictionary, from the page and from the command that it shows.
    saved = json.loads(download(page, "Save JSON", tmp_path).read_text("utf-8"))
    assert saved == expected.to_dict() == cli(command(page), tmp_path)
    picture = download(page, "Save picture", tmp_path).read_bytes()
    assert picture.startswith(PNG)
    assert len(picture) > 20_000
    page.get_by_label("Copy command line").click()
    assert page.evaluate("navigator.clipboard.readText()") == command(page)
    code = page.get_by_label("Python", exact=True).inner_text()
    scope: dict[str, Any] = {}
    exec(code.replace("print(", "("), scope)
    assert scope["result"].to_dict() == saved


def test_the_first_page_has_doors_that_lead_to_pages(visit: Open) -> None:
    page = visit("")
    assert page.locator(".page").get_attribute("data-page") == "home"
    assert page.locator("#pages a").first.inner_text() == "Start"
    doors = [link.get_attribute("href") for link in page.locator(".doors a").element_handles()]
    assert len(doors) == 10
    assert page.locator(".doors section").count() == 3
    pages = {link.get_attribute("href") for link in page.locator("#pages a").element_handles()}
    assert set(doors) <= pages
    page.locator(".doors a").last.click()
    page.locator(".page[data-page=compare]").wait_for()


def test_explain_finds_the_setting_and_the_link_shares_it(visit: Open) -> None:
    page = visit("/explain?epsilon=8&delta=1e-5")
    wait_for_answer(page)
    # From “what does ε = 8 mean” to “which ε should we take” without reading anything else.
    page.get_by_text("Which setting do we need?").click()
    wait_for(page, "To keep η ≤ 0.05")
    expected = memberbound.explain(target_eta=0.05, delta=1e-5)
    assert page.locator(".sentence").inner_text() == expected.sentence
    assert expected.epsilon is not None
    page.get_by_label("Attack success at most", exact=True).fill("60")
    wait_for(page, "To keep η ≤ 0.1")
    page.get_by_text("log–log").click()
    other = visit(page.url.split("#")[1], width=390, scheme="dark")
    wait_for(other, "To keep η ≤ 0.1")
    assert other.locator(".sentence").inner_text() == page.locator(".sentence").inner_text()
    assert other.get_by_label("log–log").is_checked()
    assert other.get_by_label("Attack success at most", exact=True).input_value() == "60"


NOTIONS = {
    "notion=gdp&gdp=1.5&prior=0.1": {"gdp": 1.5, "delta": 1e-5, "prior": 0.1},
    "mode=choose&notion=sgd&sample_rate=0.01&steps=100&accept=security&accept_security=0.8": {
        "target_security": 0.8,
        "sample_rate": 0.01,
        "steps": 100,
        "delta": 1e-5,
    },
    "notion=epsilon&epsilon=1&delta=&adjacency=add-remove": {
        "epsilon": 1,
        "adjacency": "add-remove",
    },
    "mode=choose&accept=interval&accept_width=0.05&accept_rows=4000": {
        "target_interval": 0.05,
        "n": 4000,
    },
}


def test_explain_reads_every_notion(turn: Open) -> None:
    page = turn("/explain")
    for query, options in NOTIONS.items():
        page.evaluate("(place) => { location.hash = place; }", f"/explain?{query}")
        expected = memberbound.explain(**options)
        wait_for(page, expected.sentence)
        cells = [plainly(text) for text in page.locator(".results td").all_inner_texts()]
        assert cells
        assert all(text in expected.summary() for text in cells)


def test_explain_refuses_in_words_beside_the_field(turn: Open) -> None:
    page = turn("/explain?epsilon=8&delta=1e-5")
    wait_for_answer(page)
    field = page.get_by_label("ε (epsilon)", exact=True)
    # The browser logs each refused request; that is not a fault of the page.
    for wrong, words in (
        ("-1", "epsilon must be"),
        ("eight", "must be a number, got “eight”"),
        ("", "got nothing"),
    ):
        field.fill(wrong)
        page.locator("form .problem", has_text=words).wait_for()
        assert field.get_attribute("aria-invalid") == "true"
        assert not page.locator(".sentence").is_visible()
        assert not page.get_by_role("button", name="Save JSON").is_visible()
    # A malformed address is handled safely.
    page.evaluate("location.hash = '/explain?mode=x&notion=y&accept=z&epsilon=%3Cimg%20src=x%3E'")
    page.locator("form .problem", has_text="got “<img src=x>”").wait_for()
    field.fill("2")
    wait_for(page, "With ε = 2")
    assert field.get_attribute("aria-invalid") is None
    refused_only(page, "422")


def test_explain_with_the_keyboard_alone(visit: Open) -> None:
    page = visit("/explain?epsilon=8&delta=1e-5")
    wait_for_answer(page)
    page.locator("body").press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    assert "epsilon=8" in page.url
    seen = []
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate("document.activeElement.name || document.activeElement.ariaLabel")
        )
        outline = page.evaluate(
            "(() => { const at = document.activeElement;"
            " const wide = (node) => parseFloat(getComputedStyle(node).outlineWidth) >= 2;"
            " return [at, at.closest('label')].filter(Boolean).some(wide); })()"
        )
        assert outline, seen[-1]
        if seen[-1] == "epsilon-slider":
            break
    assert seen[-1] == "epsilon-slider", seen
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    value = float(page.get_by_label("ε (epsilon)", exact=True).input_value())
    wait_for(page, f"With ε = {value:g} and")
    assert 0.01 < value < 8
    assert f"epsilon={value:g}" in page.url
    # A field is explained on focus, and Escape closes the bubble.
    page.locator("[data-field=epsilon] .why").focus()
    bubble = page.locator("[data-field=epsilon] [role=tooltip]")
    assert bubble.is_visible()
    page.keyboard.press("Escape")
    assert not bubble.is_visible()
    page.locator("[data-field=delta] .why").hover()
    assert page.locator("[data-field=delta] [role=tooltip]").is_visible()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save JSON").press("Enter")
    saved = json.loads(Path(waiting.value.path()).read_text("utf-8"))
    assert saved == memberbound.explain(epsilon=value, delta=1e-5).to_dict()


# --- Generated pages ----------------------------------------------------------------------------


def test_a_page_from_file_to_answer(visit: Open, table: Path, tmp_path: Path) -> None:
    page = visit("/certify", width=390, scheme="dark")
    page.set_input_files("input[type=file] >> nth=0", table)
    page.get_by_text("2,001 rows, 4 columns").wait_for()
    assert page.locator(".columns label", has_text=NASTY).first.is_visible()
    page.locator("fieldset.columns").get_by_role("checkbox", name="age").uncheck()
    page.get_by_role("button", name="Certify", exact=True).click()
    page.locator(".sentence").wait_for()
    assert page.locator(".about").first.inner_text() == "Table: people.csv"
    expected = memberbound.certify(table, columns=["sex", "region", NASTY])
    assert page.locator(".sentence").inner_text() == expected.sentence
    # Every number is the text of the command line, with the look of its kind.
    answer = page.get_by_role("region", name=re.compile("The answer in numbers")).first
    proved = answer.locator(".kept.certified").all_inner_texts()
    assert ceiling(expected.delta_upper, "delta", 6) in proved
    assert ceiling(expected.security_lower, "security", 6) in proved
    assert all(text in expected.summary() for text in proved)
    worst = answer.locator("tr", has_text="every row").locator(".kept.unproved")
    assert worst.inner_text() == "no guarantee"
    wait_for_answer(page)
    assert page.evaluate("window.broken") is None
    saved = json.loads(download(page, "Save JSON", tmp_path).read_text("utf-8"))
    assert saved == json.loads(json.dumps(expected.to_dict()))
    assert saved == cli(command(page), table.parent)
    assert download(page, "Save picture", tmp_path).read_bytes().startswith(PNG)
    assert shortcomings(page) == []
    assert violations(page) == []
    # A reload finds file, columns and answer again; another setting outdates the answer.
    page.reload()
    wait_for(page, expected.sentence)
    page.get_by_text("2,001 rows, 4 columns").wait_for()
    age = page.locator("fieldset.columns").get_by_role("checkbox", name="age")
    assert not age.is_checked()
    page.get_by_label("Chance that a tested record is new (ν)", exact=True).fill("0.25")
    page.get_by_text("The settings have changed since this answer").wait_for()


def test_a_page_reports_problems_of_a_file(visit: Open, tmp_path: Path, table: Path) -> None:
    page = visit("/harden?security=0.5")
    run = page.get_by_role("button", name="Harden", exact=True)
    assert page.get_by_text("Still missing: a table.").is_visible()
    for name, content, words in (
        ("notes.txt", b"a,b\n1,2\n", "notes.txt: the file's name must end in .csv"),
        ("picture.csv", PNG + bytes(range(256)), "picture.csv"),
        ("empty.csv", b"", "empty.csv: the file must hold a table"),
    ):
        wrong = tmp_path / name
        wrong.write_bytes(content)
        page.set_input_files("input[type=file] >> nth=0", wrong)
        alert = page.locator(".filestatus [role=alert]", has_text=words)
        alert.wait_for()
        assert alert.inner_text().strip().endswith("."), name
        assert run.is_disabled()
    # One in another encoding is detected, and read again when one is named.
    western = tmp_path / "western.csv"
    western.write_bytes("größe,ort\n1,Köln\n2,Bonn\n".encode("cp1252"))
    page.set_input_files("input[type=file] >> nth=0", western)
    page.locator(".taken", has_text="western.csv — 2 rows, 2 columns").wait_for()
    with page.expect_response("**/api/files?*encoding=latin-1*"):
        page.locator(".upload select").first.select_option("latin-1")
    page.locator(".taken", has_text="western.csv — 2 rows, 2 columns").wait_for()
    # The next file is taken, and may be dropped as well.
    page.evaluate(
        """(text) => {
          const carried = new DataTransfer();
          carried.items.add(new File([text], "dropped.csv", { type: "text/csv" }));
          const zone = document.querySelector(".drop");
          const told = { dataTransfer: carried, bubbles: true, cancelable: true };
          for (const kind of ["dragover", "drop"]) zone.dispatchEvent(new DragEvent(kind, told));
        }""",
        table.read_text("utf-8"),
    )
    page.locator(".filestatus", has_text="dropped.csv — 2,001 rows, 4 columns").wait_for()
    page.locator("fieldset.columns").get_by_role("button", name="None").click()
    run.click()
    page.locator("form .problem", has_text="at least one column").wait_for()
    page.locator("fieldset.columns").get_by_role("button", name="All").click()
    page.get_by_label("Smallest security (MIS)", exact=True).fill("much")
    run.click()
    page.locator("form .problem", has_text="got “much”").wait_for()
    assert (
        page.get_by_label("Smallest security (MIS)", exact=True).get_attribute("aria-invalid")
        == "true"
    )
    page.get_by_label("Smallest security (MIS)", exact=True).fill("2")
    run.click()
    page.locator(".job [role=alert]", has_text="security must be").wait_for()
    refused_only(page, "422")


def test_a_job_can_be_cancelled_and_started_again(visit: Open, tmp_path: Path) -> None:
    slow = tmp_path / "slow.csv"
    pd.DataFrame(np.random.default_rng(1).integers(40, size=(40_000, 12))).to_csv(slow, index=False)
    page = visit("/harden?security=0.9")
    page.set_input_files("input[type=file] >> nth=0", slow)
    page.get_by_role("button", name="Harden", exact=True).click()
    page.locator(".working progress").wait_for()
    # A reload while it runs finds it again.
    job = re.search(r"job=([^&]+)", page.url)
    assert job is not None
    page.reload()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled. The calculation was stopped").wait_for()
    state = page.evaluate(f"fetch('/api/jobs/{job[1]}').then((a) => a.json()).then((j) => j.state)")
    assert state == "cancelled"
    assert "job=" not in page.url
    assert page.locator(".sentence").count() == 0
    page.get_by_role("button", name="Harden", exact=True).click()
    page.locator(".working progress").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled. The calculation was stopped").wait_for()
    page.complaints[:] = [c for c in page.complaints if "404" not in c]


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two halves of one population as tables, and a model of the first as a file."""
    skops = pytest.importorskip("skops.io")
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(11)
    folder = tmp_path_factory.mktemp("patients")
    frame = pd.DataFrame({"age": rng.integers(20, 80, 400), "value": rng.normal(size=400)})
    risk = frame["age"] / 50 + frame["value"] + rng.normal(size=400)
    frame["sick"] = np.where(risk > 1, "yes", "no")
    members, others = frame.head(200), frame.tail(200)
    members.to_csv(folder / "members.csv", index=False)
    others.to_csv(folder / "others.csv", index=False)
    model = DecisionTreeClassifier(random_state=0).fit(members[["age", "value"]], members["sick"])
    skops.dump(model, folder / "tree.skops")
    return folder


def test_audit_of_a_model_file_has_the_look_of_a_measurement(
    visit: Open, patients: Path, tmp_path: Path
) -> None:
    page = visit("/audit")
    field = page.locator(".upload")
    field.nth(0).locator("input[type=file]").set_input_files(patients / "members.csv")
    page.locator(".taken", has_text="members.csv").wait_for()
    model = field.filter(has=page.get_by_text("Model", exact=True))
    others = field.filter(has=page.get_by_text("Rows that it was not trained on", exact=True))
    others.locator("input[type=file]").set_input_files(patients / "others.csv")
    page.locator(".taken", has_text="others.csv").wait_for()
    # Files that run code when they are read are not taken.
    (tmp_path / "tree.joblib").write_bytes(b"\x80\x04N.")
    model.locator("input[type=file]").set_input_files(tmp_path / "tree.joblib")
    page.locator(".filestatus [role=alert]", has_text="must end in").wait_for()
    model.locator("input[type=file]").set_input_files(patients / "tree.skops")
    page.locator(".taken", has_text="tree.skops").wait_for()
    page.get_by_label("Column to predict", exact=True).select_option("sick")
    page.get_by_role("button", name="Audit", exact=True).click()
    page.locator(".sentence").wait_for()
    wait_for_answer(page)
    # Measured, not certified: nothing here has the look of a proof.
    assert page.locator(".kept.certified, .verdict.certified").count() == 0
    assert page.locator(".verdict.measured").count() == 1
    assert shortcomings(page) == []
    assert violations(page) == []
    refused_only(page, "422")


def test_every_argument_of_every_verb_has_a_field(turn: Open, table: Path) -> None:
    """Made from the declarations: a verb's page has every option that the web accepts."""
    for name in JOBS:
        if name == "study":  # a page of its own
            continue
        page = turn(f"/{name}")
        verb = verb_named(name)
        assert page.get_by_role("heading", level=1).inner_text() == verb.summary
        if verb.of_kind("table"):
            page.set_input_files("input[type=file] >> nth=0", table)
            page.get_by_text("2,001 rows, 4 columns").wait_for()
        fields = page.locator("[data-field]").element_handles()
        shown = {field.get_attribute("data-field") for field in fields}
        panels = page.locator(".upload .button").all_inner_texts()
        for parameter in web_parameters(verb):
            if parameter.kind in ("file", "files", "points"):
                assert label(parameter.name) in panels
            elif parameter.name in ("columns", "roles"):
                assert page.locator("fieldset.columns").is_visible()
            else:
                assert parameter.name in shown, (name, parameter.name)
                tips = page.locator(f"[data-field={parameter.name}] [role=tooltip]")
                assert tips.text_content() == parameter.help


# --- Study --------------------------------------------------------------------------------------


def test_report_viewer_shows_a_report_and_shares_it(visit: Open, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps(sample()), encoding="utf-8")
    page = visit("/study")
    page.set_input_files("#file-report", report)
    wait_for(page, sample()["verdict"]["sentence"])
    wait_for_answer(page)
    frame = page.frame_locator("iframe.report")
    frame.get_by_role("heading", level=1).wait_for()
    text = " ".join(frame.locator("body").inner_text().split())
    assert sample()["verdict"]["sentence"] in text
    assert json.loads(download(page, "Save JSON", tmp_path).read_text("utf-8")) == sample()
    assert download(page, "Save picture", tmp_path).read_bytes().startswith(PNG)
    assert shortcomings(page) == []
    other = visit(page.url.split("#")[1], width=390, scheme="dark")
    other.frame_locator("iframe.report").get_by_role("heading", level=1).wait_for()
    assert shortcomings(other) == []
    # The recipient of a link sees the report; the forms are one click away.
    assert not other.get_by_role("button", name="Run the study").is_visible()
    other.get_by_role("button", name="Run a study of your own").click()
    assert other.get_by_role("button", name="Run the study").is_visible()
    assert "view=" not in other.url


def test_report_viewer_refuses_other_files_and_trusts_no_report(
    visit: Open, tmp_path: Path
) -> None:
    page = visit("/study")
    for name, content, words in (
        ("words.json", "no JSON", "must be a report.json, got a file that is not JSON"),
        ("other.json", '{"a": 1}', "must be the report.json of a study"),
        ("list.json", "[1, 2]", "list.json: "),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        page.set_input_files("#file-report", tmp_path / name)
        page.locator(".filestatus [role=alert]", has_text=words).wait_for()
        assert not page.locator("iframe.report").is_visible()
    refused_only(page, "422")


def test_study_runs_on_the_table_in_sight_and_on_no_other(
    visit: Open, table: Path, tmp_path: Path
) -> None:
    page = visit("/study")
    run = page.get_by_role("button", name="Run the study")
    sent: list[dict[str, Any]] = []
    page.on("request", lambda r: sent.append(r.post_data_json) if r.method == "POST" else None)
    assert run.is_disabled()
    # After a refused file there is nothing to study, and no other data is used.
    wrong = tmp_path / "picture.csv"
    wrong.write_bytes(PNG + bytes(range(256)))
    page.set_input_files("input[type=file]", wrong)
    page.locator(".filestatus [role=alert]", has_text="picture.csv").wait_for()
    assert run.is_disabled()
    refused_only(page, "422")
    sent.clear()
    page.set_input_files("input[type=file]", table)
    page.get_by_text("2,001 rows, 4 columns").wait_for()
    assert run.is_enabled()
    run.click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled. The calculation was stopped").wait_for()
    asked = [body for body in sent if body and "verb" in body]
    assert [body["file"] is not None for body in asked] == [True]
    # The sample is studied when it was chosen, and then the address names it.
    page.get_by_text("the sample: 569 patients").click()
    assert not page.locator(".upload").is_visible()
    assert "data=sample" in page.url
    run.click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled. The calculation was stopped").wait_for()
    # Keyboard users continue from here, not from the top of the page.
    assert page.evaluate("document.activeElement.className") == "job"
    asked = [body for body in sent if body and "verb" in body]
    assert [body["file"] is not None for body in asked] == [True, False]
    assert "target" not in asked[-1]["options"]


def test_the_study_form_offers_columns_and_roles(visit: Open, tmp_path: Path) -> None:
    rng = random.Random(7)
    people = tmp_path / "people.csv"
    names = ["".join(rng.choices("abcdefgh", k=9)) + str(i) for i in range(300)]
    rows = [f"{n},{rng.randint(1, 5)},{rng.random()!r},{rng.choice('ny')}" for n in names]
    people.write_text("nick,zip,size,sick\n" + "\n".join(rows) + "\n", encoding="utf-8")
    page = visit("/study")
    sent = held_jobs(page)
    page.set_input_files("input[type=file]", people)
    page.get_by_text("300 rows, 4 columns").wait_for()
    columns = page.locator("fieldset.columns").first
    # The target is not a feature; likely identifiers are left out unless they are ticked.
    assert columns.get_by_role("checkbox").count() == 3
    assert not columns.get_by_label("nick", exact=False).first.is_checked()
    columns.get_by_role("checkbox", name="size").uncheck()
    page.get_by_label("What zip holds").select_option("category")
    page.get_by_role("button", name="Run the study").click()
    page.locator(".job [role=alert]", has_text="kept.").wait_for()
    refused_only(page, "429")
    (asked,) = (body["options"] for body in sent)
    assert asked["columns"] == ["zip"]
    assert asked["roles"] == {"zip": "category"}
    # Another target, another set of columns.
    page.get_by_label("Column to predict", exact=True).select_option("zip")
    assert columns.get_by_role("checkbox", name="sick").count() == 1
    assert columns.get_by_role("checkbox", name="zip").count() == 0


def test_an_empty_bound_never_looks_like_a_proof(turn: Open) -> None:
    page = turn("/explain?epsilon=60&delta=0")
    wait_for_answer(page)
    looks = "getComputedStyle(document.querySelector('.meter .fill'))"
    blue = page.evaluate(f"{looks}.backgroundImage") == "none"
    assert ceiling(memberbound.explain(epsilon=60).accuracy_upper).startswith("no ")
    assert page.locator(".kept.unproved", has_text="no ").count() > 0
    assert not blue
    assert page.locator(".meter.unproved").count() == 1
    page.evaluate("location.hash = '/explain?epsilon=1&delta=0'")
    wait_for(page, "With ε = 1")
    assert page.locator(".meter.unproved").count() == 0


@pytest.mark.long
def test_study_from_file_to_report(visit: Open, tmp_path: Path) -> None:
    table = tmp_path / "small.csv"
    frame = pd.DataFrame(np.random.default_rng(4).normal(size=(240, 2)), columns=["a", "b"])
    frame["answer"] = np.where(frame["a"] + frame["b"] > 0, "yes", "no")
    frame.to_csv(table, index=False)
    page = visit("/study?shadows=8")
    page.set_default_timeout(900_000)
    page.set_input_files("input[type=file]", table)
    assert page.get_by_label("Column to predict", exact=True).input_value() == "answer"
    page.get_by_role("button", name="Run the study").click()
    page.locator(".sentence").wait_for()
    report = json.loads(download(page, "report.json", tmp_path).read_text("utf-8"))
    assert report["question"]["target"] == "answer"
    assert report["question"]["shadows"] == 8
    assert page.locator(".sentence").inner_text() == report["verdict"]["sentence"]
    page.frame_locator("iframe.report").get_by_role("heading", level=1).wait_for()
    assert b"<!doctype html" in download(page, "report.html", tmp_path).read_bytes()[:200].lower()
    assert shortcomings(page) == []
    page.reload()
    page.locator(".sentence").wait_for()
    assert page.locator(".sentence").inner_text() == report["verdict"]["sentence"]


# --- All pages ----------------------------------------------------------------------------------

PLACES = {
    "home": "/home",
    "explain": "/explain?epsilon=8&delta=1e-5",
    "choose": "/explain?mode=choose&notion=sgd&sample_rate=0.01&steps=100&scale=log",
    **{name: f"/{name}" for name in JOBS},
}


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        (1400, "light"),
        pytest.param(390, "light", marks=pytest.mark.long),
        pytest.param(1400, "dark", marks=pytest.mark.long),
    ],
)
def test_pages_are_for_everybody(visit: Open, width: int, scheme: str) -> None:
    page = visit("/explain", width=width, scheme=scheme)
    wait_for_answer(page)
    for name, route in PLACES.items():
        page.evaluate("(place) => { location.hash = place; }", route)
        page.locator(f".page[data-page={route[1:].split('?')[0]}]").wait_for()
        if name in ("explain", "choose"):
            page.locator(".sentence").wait_for()
            wait_for_answer(page)
        for more in page.locator("details").all():
            more.evaluate("(node) => { node.open = true; }")
        assert shortcomings(page) == [], name
        assert violations(page) == [], name
        # In a form of any length, the start button is in sight beside the answer.
        starts = page.locator(".columns2 > .card:first-child form > .buttons > .main:visible")
        if width > 960 and starts.count():
            box = starts.first.bounding_box()
            assert box["y"] + box["height"] <= page.evaluate("innerHeight"), name
        # Every bubble stays on the screen.
        for why in page.locator(".why:visible").all()[:4]:
            why.focus()
            box = why.locator("xpath=..").locator("[role=tooltip]").bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width, name


def test_the_checks_of_a_page_can_fail(visit: Open) -> None:
    page = visit("/study")
    assert shortcomings(page) == violations(page) == []
    page.evaluate(
        """() => {
          const add = (tag, text, style = {}) => {
            const node = document.createElement(tag);
            node.textContent = text;
            Object.assign(node.style, style);
            document.body.append(node);
            return node;
          };
          add("p", "faint", { color: "rgb(150, 150, 150)", background: "rgb(255, 255, 255)" });
          add("button", "");
          add("p", `${undefined} rows`);
          add("button", "x").setAttribute("aria-describedby", "nowhere at all");
          add("p", "wide", { width: "3000px" });
          add("h5", "a level is skipped");
        }"""
    )
    rules = {text.split(":")[0] for text in violations(page)}
    assert rules >= {"button-name", "color-contrast", "heading-order"}
    assert {text.split(":")[0] for text in shortcomings(page)} == {"raw", "wide"}


# --- Promises of the scripts -------------------------------------------------------------------


def test_scripts_never_build_markup_from_text() -> None:
    forbidden = (
        "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(",
        "new Function", "javascript:", "createContextualFragment", "srcdoc", "http://", "https://",
    )  # fmt: skip
    scripts = sorted(STATIC.glob("*.js"))
    assert len(scripts) > 10
    for path in scripts:
        text = path.read_text("utf-8")
        assert [word for word in forbidden if word in text] == [], path.name
        assert text.count("\n") <= 400, path.name
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"\son\w+=|\sstyle=|<style|https?://|<script(?![^>]*\ssrc=)", page)
    # Only the style sheet's own file and our icon: nothing from elsewhere.
    assert "url(" not in (STATIC / "app.css").read_text("utf-8")
