"""Decision pages: two pages about the released file, in plain words, and the annex of a DPIA."""

import hashlib
import re
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from conftest import chromium_path
from faces.web.pages_checks import violations
from memberbound.errors import InputError
from memberbound.report.decision import describe_promise, dpia_annex, render_decision
from memberbound.report.evidence import (
    checklist,
    cyclonedx,
    model_card,
    registry_entry,
    sacro_record,
)
from memberbound.report.publication import About, Case
from memberbound.verbs.export import export
from report.sample import hostile, partial, regression, sample, typed

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "for-the-data-protection-officer.md"


def of_release(folder, name, about=None):
    return Case.of(folder / f"{name}.certificate.json", about=about)


def test_a_release_is_named_by_its_file_or_its_certificate(released):
    named = Case.of(released / "model.json")
    assert named.release == of_release(released, "model.json").release
    with pytest.raises(InputError, match="report"):
        Case.of(released / "no-such.json")


def of_study(report, **more):
    return Case(report=typed(report), **more)


def recommending(id):
    """The sample with another recommended remedy, or none."""
    report = sample()
    for remedy in report["remedies"]:
        remedy["recommended"] = remedy["id"] == id
    return report


FILES = ("model.json", "persons.json", "new.csv", "mean.safetensors", "half.safetensors")


def all_cases(folder):
    for name in FILES:
        yield of_release(folder, name)
    for report in (sample(), partial(), regression(), recommending(None), recommending("coarser")):
        yield of_study(report)
    yield Case.of(sample(), release=folder / "model.json")


def visible(page):
    """The sentences that a reader sees, without file names, digests and commands."""
    body = re.sub(r"(?s)<style.*?</style>|<svg.*?</svg>|<pre.*?</pre>|<table.*?</table>", "", page)
    body = re.sub(r'(?s)<p class="small">.*?</p>', "", body.partition("<body>")[2])
    blocks = re.findall(r"(?s)<(?:p|li)\b[^>]*>(.*?)</(?:p|li)>", body)
    plain = (" ".join(re.sub(r"<[^>]+>", "", block).split()) for block in blocks)
    return [text if text.endswith((".", "?", ":")) else f"{text}." for text in plain if text]


def reading_ease(text):
    """Flesch's formula, syllables by groups of vowels: above 70 is easy, below 30 for graduates."""
    words = re.findall(r"[A-Za-z’']+", text)
    sentences = len(re.findall(r"[.?!:](?:\s|$)", text))
    syllables = 0
    for word in words:
        groups = re.findall(r"[aeiouy]+", re.sub(r"(?:[^laeiouy]es|ed|[^l]e)$", "", word.lower()))
        syllables += max(1, len(groups))
    return 206.835 - 1.015 * len(words) / sentences - 84.6 * syllables / len(words)


#: Words of the field; none of them is needed to sign.
TERMS = re.compile(
    r"(?i)\b(membership|non-member|attacker|certif\w+|theorem|differential|privacy budget|noise|"
    r"parameter|confidence|calibrat\w+|epsilon|eta|game|ceiling|floor|shadow|estimat\w+|record|"
    r"trade-off|false positive|subset|neighbour|training set|learner|audit)\b|[α-ωΑ-Ω]"
)


def test_everybody_can_read_the_pages(released):
    for case in all_cases(released):
        text = " ".join(visible(render_decision(case)))
        assert reading_ease(text) >= 75, text
        assert not TERMS.findall(text.replace("its noise can be reconstructed", "")), text
    # Exact values are not for publication: the figure distinguishes the two.
    exact = " ".join(of_release(released, "model.json").release.assumptions)
    assert reading_ease(exact) < 65
    assert TERMS.findall(exact)


def test_pages_make_no_claim_beyond_software(released, tmp_path):
    texts = {"docs": PAGE.read_text(encoding="utf-8")}
    for index, case in enumerate(all_cases(released)):
        makers = [render_decision, dpia_annex]
        if case.promise is not None:
            makers.append(checklist)
        if case.file is not None:
            makers.append(sacro_record)
        texts |= {f"{index} {maker.__name__}": maker(case) for maker in makers}
        texts[f"{index} card"] = model_card(case.published)
        if case.release is not None:
            texts[f"{index} bom"] = cyclonedx(case.published)
            if case.release.promise.game == "neighbour":
                texts[f"{index} registry"] = registry_entry(case.published, case.about)
    assert len(texts) > 30
    forbidden = re.compile(r"(?i)anonymous|anonymi[sz]ed|compliant|compliance")
    assert [name for name, text in texts.items() if forbidden.search(text)] == []
    assert forbidden.search("GDPR-compliant and anonymous")


def test_the_pages_name_the_file_that_is_released(released):
    for name in FILES:
        digest = hashlib.sha256((released / name).read_bytes()).hexdigest()
        for text in (
            render_decision(of_release(released, name)),
            dpia_annex(of_release(released, name)),
            render_decision(Case.of(sample(), release=released / name)),
        ):
            assert name in text
            assert digest in text


@pytest.mark.parametrize("upper", [0.5, 0.5000001, 0.55, 0.55000001, 0.7661, 0.99999])
def test_the_number_in_the_sentence_and_in_the_picture_is_a_bound(upper):
    report = sample()
    next(r for r in report["remedies"] if r["recommended"])["accuracy_upper"] = upper
    case = of_study(report)
    (right, blind) = map(int, re.findall(r"(\d+) times in 100", describe_promise(case)[0]))
    assert right >= 100 * Fraction(repr(upper)) > right - 1
    assert blind <= 50
    page = render_decision(case)
    assert page.count('class="file"') == right - blind
    assert page.count('class="wrong"') == 100 - right


def test_drafts_are_marked_as_not_for_signature(released):
    assert "Do not sign" in render_decision(of_release(released, "persons.json"))
    assert "Do not sign" not in render_decision(of_release(released, "model.json"))
    assert "Draft" in render_decision(of_study(sample()))
    assert "nothing to sign" in render_decision(of_study(recommending(None)))
    assert "did not finish" in render_decision(of_study(partial()))
    other = render_decision(Case.of(sample(), release=released / "model.json"))
    assert "made from 800 rows, and the study is about 569 rows" in other
    same = sample()
    same["data"] |= {"rows": 790, "records": 800}  # ten rows have no target
    assert "and the study is about" not in render_decision(
        Case.of(same, release=released / "model.json")
    )


def test_the_protected_record_and_the_origin_of_the_limit(released, tmp_path):
    assert "All rows with it are that person" in render_decision(
        of_release(released, "persons.json")
    )
    assert "one row is one person" in render_decision(of_release(released, "model.json"))
    chosen = sample()
    chosen["run"]["chosen"] = ["eta"]
    assert "Nobody has chosen it" in render_decision(of_study(sample()))
    assert "Nobody has chosen it" not in render_decision(of_study(chosen))
    average = recommending("noise-every")
    next(r for r in average["remedies"] if r["recommended"])["protects"] = "average record"
    text = render_decision(of_study(average))
    assert "a person picked by chance" in text
    assert "an unusual one may be much easier to find" in text


def test_the_cost_comes_from_the_study_or_from_the_user(released):
    text = render_decision(of_study(sample()))
    assert "95.29\N{NO-BREAK SPACE}%" in text
    assert "for its owner only" in text
    assert "explains about" in render_decision(of_study(regression()))
    told = of_study(sample(), about=About(cost="Two beds."))
    assert "Two beds." in render_decision(told)
    # A certificate does not cover it, and a list of numbers is not the rehearsed release.
    for case in (
        of_release(released, "model.json"),
        Case.of(sample(), release=released / "mean.safetensors"),
    ):
        assert "Nobody has measured it" in render_decision(case)


def test_a_file_without_a_certificate_needs_a_remedy_without_one(tmp_path):
    path = tmp_path / "coarse.csv"
    path.write_text("a\n1\n")
    case, digest = (
        Case.of(recommending("coarser"), release=path),
        hashlib.sha256(b"a\n1\n").hexdigest(),
    )
    text = render_decision(case)
    assert digest in text
    assert "is the one that the study speaks of" in text
    # The settings of a noisy model are not published with a coarser table.
    assert digest in str(case.statements())
    assert digest not in model_card(case.published, case.statements(public=True))
    with pytest.raises(InputError, match="release must come with its certificate"):
        Case.of(sample(), release=path)


def test_persons_are_not_called_rows(released):
    """400 persons with two rows each: their number of rows must not appear."""
    case = of_release(released, "persons.json")
    card = model_card(case.published, case.statements(public=True))
    assert "persons: 400" in card
    texts = (card, render_decision(case), dpia_annex(case), checklist(case))
    assert not [text for text in texts if re.search(r"(?i)400 rows|rows:? \|? ?400", text)]
    assert "how many people there are" in texts[1]
    assert "knows all rows of all other people" in texts[1]
    page = render_decision(Case.of(sample(), release=released / "persons.json"))
    assert "and the study is about" not in page


def test_user_facts_fill_the_pages(released, tmp_path):
    (template,) = re.findall(r"(?s)```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"))
    path = tmp_path / "about.yaml"
    path.write_text(template, encoding="utf-8")
    stated = yaml.safe_load(template)
    # The page's example has every key that there is.
    assert list(stated) == [field.name for field in fields(About)]
    case = of_release(released, "model.json", path)
    page, annex = render_decision(case), dpia_annex(case)
    for key in ("purpose", "recipients", "cost", "limit_chosen_by", "limit_reason"):
        assert stated[key] in page, key
    assert "2027-11-01" in page
    for key in ("purpose", "data_subjects", "recipients", "legal_basis", "residual_risk"):
        assert stated[key].replace("@", "&#64;") in annex, key
    assert "a model that predicts “length of the stay”" in page
    assert "a model that predicts ____" in render_decision(of_release(released, "model.json"))
    empty = dpia_annex(of_release(released, "model.json"))
    assert empty.count("[to fill in") == annex.count("[to fill in") + 11
    for words in ("Article 35(7) GDPR", "Residual risk", "Controller", "Data subjects"):
        assert words in empty
    for wrong in ("purpose: [1]", "paper: A3", "- purpose", "motive: x"):
        path.write_text(wrong)
        with pytest.raises(InputError, match="about"):
            About.read(path)


def test_the_weighing_is_not_published():
    said = {field.name: f"said about {field.name}" for field in fields(About)}
    about = About(**(said | {"authors": ("said about authors",), "paper": "A4"}))
    case = of_study(sample(), about=about)
    public = model_card(case.published, case.statements(public=True))
    private = ("cost", "residual_risk", "necessity", "legal_basis", "limit_chosen_by", "recipients")
    assert said["purpose"] in public
    assert not [name for name in private if said[name] in public]
    assert all(said[name] in str(case.statements()) for name in private)


def test_hostile_names_stay_text():
    case = of_study(hostile())
    for text in (render_decision(case), dpia_annex(case), checklist(case)):
        assert "<img src=x" not in text
        assert "<script>" not in text


# On paper.

#: Width and height of what is printed on, in pixels of CSS: the paper without its margins.
PAPERS = {"A4": (210 - 34, 297 - 29), "Letter": (215.9 - 34, 279.4 - 29)}


@pytest.mark.browser
@pytest.mark.parametrize("paper", PAPERS)
def test_two_pages_of_either_paper_are_filled_and_nothing_is_cut(
    released, tmp_path, monkeypatch, open_page, paper
):
    monkeypatch.setenv("CHROME_BIN", str(chromium_path()))
    about = tmp_path / "about.yaml"
    line = "Words that somebody weighed, and wrote down for those who sign. "
    keys = ("purpose", "recipients", "limit_chosen_by", "cost", "review_on")
    stated = {"paper": paper, "limit_reason": 6 * line} | dict.fromkeys(keys, 3 * line)
    about.write_text(yaml.safe_dump(stated))
    target = tmp_path / "decision.pdf"
    for source, release in (
        (released / "model.json.certificate.json", None),
        (sample(), None),
        (sample(), released / "model.json"),
        (partial(), None),
    ):
        options = {"release": release, "about": about, "out": target, "force": True}
        done = export(source, format="decision", **options)
        printed = target.read_bytes()
        assert done.to_dict()["pages"] == 2
        assert len(printed) < 500_000
        size = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed)
        assert abs(float(size.group(1)) - (595.3 if paper == "A4" else 612)) < 1
    about.write_text(yaml.safe_dump(stated | {"limit_reason": 60 * line.strip()}))
    with pytest.raises(InputError, match="about must be short enough for two pages, got 3780"):
        export(source, format="decision", **options)
    assert target.read_bytes() == printed
    about.write_text(f"paper: {paper}\nlimit_reason: {'Because it is so. ' * 12}\n")
    width, height = (round(side / 25.4 * 96) for side in PAPERS[paper])
    path = tmp_path / "page.html"
    path.write_text(render_decision(of_release(released, "model.json", about)), encoding="utf-8")
    page = open_page(path.as_uri(), width=width)
    assert violations(page) == []
    page.emulate_media(media="print")
    heights = page.evaluate("[...document.querySelectorAll('.sheet')].map(s => s.offsetHeight)")
    assert len(heights) == 2
    assert all(2 / 3 < tall / height < 1 for tall in heights), (heights, height)
    spilling = "[...document.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > "
    assert page.evaluate(f"{spilling}{width} + 0.5).map(e => e.outerHTML.slice(0, 80))") == []
