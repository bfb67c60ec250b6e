"""The verb ``audit-text``: which documents does a fine-tuned language model leak?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from memberbound.answers import OmitEmpty, Upper
from memberbound.attacks.checks import LawTest
from memberbound.attacks.model_audit import audit_score_table, with_records
from memberbound.attacks.one_run import audit_one_run, check_claim
from memberbound.attacks.scores import Scores
from memberbound.attacks.signals import BoolArray
from memberbound.attacks.texts import (
    LEARNED,
    TEXT_ATTACKS,
    TokenScores,
    blind_test,
    coins,
    index_documents,
    learned_score,
    read_documents,
    score_tokens,
)
from memberbound.declarations import (
    Column,
    ExcelSafe,
    Force,
    InputFile,
    Names,
    Option,
    OutputFile,
    Rates,
    RecordsFile,
)
from memberbound.errors import InputError, fraction, whole_number
from memberbound.files import check_output, write_atomically
from memberbound.learners.adapters import WEIGHTS_FILE, is_adapter, merge_adapter
from memberbound.limits import Part, Success
from memberbound.quantities import significant
from memberbound.release.saving import certificate_path, check_certificate
from memberbound.scratch import PrivateFolder
from memberbound.tables.frame_files import check_excel_safe, excel_safe_table, write_table
from memberbound.tables.opening import use_table
from memberbound.verbs.audit_answer import (
    RATES,
    RecordsAnswer,
    check_rates,
    records_answer_fields,
    records_file,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_ASSUMPTIONS = (
    "The numbers are about this model and its own documents, not about other models.",
    "A record is a document. The members are the documents of the fine-tuning, or a uniform part "
    "of them; the non-members are independent draws from the same source that had no part in it. "
    "Documents that were held back at random are such draws; documents of another time or place "
    "are not, and nothing can be shown with them about pre-training.",
    "The learned attack is trained on the membership of a random half of the documents and "
    "measured on the others.",
    "Each interval of an attack holds with the stated confidence on its own; best_advantage holds "
    "for all attacks at once.",
)
#: Attacks for the list of documents and for groups, strongest first; fixed in advance.
_FOR_RECORDS = ("ratio", "min-k++", "loss")
_NO_TEXTS = (
    "without the texts, differences in wording between the two collections cannot be detected"
)
_NO_BASE = (
    "without the base model the strongest attacks (ratio, error-zone, window) are missing: the "
    "audit is weaker than a real attacker"
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TextAudit(RecordsAnswer):
    """Attack results on one language model; ``blind`` is a test that uses the texts alone."""

    VERB: ClassVar = "audit-text"
    ATTACKED: ClassVar = " on this language model"
    CAUTION: ClassVar = "This is no guarantee: other attacks may achieve more."

    theorems: tuple[str, ...] = ("X28",)
    #: A classifier of the texts that never saw the model; None without texts.
    blind: LawTest | None
    #: Reasons why scores could not be computed, by name.
    not_run: dict[str, str]
    documents: int
    tokens: int
    #: μ in the certificate of the adapters (neighbour game).
    certified_mu_upper: OmitEmpty[Upper | None] = None

    @property
    def refuted_claim(self) -> str | None:
        """The claim that the canaries refute: an ε, or the certificate of the adapters."""
        if self.one_run is None or self.certified_mu_upper is None:
            return super().refuted_claim
        if self.one_run.mu_lower <= self.certified_mu_upper:
            return super().refuted_claim
        return f"{self.one_run.sentence} The certificate says μ ≤ {self.certified_mu_upper!r}."

    @property
    def law(self) -> LawTest | None:
        """Test of whether the texts alone distinguish the two collections."""
        return self.blind

    @property
    def caution(self) -> str:
        """The caveat, or the reason why nothing can be concluded."""
        if self.comparable:
            return self.CAUTION
        return (
            "The two collections differ: a classifier that never saw the model tells their texts "
            "apart. This is not evidence of a leak. Use non-members that were held out at random."
        )

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the success rate to check against a limit; none if the collections differ."""
        if self.comparable:
            return super().successes(on)
        what = "best attack tried, on collections that differ without the model"
        return (Success(what, measured=False),)

    def findings(self) -> Iterator[str]:
        """Yield the scores that were not computed, and the result of the blind baseline."""
        if self.certified_mu_upper is not None:
            most = significant(self.certified_mu_upper, "upper", 3)
            yield (
                f"certificate of these adapters: μ at most {most} for every document of its "
                "training; canaries inserted by coin flips give a floor in the same game"
            )
        for name, reason in self.not_run.items():
            yield f"not run: {name} ({reason})"
        if self.blind is not None and self.comparable:
            yield (
                "blind baseline: a classifier of the texts alone does not tell the collections "
                f"apart (p = {significant(self.blind.p_value, 'upper', 2)}); a small difference "
                "may go unnoticed"
            )


def audit_text(
    *,
    tokens: InputFile | None = None,
    texts: InputFile | None = None,
    lm: Annotated[object, Option("text", metavar="DIR", web=False)] | None = None,
    base: Annotated[object, Option("text", metavar="DIR", web=False)] | None = None,
    members: InputFile | None = None,
    nonmembers: InputFile | None = None,
    canaries: InputFile | None = None,
    claimed_epsilon: float | None = None,
    delta: float | None = None,
    text: Column = "text",
    by: Column | None = None,
    attacks: Names | None = None,
    confidence: float = 0.95,
    fpr: Rates | None = None,
    keep_tokens: OutputFile | None = None,
    records: RecordsFile | None = None,
    force: Force = False,
    excel_safe: ExcelSafe = False,
    seed: int = 0,
    progress: Annotated[Callable[..., None], Option("progress", metavar="scoring tokens")]
    | None = None,
) -> TextAudit:
    """Measure which documents a fine-tuned language model leaks, with confidence intervals.

    Pass the model as a folder (``lm``, ideally with the ``base`` it was fine-tuned from, and files
    of ``members`` and ``nonmembers``), or as a table of its ``tokens``: one row per token with
    ``record``, ``member``, ``position``, ``logprob`` and, if known, ``reference_logprob``,
    ``mean_logprob``, ``std_logprob``, ``rank``.  A classifier of the texts alone serves as a blind
    baseline.  ``canaries``, included in the fine-tuning by fair coin flips, also give lower bounds
    on its ε and μ.

    Guarantee: each ``lower`` and ``upper`` holds with ``confidence`` for its own attack.  Nothing
    here bounds other attacks from above.  The lower bounds from ``canaries`` hold with
    ``confidence`` for every training procedure with that ε at that δ.
    Theorem: proofs/audit-intervals.md (claims 6 and 7 for canaries); X28.
    Assumes: the answer's ``assumptions``.
    Edge cases: if the texts alone distinguish the two collections, no leak is measured and no limit
    fails; scores that need missing columns are listed.

    Args:
        tokens: table of token log-probabilities (CSV, Parquet, Arrow).
        texts: table or JSON Lines with ``record`` and the text of every document in ``tokens``.
        lm: folder of the fine-tuned model, or of adapters to ``base`` (safetensors; nothing is
            downloaded, no code is run).
        base: folder of the model that it was fine-tuned from.
        members: documents that it was fine-tuned on: JSON Lines, a table, or text with one document
            per line.
        nonmembers: documents from the same source, held out from the fine-tuning.
        canaries: documents that were included in the fine-tuning by independent fair coin flips,
            with the outcome as ``member`` (1 or 0): replaces members and nonmembers with ``lm``,
            and ``texts`` with ``tokens``.
        claimed_epsilon: the ε that the fine-tuning claims per document, compared with the lower
            bound from ``canaries``; the command exits with code 3 if the lower bound exceeds it.
        delta: the δ of that ε (default: 1e-5).
        text: column of the documents.
        by: a column of subgroups of the documents, to report separately.
        attacks: scores to use (default: all that can be computed).
        confidence: of each interval.
        keep_tokens: write the token table to this Parquet file, for later use with ``tokens``.
        records: write each document's scores to this CSV file.
        force: overwrite ``keep_tokens`` and ``records``.
        seed: for random halves.

    Command line:
        memberbound audit-text --lm tuned --base base --members in.jsonl --nonmembers out.jsonl
        memberbound audit-text --tokens tokens.parquet --texts texts.jsonl --fail-above 0.6
        memberbound audit-text --lm tuned --base base --canaries coins.jsonl --claimed-epsilon 8

    Examples:
        >>> import numpy, pandas
        >>> rng = numpy.random.default_rng(0)
        >>> doc = numpy.repeat(numpy.arange(400), 30)
        >>> frame = pandas.DataFrame({"record": doc, "member": doc % 2})
        >>> frame["position"] = numpy.tile(numpy.arange(30), 400)
        >>> frame["logprob"] = -rng.exponential(2 - 0.5 * frame["member"])
        >>> audit_text(tokens=frame).attacks["loss"]["auc"]["lower"] > 0.7
        True
    """
    import pandas as pd

    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    start = whole_number("seed", seed, at_least=0)
    rates = check_rates(RATES if fpr is None else fpr)
    chosen = _check_attacks(attacks)
    if (tokens is None) == (lm is None):
        raise InputError("audit-text needs either tokens, or lm with members and nonmembers.")
    check_claim("canaries", canaries, claimed_epsilon, delta)
    check_excel_safe(records, excel_safe=excel_safe, name="records")
    listed = records_file(records, None, force=force)
    token_file = None
    if keep_tokens is not None:
        token_file = check_output(
            Path(keep_tokens), name="keep_tokens", formats=(".parquet",), force=force
        )
    sources = {"texts": texts, "members": members, "nonmembers": nonmembers, "canaries": canaries}
    sources = {name: source for name, source in sources.items() if source is not None}
    documents: DataFrame | None
    if lm is not None:
        documents, member = _documents_of_model(sources, text)
        scores = _score_with_model(
            lm, base, documents[text], member, token_file=token_file, force=force, progress=progress
        )
    else:
        idle = {**sources, "base": base, "keep_tokens": token_file}
        for name, value in idle.items():
            if value is not None and name not in ("texts", "canaries"):
                raise InputError(f"{name} belongs to lm; with tokens it must be left out.")
        documents = _documents_of_tokens(sources, text)
        with use_table(tokens) as table:
            scores = score_tokens(table, None if documents is None else dict(documents[text]))
    answer = _audit_documents(
        scores, documents, text, attacks=chosen, by=by, confidence=sure, fpr=rates, seed=start
    )
    if canaries is not None and documents is not None and answer.records is not None:
        pair = _coins_and_scores(scores, documents, answer.records.attack)
        floors = audit_one_run(pair, delta=delta, confidence=sure, claimed_epsilon=claimed_epsilon)
        answer = replace(answer, one_run=floors)
    if lm is not None and is_adapter(str(lm)):
        answer = replace(answer, certified_mu_upper=_certified_mu(Path(str(lm))))
    if lm is not None and base is None:
        answer = replace(answer, warnings=(*answer.warnings, _NO_BASE))
    if listed is None:
        return answer
    columns = {"record": scores.records, "member": scores.member.astype(int)}
    columns |= {"tokens": scores.tokens, **scores.scores}
    frame = pd.DataFrame(columns)
    write_table(excel_safe_table(frame) if excel_safe else frame, listed, force=force, private=True)
    return replace(answer, records_out=str(listed))


def _check_attacks(attacks: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if attacks is None:
        return None
    names = (attacks,) if isinstance(attacks, str) else tuple(attacks)
    known = (*TEXT_ATTACKS, LEARNED)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InputError(f"attacks must be among {', '.join(known)}, got {unknown or 'none'}.")
    return names


def _documents_of_model(sources: Mapping[str, object], text: str) -> tuple[DataFrame, BoolArray]:
    """Return the documents to score with a model, and which of them are members."""
    import pandas as pd

    if sources.keys() not in ({"canaries"}, {"members", "nonmembers"}):
        raise InputError(
            "lm needs members and nonmembers, or canaries, which contain the texts, and no texts."
        )
    first, *rest = (read_documents(source, text, name) for name, source in sources.items())
    both = pd.concat([first, *rest], join="inner", ignore_index=True)
    both = both.set_axis(both.index.map(str))
    return both, np.arange(len(both)) < len(first) if rest else coins(both)


def _documents_of_tokens(sources: Mapping[str, object], text: str) -> DataFrame | None:
    """Return the documents of a token table, indexed by record."""
    if len(sources) == 2:
        raise InputError("texts must be left out with canaries, which contain the texts.")
    for name, source in sources.items():
        return index_documents(read_documents(source, text, name), name)
    return None


def _coins_and_scores(scores: TokenScores, canaries: DataFrame, attack: str) -> Scores:
    """Return the scores of canaries; reject tokens that contradict the coins."""
    coin = dict(zip(canaries.index, coins(canaries), strict=True))
    for record, member in zip(scores.records, scores.member, strict=True):
        if coin.pop(str(record)) != member:
            raise InputError(f"member must agree with canaries, got another value for {record!r}.")
    # Dropping canaries after the run would bias the coin flips of the remaining ones.
    if coin:
        raise InputError(f"tokens must contain every canary, got no token of {next(iter(coin))!r}.")
    return Scores.of(scores.scores[attack], scores.member)


def _score_with_model(
    lm: object,
    base: object,
    documents: Series,
    member: BoolArray,
    *,
    token_file: Path | None,
    force: bool,
    progress: Callable[..., None] | None,
) -> TokenScores:
    """Write the token table (to a private temporary folder unless kept) and score it."""
    import pyarrow.parquet as pq

    from memberbound.learners.language_models import check_folder, load_language_model, token_table

    if base is not None:
        check_folder(str(base), "base")
    if is_adapter(str(lm)):
        if base is None:
            raise InputError("base must be given with adapters: the model they were trained from.")
        tuned = load_language_model(str(base), "base")
        merge_adapter(tuned[0], str(lm), "lm")
    else:
        tuned = load_language_model(str(lm), "lm")
    reference = None if base is None else load_language_model(str(base), "base")

    def write(path: Path) -> None:
        batches = token_table(tuned, reference, list(documents), member.tolist(), progress)
        first = next(batches)
        with pq.ParquetWriter(path, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)

    with PrivateFolder() as folder:
        path = folder / "tokens.parquet" if token_file is None else token_file
        write_atomically(path, write, force, private=True)
        with use_table(path) as table:
            return score_tokens(table, dict(documents))


def _certified_mu(folder: Path) -> float | None:
    """Return μ from the certificate of adapters, or None for adapters of other programs."""
    weights = folder / WEIGHTS_FILE
    if not certificate_path(weights).is_file():
        return None
    curve = check_certificate(weights).get("curve")
    mu = curve.get("mu_upper") if isinstance(curve, dict) else None
    return float(mu) if isinstance(mu, (int, float)) else None


def _audit_documents(
    scores: TokenScores,
    documents: DataFrame | None,
    text: str,
    *,
    attacks: tuple[str, ...] | None,
    by: str | None,
    confidence: float,
    fpr: tuple[float, ...],
    seed: int,
) -> TextAudit:
    """Measure the attacks on documents and groups, and the blind baseline on the texts."""
    not_run = scores.not_run
    absent = [name for name in attacks or () if name in not_run]
    if absent:
        raise InputError(f"{absent[0]} cannot be computed: it {not_run[absent[0]]}.")
    if by is not None and (documents is None or by not in documents):
        raise InputError(f"by must be a column of the documents, got {by!r}.")
    member, records = scores.member, [str(record) for record in scores.records]
    everywhere = np.ones(len(member), dtype=np.bool_)
    table = {
        name: (score, everywhere)
        for name, score in scores.scores.items()
        if attacks is None or name in attacks
    }
    if LEARNED not in not_run and (attacks is None or LEARNED in attacks):
        table[LEARNED] = learned_score(scores, seed)
    audit = audit_score_table(table, member, confidence=confidence, fpr=fpr, seed=seed)
    blind, groups = None, None
    if documents is None:
        audit = replace(audit, warnings=(*audit.warnings, _NO_TEXTS))
    else:
        ordered = documents.loc[records]
        blind = blind_test(list(ordered[text]), member, confidence=confidence, seed=seed)
        groups = None if by is None else list(ordered[by])
    audit = replace(audit, law=blind)
    audit = with_records(audit, records, groups, by, attacks=_FOR_RECORDS, seed=seed)
    return TextAudit(
        **records_answer_fields(audit),
        assumptions=_ASSUMPTIONS,
        blind=blind,
        not_run=not_run,
        documents=len(records),
        tokens=int(scores.tokens.sum()),
    )
