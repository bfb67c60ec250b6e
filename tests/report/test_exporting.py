"""Exporters of a report: model card, MLflow run, PDF, and the command."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from conftest import needed_chromium
from memberbound.errors import InputError, MemberboundError
from memberbound.games import ATTACKERS
from memberbound.release.derivation import seal
from memberbound.report import printing
from memberbound.report.evidence import cyclonedx, model_card, registry_entry
from memberbound.report.markdown import clean, escape
from memberbound.report.mlflow_run import owner_entry, published_entry
from memberbound.report.model import Report
from memberbound.report.page import render
from memberbound.report.publication import About, Promise, Publication, ReleasedFile
from memberbound.verbs.export import Export, export
from report.sample import hostile, partial, sample, typed

SIDES = {"certified": "upper", "estimated": "estimate", "measured": "lower"}
#: As the Hub finds the metadata of a card.
FRONT_MATTER = re.compile(r"^(\s*---[\r\n]+)([\S\s]*?)([\r\n]+---(\r\n|\n|$))")


@pytest.fixture
def report_file(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(sample()), encoding="utf-8")
    return path


def parts(card):
    found = FRONT_MATTER.match(card)
    assert found is not None
    return yaml.safe_load(found.group(2)), card[found.end() :]


def evaluations(head):
    """Read a model-index as the Hub's own library does, with all required fields."""
    found = []
    for model in head["model-index"]:
        assert isinstance(model["name"], str)
        for result in model["results"]:
            task, data = result["task"]["type"], result["dataset"]
            assert all(isinstance(text, str) for text in (task, data["type"], data["name"]))
            # The library refuses a source without an address, and a report has none.
            assert "source" not in result
            for metric in result["metrics"]:
                assert isinstance(metric["type"], str)
                assert isinstance(metric["value"], float)
                found.append((task, metric))
    return found


def numbers(report):
    """Every number of the sandwich, straight from the dictionary."""
    for row in report["sandwich"]:
        for kind, side in SIDES.items():
            if row[f"accuracy_{side}"] is not None:
                yield row, kind, side, row[f"accuracy_{side}"]


# The model card: the published part has its own type.


def published(report):
    return Publication.of_study(typed(report))


def owner_types(kind, seen=()):
    """Every class that a dataclass can hold, by its annotations."""
    if is_dataclass(kind) and kind not in seen:
        yield kind
        for hint in get_type_hints(kind).values():
            yield from owner_types(hint, (*seen, kind))
    for hint in get_args(kind):
        yield from owner_types(hint, seen)


def test_published_formats_have_no_field_for_owner_only_values():
    held = set(owner_types(Publication))
    assert held == {Publication, Promise, ReleasedFile}
    owners = set(owner_types(Report))
    assert len(owners) > 10
    assert not held & owners
    # Every public format is built from this type and from statements of the user.
    said = {About, Mapping[str, str] | None}
    for maker in (model_card, published_entry, registry_entry, cyclonedx):
        hints = {name: hint for name, hint in get_type_hints(maker).items() if name != "return"}
        assert hints.pop("published") is Publication
        assert set(hints.values()) <= said


def perturb(value, factor):
    """Change every fractional number, every text and every verdict of a report."""
    if isinstance(value, dict):
        return {key: perturb(item, factor) for key, item in value.items()}
    if isinstance(value, list):
        return [perturb(item, factor) for item in value]
    if isinstance(value, float):
        return min(value * factor, 1.0) if value <= 1 else value * factor
    return value


def test_reports_that_differ_in_all_that_depends_on_rows_give_one_card():
    first = sample()
    first["run"]["chosen"] = ["target", "learner", "eta"]
    first["data"]["left_out"] = ["id"]
    other = perturb(first, 1.007)
    for name in ("question", "schema", "version"):
        other[name] = first[name]
    other["data"] |= {
        "task": "regression",
        "classes": [],
        "sha256": "0" * 64,
        "encoded_features": 7,
        "columns": [*first["data"]["columns"][1:], "id"],  # one record makes it no identifier
        "left_out": first["data"]["columns"][:1],
    }
    other["verdict"] = {"level": "exposed", "sentence": "Everybody", "advice": "is exposed."}
    other["assumptions"] = ["Another one."]
    other["theorems"] = ["X1"]
    other["status"], other["remedies"] = "partial", []
    for step in other["steps"]:
        step.update(state="failed", error="12345 rows", sentence=None, result=None)
    other["sandwich"], other["exposure"] = other["sandwich"][:2], None
    other["run"] |= {"seconds": 1.5, "started": "2027-01-01T00:00:00+00:00"}
    assert typed(other).to_json() != typed(first).to_json()
    assert published(other) == published(first)
    assert model_card(published(other)) == model_card(published(first))
    entries = [published_entry(published(report)) for report in (first, other)]
    assert len({repr(replace(entry, files={})) for entry in entries}) == 1
    # Negative control: the owner's entry tells the two apart.
    assert owner_entry(typed(first)).metrics != owner_entry(typed(other)).metrics
    # The learner is published only if the user named it: otherwise the target's values chose it.
    assert published(first).learner == "logistic"
    unnamed = first | {"run": first["run"] | {"chosen": ["target"]}}
    assert published(unnamed).learner is None


def test_neighbouring_tables_under_the_same_noise_are_published_alike(released, tmp_path):
    models, cards, certificates = [], [], []
    for name in ("one", "two"):
        path = released / name / "model.json.certificate.json"
        stated = json.loads(path.read_text())
        # The certificate's own hash covers its other content, the file's digest included.
        assert stated["certificate_sha256"] == seal(stated)
        certificates.append(stated | {"sha256": None, "certificate_sha256": None})
        models.append(json.loads((released / name / "model.json").read_text()))
        export(path, format="model-card", out=tmp_path / f"{name}.md")
        # The digest is that of the released file, which is noisy and public.
        card = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert card.count(stated["sha256"]) == 1
        cards.append(card.replace(stated["sha256"], ""))
    assert certificates[0] == certificates[1]
    assert cards[0] == cards[1]
    assert models[0] != models[1]
    assert drop_noise(models[0]) == drop_noise(models[1])


def drop_noise(value):
    """A document without its doubles, which are noisy or follow from the budget."""
    if isinstance(value, dict):
        return {key: drop_noise(item) for key, item in value.items()}
    if isinstance(value, list):
        return [drop_noise(item) for item in value]
    return None if isinstance(value, float) else value


def test_card_of_a_release_agrees_with_its_certificate(released, tmp_path):
    path = released / "one" / "model.json.certificate.json"
    said = json.loads(path.read_text())
    done = export(path, format="model-card", out=tmp_path / "card.md")
    assert done.to_dict()["audience"] == "public"
    assert (done.to_dict()["game"], done.to_dict()["theorems"]) == ("neighbour", ["X22"])
    head, body = parts((tmp_path / "card.md").read_text(encoding="utf-8"))
    ((_, metric),) = evaluations(head)
    assert metric["value"] == pytest.approx(0.5 + said["certificate"]["upper"])
    assert metric["args"]["theorems"] == ["X22"]
    for text in said["certificate"]["assumptions"]:
        assert escape(text) in body
    assert (
        "| an attacker who knows every other record | every record | 50 % | **≤ 55 %**, certified"
        in body
    )
    assert "At 1 % false alarms an attack identifies ≤ 1.9 % of the members" in body
    public = released / "half.safetensors.certificate.json"
    export(public, format="model-card", out=tmp_path / "mean.md")
    ((_, metric),) = evaluations(parts((tmp_path / "mean.md").read_text("utf-8"))[0])
    assert (metric["args"]["game"], metric["args"]["blind_guess"]) == ("subset", 0.5)


def test_a_certificate_of_another_file_is_refused(released, tmp_path, monkeypatch):
    path = released / "one" / "model.json.certificate.json"
    out = {"format": "model-card", "out": tmp_path / "x.md"}
    alone = tmp_path / "model.json.certificate.json"
    alone.write_text(path.read_text())
    expect_refusal(tmp_path, "must be a saved release", alone, **out)
    (tmp_path / "model.json").write_text("{}")
    expect_refusal(tmp_path, "SHA-256", alone, **out)
    text = json.loads(path.read_text())
    text["sha256"] = hashlib.sha256(b"{}").hexdigest()
    for broken in ({"certificate": None}, {"certificate": {}}, {"eta": "x"}):
        alone.write_text(json.dumps(text | broken))
        expect_refusal(tmp_path, "certificate", alone, **out)
    # The owner's formats are made from a report.
    monkeypatch.setenv("CHROME_BIN", sys.executable)
    with pytest.raises(InputError, match="report must be that of a study"):
        export(path, format="pdf", out=tmp_path / "x.pdf")
    # A certificate elsewhere, under any name, is compared with the file that is named.
    moved = tmp_path / "moved"
    moved.write_text(path.read_text())
    for other in (tmp_path / "model.json", released / "one" / "model.json.certificate.json"):
        expect_refusal(tmp_path, "SHA-256", moved, release=other, **out)
    with pytest.raises(InputError, match="must be a saved release"):
        export(path, format="model-card", release="x", out=tmp_path / "x.md")


@settings(max_examples=25, deadline=None)
@given(st.floats(min_value=0.0001, max_value=0.4995))
def test_printed_bounds_are_bounds(eta):
    report = sample()
    report["question"]["eta"] = eta
    head, body = parts(model_card(published(report)))
    ((task, metric),) = evaluations(head)
    assert (task, metric["type"]) == ("membership-inference", "membership_inference_accuracy_upper")
    said = {"kind": "certificate", "game": "neighbour", "protects": "every record"}
    assert metric["args"].items() >= said.items()
    assert not re.search("[≈≥]", body), "nothing but what is certified"
    (row,) = (line for line in body.splitlines() if line.startswith(f"| {ATTACKERS['neighbour']}"))
    if metric["value"] > 0.9999:
        assert "≤" not in row
        return
    most = Fraction(re.search(r"\*\*≤ ([\d.]+) %\*\*, certified", row).group(1)) / 100
    assert Fraction(repr(metric["value"])) <= most < Fraction(metric["value"]) + Fraction(1, 9999)


def structure(text):
    """The tokens of a text without the words: what a renderer would make of it."""
    found = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        found.append((token.type, token.tag))
        for child in token.children or ():
            if child.type != "text":
                found.append((child.type, child.tag, child.content))
    return found


def words(text):
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    return [
        "".join(child.content for child in token.children)
        for token in parsed
        if token.type == "inline"
    ]


def shape(head):
    """The keys and types of nested data."""
    if isinstance(head, dict):
        return {key: shape(value) for key, value in head.items()}
    if isinstance(head, list):
        return [shape(value) for value in head]
    return type(head).__name__


#: Names as spiteful tables have them: markup, tables, YAML, HTML, links, line ends, bidi, NUL.
SPITEFUL = (
    "a|b <script>alert(1)</script>",
    "`tick` *bold* [link](http://example.org) ![image](x.png)",
    "# head",
    "12. item",
    "---\nevil: true\n---",
    "key: 'single \"double &amp; \\|",
    "! !!python/object:os.system *anchor &alias",
    "bidi \u202e turned \u2028 nul \x00 lone \ud800 surrogate",
    "",
)
PLAIN = tuple(f"zq{index:03d}zq" for index in range(len(SPITEFUL)))


def spiteful(name, names=SPITEFUL):
    """The publication of a report in which a third party chose every name."""
    words = {"name": name, "target": name, "learner": name, "assumptions": names}
    return replace(published(sample()), **words)


@cache
def usual_card():
    """The parts of a card, and the structure and the words of its text, with harmless names."""
    head, body = parts(model_card(spiteful("zqNAMEzq", PLAIN)))
    return head, structure(body), words(body)


@pytest.mark.parametrize("name", SPITEFUL, ids=ascii)
def test_no_name_breaks_markdown_or_yaml(name):
    card = model_card(spiteful(name))
    card.encode("utf-8")
    head, body = parts(card)
    # A page without front-matter support shows it as Markdown, in which this would be markup.
    assert not set("<>&`") & set(card.split("\n---\n")[0])
    usual_head, usual_structure, usual_words = usual_card()
    assert structure(body) == usual_structure
    assert shape(head) == shape(usual_head)

    def rename(text, empty):
        for plain, other in zip(("zqNAMEzq", *PLAIN), (name, *SPITEFUL), strict=True):
            text = text.replace(plain, clean(other) or empty)
        return text

    # Every cell and paragraph has the words that it should have, at its place.
    assert words(body) == [rename(said, "–") for said in usual_words]
    (result, *_), (usual, *_) = (h["model-index"][0]["results"] for h in (head, usual_head))
    assert result["dataset"]["name"] == rename(usual["dataset"]["name"], "")
    assert head["model-index"][0]["name"] == rename(usual_head["model-index"][0]["name"], "")


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(), max_size=12))
def test_any_text_is_shown_as_it_is(text):
    said = escape(text)
    assert words(f"- {said}") == [clean(text) or "–"]
    assert structure(f"- {said}\n\n{said}") == structure("- x\n\nx")
    assert yaml.safe_load(yaml.safe_dump({"k": clean(text)}, allow_unicode=True))["k"] == clean(
        text
    )


# The verb: files, bad input.


def test_model_card_is_written_from_a_file_a_dictionary_and_a_study(tmp_path, report_file):
    class Study:
        report = sample()

    texts = []
    for index, source in enumerate((report_file, str(report_file), sample(), Study())):
        out = tmp_path / f"card{index}.md"
        done = export(source, format="model-card", out=out)
        assert isinstance(done, Export)
        assert done.out == str(out)
        texts.append(out.read_text(encoding="utf-8"))
    assert set(texts) == {model_card(published(sample()))}


def expect_refusal(folder, match, report, **options):
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(InputError, match=match) as caught:
        export(report, **options)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"format": "docx", "out": "x.docx"},
            "format must be one of 'model-card'",
        ),
        ({"format": "model-card", "out": "card.txt"}, r"out must end in \.md"),
        ({"format": "model-card"}, "out must be given"),
        ({"format": "model-card", "out": "there.md"}, "out must not exist yet"),
        ({"format": "model-card", "out": "missing/card.md"}, "existing folder"),
        ({"format": "decision", "out": "x.pdf", "about": "there.md"}, "about must hold lines"),
        ({"format": "decision", "out": "x.pdf", "about": "about.yaml"}, "about must hold only"),
        ({"format": "model-card", "out": "x.md", "release": "there.md"}, "come with its certif"),
        ({"format": "model-card", "out": "x.md", "release": 7}, "release must be a file"),
        ({"format": "dp-registry", "out": "x.yaml"}, "report must be the certificate"),
        ({"format": "sacro", "out": "x.json"}, "report must be the certificate"),
        ({"report": "none.json", "format": "model-card", "out": "x.md"}, "existing file"),
        ({"report": "there.md", "format": "pdf", "out": "x.pdf"}, "report must be JSON"),
        ({"report": "there.md", "format": "mlflow"}, "report must be JSON"),
    ],
)
def test_bad_options_are_refused_and_nothing_is_written(tmp_path, monkeypatch, options, match):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHROME_BIN", sys.executable)
    (tmp_path / "there.md").write_text("kept", encoding="utf-8")
    (tmp_path / "about.yaml").write_text("aim: none", encoding="utf-8")
    expect_refusal(tmp_path, match, **{"report": sample()} | options)


# MLflow.


@pytest.fixture
def store(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "store"
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(folder.as_uri())
    yield folder.as_uri()
    mlflow.set_tracking_uri(before)


def client(store):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=store)


def artifacts(store, run_id):
    return {file.path for file in client(store).list_artifacts(run_id, "memberbound")}


def test_new_run_holds_numbers_parameters_tags_and_files(store, tmp_path):
    report = sample()
    done = export(report, format="mlflow-owner", out="releases")
    said = done.to_dict()
    assert said["audience"] == "owner"
    run = client(store).get_run(said["run_id"])
    assert run.info.status == "FINISHED"
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"  # nothing is sent to MLflow's makers
    assert client(store).get_experiment(run.info.experiment_id).name == "releases"
    assert run.data.metrics == owner_entry(typed(report)).metrics
    assert run.data.tags["memberbound.audience"] == "owner only"
    assert run.data.tags["mlflow.note.content"].startswith("For the owner of the table only")
    listed = list(numbers(report))
    for row, kind, side, value in listed:
        name = f"memberbound/{kind}/{row['subject']}/{row['record']}-record/accuracy_{side}"
        assert run.data.metrics[name] == value
    scores = [r for r in report["remedies"] if r["score_after_estimate"] is not None]
    assert said["metrics"] == len(run.data.metrics) == len(listed) + len(scores) + 1
    assert run.data.params["memberbound.eta"] == "0.05"
    assert run.data.params["memberbound.data_rows"] == "569"
    assert run.data.tags["memberbound.verdict"] == report["verdict"]["sentence"]
    assert run.data.tags["memberbound.status"] == "complete"
    assert run.data.tags["memberbound.theorems"] == ", ".join(report["theorems"])
    files = artifacts(store, run.info.run_id)
    assert files == set(said["files"]) == {"memberbound/report.html", "memberbound/report.json"}
    copy = client(store).download_artifacts(
        run.info.run_id, "memberbound/report.json", str(tmp_path)
    )
    assert json.loads(Path(copy).read_text(encoding="utf-8")) == report


def test_a_public_run_holds_published_values_only(store, tmp_path, released):
    report = sample()
    entry = published_entry(published(report))
    run_id = export(report, format="mlflow").to_dict()["run_id"]
    data = client(store).get_run(run_id).data
    assert data.metrics == entry.metrics
    assert len(data.metrics) == 1
    assert data.params == entry.parameters
    assert data.tags["memberbound.audience"] == "public"
    assert artifacts(store, run_id) == {"memberbound/MODEL_CARD.md"}
    copy = client(store).download_artifacts(run_id, "memberbound/MODEL_CARD.md", str(tmp_path))
    assert Path(copy).read_text(encoding="utf-8") == model_card(published(report))
    path = released / "one" / "model.json.certificate.json"
    run_id = export(path, format="mlflow").to_dict()["run_id"]
    assert client(store).get_run(run_id).data.params["memberbound.rows"] == "800"


def test_report_goes_to_the_active_run_and_leaves_it_open(store):
    import mlflow

    with mlflow.start_run() as active:
        mlflow.log_metric("mine", 1.0)
        done = export(sample(), format="mlflow")
        assert done.to_dict()["run_id"] == active.info.run_id
        assert mlflow.active_run().info.run_id == active.info.run_id
        with pytest.raises(InputError, match="out must be left out while a run is active"):
            export(sample(), format="mlflow", out="other")
    run = client(store).get_run(active.info.run_id)
    assert run.data.metrics == published_entry(published(sample())).metrics | {"mine": 1.0}
    assert "mlflow.note.content" not in run.data.tags


def test_named_run_takes_the_same_study_twice_and_another_never(store):
    first = export(partial(), format="mlflow-owner").to_dict()["run_id"]
    again = export(partial(), format="mlflow-owner", out=f"runs:/{first}").to_dict()["run_id"]
    assert again == first
    before = client(store).get_run(first).data.to_dictionary()
    assert before["tags"]["memberbound.status"] == "partial"
    other = sample()
    other["question"]["eta"] = 0.1
    with pytest.raises(InputError, match=r"memberbound\.eta is '0\.05' and not '0\.1'"):
        export(other, format="mlflow-owner", out=f"runs:/{first}")
    assert client(store).get_run(first).data.to_dictionary() == before


def test_an_unusable_server_is_refused_without_its_password(store):
    import mlflow

    mlflow.set_tracking_uri("ftp://u:secret@tracking.example/x")
    with pytest.raises(MemberboundError, match="MLflow refused") as caught:
        export(sample(), format="mlflow")
    assert "secret" not in str(caught.value)


def test_entries_are_within_mlflows_limits():
    report = hostile()
    report["sandwich"][0]["accuracy_lower"] = None
    report["question"]["learner"] = "x" * 9000
    report["assumptions"] = ["A sentence without an end"] * 900
    entry = owner_entry(typed(report))
    assert len(entry.metrics) == len(owner_entry(typed(sample())).metrics) - 1
    assert max(map(len, entry.parameters.values())) == 500
    assert max(map(len, entry.tags.values())) == 5000
    for made in (entry, published_entry(spiteful("a|b: c"))):
        assert all(isinstance(value, float) for value in made.metrics.values())
        assert all(isinstance(value, str) for value in made.parameters.values())
        for name in (*made.metrics, *made.parameters, *made.tags):
            assert re.fullmatch(r"[\w.\- :/]{1,250}", name), name


# PDF.


@pytest.fixture
def browser(monkeypatch):
    monkeypatch.setenv("CHROME_BIN", needed_chromium())


def count_strokes(printed):
    """Return the number of lines and curves drawn on the pages of a PDF."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", printed, flags=re.DOTALL)
    operators = 0
    for stream in streams:
        try:
            plain = zlib.decompressobj().decompress(stream)
        except zlib.error:
            continue
        operators += len(re.findall(rb"[\d.] [lc]\n", plain))
    return operators


@pytest.mark.browser
def test_pdf_has_several_pages_with_the_figures(tmp_path, browser, report_file):
    out = tmp_path / "report.pdf"
    done = export(report_file, format="pdf", out=out)
    printed = out.read_bytes()
    assert printed.startswith(b"%PDF-")
    assert 2 <= done.to_dict()["pages"] == printing.page_count(printed) <= 16
    assert len(printed) < 800_000
    # The same page without its drawings has the words, and none of the figures.
    bare = re.sub(r"(?s)<svg.*?</svg>", "", render(typed(sample())))
    assert count_strokes(printed) > count_strokes(printing.print_pdf(bare)) + 100


def fake_browser(tmp_path, body):
    path = tmp_path / "fake-browser"
    path.write_text(f"#!{sys.executable}\nimport os, subprocess, sys, time\n{body}\n", "utf-8")
    path.chmod(0o755)
    return path


TARGET = "target = [a for a in sys.argv if a.startswith('--print-to-pdf=')][0].split('=')[1]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in browser is a script")
@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("", "printed no PDF"),
        (TARGET + "open(target, 'w').write('%PDF-1.4 /Type /Page')", "printed no PDF"),
        (TARGET + "open(target, 'w').write('%PDF-1.4 /Type /Page %%EOF')", "1 pages, too few"),
        (TARGET + "open(target, 'w').write('%PDF-1.4 %%EOF'); sys.exit(3)", "ended with code 3"),
    ],
    ids=["nothing", "half a PDF", "one page", "failure"],
)
def test_a_browser_that_prints_no_pdf_leaves_no_file(tmp_path, body, match, monkeypatch):
    monkeypatch.setenv("CHROME_BIN", str(fake_browser(tmp_path, body)))
    with pytest.raises(MemberboundError, match=match):
        export(sample(), format="decision", out=tmp_path / "x.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["fake-browser"]


def gone(pid):
    state = Path("/proc", pid, "status")
    try:
        return "State:\tZ" in state.read_text(encoding="utf-8")
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_browser_that_hangs_is_ended_with_its_children(tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    body = (
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'draft')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(tmp_path / 'draft')!r}, {str(pids)!r})\n"
        "time.sleep(600)"
    )
    wait = subprocess.Popen.wait

    def hang(process, timeout=None):
        # The time limit is over as soon as the child is there, however slow this machine is.
        if timeout == 33:
            while not pids.exists():
                assert process.poll() is None
            raise subprocess.TimeoutExpired("browser", timeout)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", hang)
    with pytest.raises(MemberboundError, match="did not print within 33 seconds"):
        printing.print_pdf("<p>", browser=fake_browser(tmp_path, body), seconds=33)
    numbers_of_both = pids.read_text(encoding="utf-8").split()
    assert len(numbers_of_both) == 2
    deadline = time.monotonic() + 60  # a killed process needs a moment to go
    while time.monotonic() < deadline and not all(map(gone, numbers_of_both)):
        time.sleep(0.05)
    assert all(map(gone, numbers_of_both))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no root")
@pytest.mark.parametrize(("user", "expected"), [(0, True), (1000, False)])
def test_sandbox_is_left_out_for_root_only(tmp_path, monkeypatch, user, expected):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("--no-sandbox" in printing._flags(tmp_path, tmp_path / "x.pdf")) is expected


def test_without_a_browser_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(printing.shutil, "which", lambda name: None)
    said = expect_refusal(
        tmp_path, "needs Chromium", sample(), format="pdf", out=tmp_path / "x.pdf"
    )
    assert "CHROME_BIN" in said
