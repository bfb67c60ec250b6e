"""Evidence for others: registry of deployments, bill of materials, output checker, checklist."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pandas as pd
import pytest
import yaml
from jsonschema import Draft7Validator
from referencing import Registry, Resource

from memberbound import verify
from memberbound.errors import InputError
from memberbound.files import file_digest
from memberbound.report.evidence import (
    checklist,
    cyclonedx,
    in_toto,
    registry_entry,
    sacro_record,
)
from memberbound.report.publication import About, Case
from memberbound.verbs.export import export
from oracle.independent import verifier
from report.sample import given, sample, typed


def case(folder, name):
    return Case.of(folder / f"{name}.certificate.json")


#: The registry's fields and their types, as in its schema of July 2026.
REGISTRY = json.loads(Path(__file__).with_name("registry.schema.json").read_text("utf-8"))


def problems(entry):
    validator = Draft7Validator(REGISTRY, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [".".join(map(str, error.path)) for error in validator.iter_errors(entry)]


def test_registry_entry_has_the_registrys_fields(released):
    for name, product in (("model.json", "Machine learning model"), ("new.csv", "Synthetic data")):
        text = registry_entry(case(released, name).published, About())
        entry = yaml.safe_load(text)
        # Only the date is invalid until a user fills it in.
        assert problems(entry) == ["deployment.basic.publication_date"]
        told = About(publication_date="2026-12-01", authors=("A",), controller="B")
        entry = yaml.safe_load(registry_entry(case(released, name).published, told))
        assert problems(entry) == []
        assert entry["deployment"]["basic"]["data_product_type"] == product
        certificate = json.loads((released / f"{name}.certificate.json").read_text())
        loss = entry["deployment"]["privacy_loss"]["privacy_parameters"]
        assert loss == {
            "epsilon": certificate["curve"]["replace_one"]["epsilon_upper"],
            "delta": certificate["curve"]["delta"],
        }
        # Folded texts, which the registry refuses, are not used.
        assert not re.search(r"(?m): [>]", text)
    assert problems(entry | {"surprise": 1}) == [""]
    assert problems(entry | {"tier": 0}) == ["tier"]


def test_a_secret_half_is_not_exported_as_a_dp_deployment(released):
    with pytest.raises(InputError, match="no differential privacy"):
        registry_entry(case(released, "half.safetensors").published, About())


def schema_of_cyclonedx():
    folder = files("cyclonedx.schema._res")

    def read(name):
        return json.loads(folder.joinpath(f"{name}.SNAPSHOT.schema.json").read_text("utf-8"))

    whole = read("bom-1.6")
    base = whole["$id"].rpartition("/")[0]
    resources = [
        (f"{base}/{name}{ending}", Resource.from_contents(read(name)))
        for name in ("spdx", "jsf-0.82")
        for ending in (".SNAPSHOT.schema.json", ".schema.json")
    ]
    return Draft7Validator(whole, registry=Registry().with_resources(resources))


def test_bill_of_materials_is_one(released):
    pytest.importorskip("cyclonedx", reason="the schemas are in cyclonedx-python-lib")
    schema = schema_of_cyclonedx()
    for name in ("model.json", "new.csv", "half.safetensors"):
        document = json.loads(cyclonedx(case(released, name).published))
        assert [error.message for error in schema.iter_errors(document)] == []
    document = json.loads(cyclonedx(case(released, "model.json").published))
    (component,) = document["components"]
    certificate = json.loads((released / "model.json.certificate.json").read_text())
    assert component["hashes"] == [{"alg": "SHA-256", "content": certificate["sha256"]}]
    metrics = component["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert [metric["value"] for metric in metrics] == ["0.55", *map(
        repr, certificate["curve"]["replace_one"]["tpr_upper"].values()
    )]  # fmt: skip
    for metric in metrics:
        interval = metric["confidenceInterval"]
        assert float(interval["lowerBound"]) <= float(metric["value"])
        assert interval["upperBound"] == metric["value"]
        assert metric["slice"].startswith("every record, neighbour game")
    metrics[0]["value"] = 0.55  # a number, which the format has no room for
    assert [list(error.path)[-1] for error in schema.iter_errors(document)] == ["value"]


def test_a_statement_holds_the_file_and_its_certificate(released, tmp_path):
    for name in ("model.json", "new.csv", "half.safetensors"):
        statement = json.loads(in_toto(case(released, name)))
        certificate = json.loads((released / f"{name}.certificate.json").read_text())
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        digest = {"sha256": file_digest(released / name)}
        assert statement["subject"] == [{"name": name, "digest": digest}]
        assert statement["predicate"] == certificate
    # The statement alone is enough to verify the file.
    out = tmp_path / "model.statement.json"
    export(released / "model.json.certificate.json", format="in-toto", out=out)
    assert verify(released / "model.json", certificate=out).holds
    assert not verify(released / "new.csv", certificate=out).holds
    assert verifier.main([str(released / "model.json"), "--certificate", str(out)]) == 0
    # A signature covers the subject: it must be the certified file.
    for subject in ([], [{"name": "x", "digest": {"sha256": "0" * 64}}], "x"):
        out.write_text(json.dumps(json.loads(out.read_text()) | {"subject": subject}))
        with pytest.raises(InputError, match="subject"):
            verify(released / "model.json", certificate=out)


def given_model(*, passes, lower):
    return Case(report=typed(given(passes=passes, lower=2 * lower - 1)))


def test_an_output_checker_gets_a_record_of_acro(released, tmp_path):
    # The viewer's assertions about a file, and the fields that ACRO's own reader uses.
    for source in (case(released, "model.json"), given_model(passes=True, lower=0.5)):
        document = json.loads(sacro_record(source))
        assert re.fullmatch(r"\d+\.\d+\.\d+", document["version"])
        for uid, record in document["results"].items():
            assert record["uid"] == uid
            assert [set(file) for file in record["files"]] == [{"name", "sdc"}]
            assert {
                "status", "type", "properties", "outcome", "command", "summary", "timestamp",
                "comments", "exception", "fair",
            } <= record.keys()  # fmt: skip
            assert record["status"] == "review"
            pd.DataFrame.from_dict({k: {"": v} for k, v in record["outcome"].items()})
    for bad in (given_model(passes=False, lower=0.5), given_model(passes=True, lower=0.61)):
        (record,) = json.loads(sacro_record(bad))["results"].values()
        assert record["status"] == "fail"
    assert "≥ 60.99 %" in record["summary"]  # rounded down
    # The command's own sentence is about the model that leaks, not about what a remedy promises.
    done = export(given(lower=0.3), format="sacro", out=tmp_path / "results.json")
    assert given()["verdict"]["sentence"] in done.summary()
    # A seed makes the noise known.
    (record,) = json.loads(sacro_record(case(released, "half.safetensors")))["results"].values()
    assert record["status"] == "fail"


def test_checklist_marks_unanswered_questions(released):
    def rows(text):
        return [
            [cell.strip() for cell in line.split("|")[1:-1]]
            for line in text.splitlines()
            if line.startswith("|") and not line.startswith(("| --- ", "|  |"))
        ]

    text = checklist(case(released, "model.json"))
    listed = rows(text)
    assert {row[0] for row in listed} >= {f"11.2.{index}" for index in range(1, 6)}
    assert {row[2] for row in listed} == {"answered", "in part", "not answered"}
    assert "{" not in text
    for title in ("OWASP AISVS", "ISO/IEC 27559", "NIST SP 800-226", "EDPB Opinion 28/2024"):
        assert title in text
    by_ref = {row[0]: row for row in listed}
    assert by_ref["11.2.4"][2] == "answered"
    assert "μ ≤ 0.25133" in by_ref["11.2.4"][3]
    half = {row[0]: row for row in rows(checklist(case(released, "half.safetensors")))}
    assert half["11.2.4"][2] == "not answered"
    assert by_ref["8.2.3"][2] == "not answered"
    studied = {row[0]: row for row in rows(checklist(Case(report=typed(sample()))))}
    assert studied["8.2.3"][2] == "in part"
