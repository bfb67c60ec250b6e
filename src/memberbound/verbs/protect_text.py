"""The verb ``protect-text``: fine-tune a language model so that no document can be recognised.

Losses are computed from the secret documents, on trial models of four fifths of them that are
discarded; notes and guesses on canaries are computed from the documents and the release.  All of
these are for the owner, are not stored, and are not covered by the certificate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from memberbound.answers import INTERNAL, CertifiedAnswer, EstimateOf, Given, OmitEmpty, computed
from memberbound.attacks.one_run import OneRun, audit_one_run
from memberbound.attacks.scores import Scores
from memberbound.certificate import Certificate
from memberbound.declarations import (
    Column,
    Eta,
    InputFile,
    InsecureSeed,
    LedgerFile,
    Names,
    Option,
    OutputFile,
)
from memberbound.errors import InputError, whole_number
from memberbound.learners.language_models import check_folder
from memberbound.leaves import load_leaf
from memberbound.quantities import decimals, marked, percent, significant
from memberbound.release.budget import Budget, CurveReadings
from memberbound.release.randomness import source_from_seed
from memberbound.release.release_step import ReleaseStep, Reserve
from memberbound.tables.texts import Documents, read_secret_documents

if TYPE_CHECKING:
    from memberbound.release.all_rows.text import PrivateText, TextRun

_OWN_EYES = (
    "losses, notes and guesses on canaries are computed from the secret documents (losses on trial "
    "models of four fifths of them, which are discarded): they are for you only, and the "
    "certificate does not cover them. Do not publish them with the model"
)
#: With fewer canaries, no floor above 0 is possible.
_FEWEST_CANARIES = 10
_OWNER_ONLY = ("loss_base", "loss_released", "loss_usual", "examples", "one_run", "warnings")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TextProtection(CertifiedAnswer):
    """Adapters of a language model that hide every document, with their certificate."""

    VERB: ClassVar = "protect-text"

    eta: Given
    documents: int
    #: Number of persons, if a column identifies them.
    persons: int | None
    sigma: Given
    sample_rate: Given
    steps: int
    rank: int
    length: int
    weights: int
    #: The classes of a classifier, public or named from noisy counts.
    classes: OmitEmpty[tuple[str, ...] | None] = None
    #: Mean loss per document on a fifth of the documents: of the base model, of a trial model with
    #: the same noise, and of one without noise.
    loss_base: EstimateOf | None
    loss_released: EstimateOf | None
    loss_usual: EstimateOf | None
    #: Texts that the released model writes, from a fixed seed.
    examples: OmitEmpty[tuple[str, ...]] = ()
    certificate: Certificate
    #: A floor measured on this training run, with ``canaries``.
    one_run: OmitEmpty[OneRun | None] = None
    out: str | None = None
    warnings: tuple[str, ...] = ()
    owner_only: tuple[str, ...] = _OWNER_ONLY
    #: A ``PrivateText``.
    released: Any = field(metadata=INTERNAL)

    @property
    def spent(self) -> Budget:
        """The budget spent on the release."""
        budget: Budget = self.released.budget
        return budget

    @computed
    def mu(self) -> Given | None:
        """The μ of the Gaussian trade-off that bounds the release; None with sampling."""
        return self.spent.normal_mu

    @computed
    def curve(self) -> CurveReadings:
        """Bounds read off the trade-off curve, for replacing a record."""
        return self.spent.readings()

    @property
    def protected(self) -> str:
        """The word for a record."""
        return "document" if self.persons is None else "person"

    @computed
    def sentence(self) -> str:
        """Two sentences to pass on with the model: the guarantee, and its limits."""
        most = percent(self.spent.success_upper(self.certificate.value), "upper")
        who = self.protected
        with_label = "" if self.classes is None else " with their labels"
        texts = f"all {self.documents} documents"
        if self.persons is not None:
            texts = f"all documents of {self.persons} persons (values of {self.spent.unit!r})"
        texts += with_label
        return (
            f"Nobody who knows every other {who}, the base model and the released adapters is "
            f"right about any {who}'s membership more than {most} of the time (guessing blindly: "
            f"50 %). They were trained on {texts}; facts that many {who}s share, and what the base "
            "model knew before, are not hidden."
        )

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return table rows about the release, its guarantee and its cost."""
        owner, replaced = " (owner only)", self.curve.replace_one
        count = ("documents", self.documents)
        if self.persons is not None:
            count = ("persons", self.persons)
        rows: list[tuple[str, object]] = [
            count,
            *([] if self.classes is None else [("classes", ", ".join(self.classes))]),
            ("trained weights", f"{self.weights} (rank {self.rank})"),
            ("steps", f"{self.steps}, sampling rate {significant(self.sample_rate, 'given')}"),
            ("noise multiplier σ", significant(self.sigma, "given", 4)),
            ("η certified", marked(self.certificate.value, "certificate", "eta", 6)),
            (
                "TPR - FPR",
                f"{marked(replaced.advantage_upper, 'certificate')} ({self.protected} replaced)",
            ),
        ]
        for rate, tpr in replaced.tpr_upper.items():
            at = f"TPR at FPR {percent(float(rate), 'given')}"
            rows.append((at, f"{marked(tpr, 'certificate')} ({self.protected} replaced)"))
        for what, loss in (
            ("base model", self.loss_base),
            ("with noise", self.loss_released),
            ("without noise", self.loss_usual),
        ):
            if loss is not None:
                rows.append((f"loss, {what}", f"≈ {decimals(loss, 'estimate', 4)}{owner}"))
        rows += [("it writes", f"{shorten(text, 72)}{owner}") for text in self.examples]
        if self.one_run is not None:
            found = f"{self.one_run.correct} of {self.one_run.guessed} guesses right"
            rows.append(("attack on canaries", f"{found}{owner}"))
            floor = significant(self.one_run.mu_lower, "lower", 3)
            most = significant(self.curve.mu_upper, "upper", 3)
            rows.append(("μ, floor and ceiling", f"{floor} (owner only), {most}"))
        if self.out is not None:
            rows.append(("written", self.out))
        return rows

    @property
    def refuted_claim(self) -> str | None:
        """The claim that the floor refutes, if any: the ceiling of this program."""
        if self.one_run is None or self.one_run.mu_lower <= self.curve.mu_upper:
            return None
        return self.one_run.sentence

    def summary_notes(self) -> list[str]:
        """Return the notes, which are for the owner."""
        return [f"note (owner only): {warning}." for warning in self.warnings]


def protect_text(
    *,
    lm: Annotated[object, Option("text", metavar="DIR", web=False)],
    texts: InputFile,
    text: Column = "text",
    unit: Column | None = None,
    label: Column | None = None,
    classes: Names | None = None,
    eta: Eta = 0.05,
    rank: int | None = None,
    length: int | None = None,
    steps: int | None = None,
    sample_rate: float | None = None,
    rate: float | None = None,
    canaries: int | None = None,
    trial: bool = True,
    ledger: LedgerFile | None = None,
    out: Annotated[OutputFile, Option("folder", metavar="DIR", web=False)] | None = None,
    resume: bool = False,
    insecure_seed: InsecureSeed | None = None,
    progress: Annotated[Callable[..., None], Option("progress")] | None = None,
) -> TextProtection:
    """Fine-tune a language model without revealing which documents it was trained on.

    Low-rank adapters (peft's format) are trained on all documents by DP-SGD: Poisson samples,
    clipped gradients of single documents, noise on a grid, and the exact replace-one curve.  With
    ``label`` the model becomes a classifier of documents, which ``predict`` applies.

    Guarantee: no attacker who knows all other documents and sees the adapters is right about any
    document's membership more than ``eta`` above blind guessing: for every document of any
    collection, without a confidence level; with ``unit`` for every person with all documents.
    Theorem: X31 (proofs/networks.md), with ``unit`` X26.
    Assumes: one release; the number of documents (with ``unit``: of persons), the base model, its
    tokenizer, listed classes and all settings are public.
    Edge cases: a value that is not a text becomes an empty document, which counts but has no
    influence; so does a document whose label is not among the classes; a document longer than
    ``length`` is cut.

    Args:
        lm: folder of the base model (safetensors; nothing is downloaded, no code is run).
        texts: documents: JSON Lines, a table, or text with one document per line.
        text: column of the documents.
        unit: column that identifies the person; all documents of a person are used, with the
            influence of one.
        label: column of labels: train a classifier with a head for its classes.
        classes: the classes, if they are public; otherwise noisy counts name those that many
            records have, for a share of the budget.
        rank: rank of the adapters (default: by the number of records and eta).
        length: number of tokens to use per document (default: 128, or the model's maximum).
        steps: number of noisy steps.
        sample_rate: probability that a step samples a record; 1 uses all records, which a ledger
            requires.
        rate: learning rate.
        canaries: number of made-up documents to insert by fair coin flips (otherwise an empty
            document is inserted); all count as records, and an attack on them gives a floor to
            compare with the ceiling.
        trial: also train on four fifths of the documents, with and without noise, to report the
            losses, and show texts that the model writes; this triples the time.
        out: folder for the adapters, the certificate and a model card; all may be published.
        resume: continue a stopped run with the same settings; nothing is charged again.

    Command line:
        memberbound protect-text --lm base --texts letters.jsonl --eta 0.05 --out safe
        memberbound protect-text --lm base --texts posts.csv --text body --unit author --out safe
        memberbound protect-text --lm base --texts mail.csv --label kind --classes spam,ham --out it
        memberbound protect-text --lm base --texts letters.jsonl --out safe --resume
    """
    # Check the request before the documents are read.
    target = None if out is None else _free_folder(out)
    step = ReleaseStep("protect-text", texts, eta, target, ledger, insecure_seed)
    folder = check_folder(str(lm), "lm")
    if canaries is not None:
        whole_number("canaries", canaries, at_least=_FEWEST_CANARIES)
    leaf, plans, files = map(load_leaf, ("text", "text plans", "text files"))
    files.check_run(target, resume=resume)
    base = plans.TextBase(folder, text, label, classes)
    if base.open_classes and canaries is not None:
        raise InputError("canaries must come with classes, as their labels are drawn from these.")
    documents = given = read_secret_documents(texts, text, unit=unit, label=label)
    drawn = None
    if canaries is not None:
        drawn = files.load_canaries(target, resume=resume)
        if drawn is None:
            source = source_from_seed(insecure_seed)
            drawn = leaf.draw_canaries(base.tokenizer, canaries, source, base.names or ())
        files.store_canaries(target, drawn, resume=resume)
        documents = drawn.insert(documents)
    training = base.training(
        documents.records,
        eta,
        whole=ledger is not None,
        length=length,
        rank=rank,
        steps=steps,
        sample_rate=sample_rate,
        rate=rate,
    )
    plan = plans.TextPlan(base, documents, training, eta, insecure_seed)
    settings = {
        "eta": eta,
        "texts": documents.name,
        "text": text,
        "unit": unit,
        "label": label,
        "classes": base.names,
        "documents": len(documents),
        "records": documents.records,
        "lm": base.fingerprint(),
        "training": asdict(training),
        "seed": insecure_seed,
    }
    stages = _stages(progress)
    stored = files.open_run(target, settings, resume=resume)
    stored.begin()

    def draw(reserve: Reserve) -> tuple[TextRun, PrivateText]:
        reserve(plan.budget)
        run, state = plan.start(stored)
        trained: PrivateText = run.train(state=state, keep=stored.keep, progress=stages("training"))
        return run, trained

    run, released = step.run(
        "adapters",
        draw,
        lambda made, place: files.write_release(made[1], place, folder.name),
        entry_id=stored.entry_id,
    )
    stored.remove()
    one_run = None
    if drawn is not None:
        one_run = audit_one_run(Scores.of(run.canary_scores(base.tokenizer, drawn), drawn.coins))
    # The rest is for the owner only.
    losses: tuple[float | None, ...] = (None, None, None)
    examples: tuple[str, ...] = ()
    if trial and label is None:
        examples = run.examples(base.tokenizer)
    if trial:
        losses = leaf.trial_losses(run, stages)
    return TextProtection(
        eta=eta,
        documents=len(documents),
        persons=None if unit is None else documents.records,
        sigma=run.budget.training.noise_multiplier,
        sample_rate=training.sample_rate,
        steps=training.steps,
        rank=training.rank,
        length=training.length,
        weights=run.adapted.size,
        classes=None if base.kinds is None else base.kinds.names,
        loss_base=losses[0],
        loss_released=losses[1],
        loss_usual=losses[2],
        examples=examples,
        certificate=released.certificate_,
        one_run=one_run,
        out=None if out is None else str(out),
        warnings=(*_notes(given, run.records.labels, insecure_seed), _OWN_EYES),
        released=released,
        # The number of documents per person is secret.
        owner_only=(*_OWNER_ONLY, *(() if unit is None else ("documents",))),
    )


def _free_folder(out: object) -> Path:
    path: Path = load_leaf("text files").check_folder_free(out)
    return path


def _stages(
    progress: Callable[..., None] | None,
) -> Callable[[str], Callable[[int, int], None] | None]:
    """Return a function that gives the progress callback of a stage."""

    def stage(name: str) -> Callable[[int, int], None] | None:
        if progress is None:
            return None
        return lambda done, total: progress(name, done, total)

    return stage


def _words(text: str) -> int:
    """Return a hash of the words of a text, without their order and numbers; 0 without words."""
    words = frozenset(re.findall(r"[^\W\d_]+", text.lower()))
    return hash(words) if words else 0


def _notes(documents: Documents, labels: Iterable[int] | None, seed: int | None) -> list[str]:
    """Count empty, repeated and unlabelled documents: for the owner only."""
    notes = []
    # Canaries come last.
    listed = [] if labels is None else list(labels)[: len(documents)]
    unlisted = sum(code < 0 for code in listed)
    if unlisted:
        notes.append(f"{unlisted} of {len(documents)} documents have no listed label")
    empty = sum(not text.strip() for text in documents.texts)
    if empty:
        notes.append(f"{empty} of {len(documents)} documents are empty: they have no influence")
    counts = Counter(key for text in documents.texts if (key := _words(text)))
    repeated = sum(count for count in counts.values() if count > 1)
    if repeated and documents.unit is None:
        notes.append(
            f"{repeated} documents have the same words as another one (order and numbers aside): "
            "they are different records, and their common content is not hidden. If one person "
            "wrote several, use --unit; otherwise leave out duplicates"
        )
    if documents.unit is not None and documents.records == len(documents):
        notes.append(f"every value of {documents.unit!r} has one document: unit changes nothing")
    if seed is not None:
        notes.append("noise comes from a seed: anyone who knows it knows the documents")
    return notes
