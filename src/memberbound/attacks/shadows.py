"""Shadow models trained on random halves, and reference models trained on known records.

Finished fits are cached, so an interrupted run can resume.
"""

from __future__ import annotations

import copy
import os
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from memberbound.attacks.evidence import Evidence, to_frame
from memberbound.attacks.signals import BoolArray, Signals, signals_of
from memberbound.declarations import Progress
from memberbound.errors import InputError, whole_number
from memberbound.games import SubsetGame
from memberbound.learners.examples import Examples, encode_rows, read_examples
from memberbound.learners.learner import Learner
from memberbound.learners.names import learner_from_name
from memberbound.learners.refits import Cluster, FitStore, fingerprint, refits
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import significant

# ── Models on random halves of the population, for audits in the subset game ──────────────────────
#
# Model i is trained on its own uniform half, drawn independently of all others from (seed, i)
# alone.  So any model can serve as the target with the others as shadows, adding models keeps the
# existing ones, and an interrupted run resumes with the missing fits.

#: The smallest population; half of a smaller one is useless to a learner or an audit.
SMALLEST_POPULATION = 20
#: Minimum number of models, within a time limit, for an audit.
FEWEST_IN_TIME = 4
#: Entropy word of the random stream that samples the attacked records.
_SAMPLED = 1
#: Seed parameters of learners; they must differ between models.
_SEEDS = ("random_state", "seed", "random_seed")


@dataclass(frozen=True)
class FailedFit:
    """A failed fit: the model's number, the learner's seed and the error message."""

    model: int
    seed: int
    message: str


@dataclass(frozen=True, eq=False)
class ShadowRun:
    """Trained models, represented by their signals on every record, with one row per model.

    Attributes:
        membership: (S, M) booleans, whether record x is in model i's half.
        signals: outputs of the models, row by row.
        models: the model number of each row, without failed fits.
        failures: failed fits with their reasons.
        examples: the M attacked records.
        reused: the number of rows from the cache.
        warnings: caveats for readers of the audit.
        sample: the attacked rows of the population; None if all are attacked.
        population: the number N of records; each model is trained on half of them.
        known: for reference models, a mask of the records with known membership.
    """

    membership: BoolArray
    signals: Signals
    models: tuple[int, ...]
    failures: tuple[FailedFit, ...]
    examples: Examples
    reused: int = 0
    warnings: tuple[str, ...] = ()
    sample: NDArray[np.intp] | None = None
    population: int | None = None
    known: BoolArray | None = None

    @property
    def game(self) -> SubsetGame:
        """The subset game of these models, for a uniform attacked record."""
        rows = self.examples.rows if self.population is None else self.population
        return SubsetGame(population=rows, size=rows // 2, record="average")


class KnownRows(NamedTuple):
    """Training sets other than halves: all of ``always``, and ``drawn`` rows out of ``among``."""

    always: BoolArray
    among: BoolArray
    drawn: int


def draw_half(
    rows: int, seed: int, model: int, known: KnownRows | None = None
) -> tuple[BoolArray, int]:
    """Sample the half of model ``model`` and a learner seed, from (seed, model) alone.

    With ``known``, return a training set of these rows instead, to attack the other rows.

    Examples:
        >>> half, _ = draw_half(10, seed=0, model=3)
        >>> int(half.sum())
        5
    """
    rng = np.random.default_rng([seed, model])
    member = np.zeros(rows, dtype=np.bool_)
    if known is None:
        member[rng.permutation(rows)[: rows // 2]] = True
    else:
        member[rng.permutation(np.flatnonzero(known.among))[: known.drawn]] = True
        member |= known.always
    return member, int(rng.integers(2**31 - 1))


def sample_attacked_records(rows: int, most: int | None, seed: int) -> NDArray[np.intp] | None:
    """Sample the attacked records uniformly; return ``None`` if all are attacked.

    The sample is independent of the halves, so each half is uniform given the sample.

    Examples:
        >>> sample_attacked_records(10, 20, seed=0) is None
        True
        >>> sample_attacked_records(10, 4, seed=0).size
        4
    """
    if most is None or rows <= most:
        return None
    # A half uses two entropy words and this stream three, so they never coincide.
    draws = np.random.default_rng([seed, most, _SAMPLED])
    return np.sort(draws.permutation(rows)[:most])


def train_shadows(
    examples: Examples,
    learner: Learner,
    *,
    models: int = 64,
    seed: int = 0,
    n_jobs: int | None = -1,
    cluster: Cluster | None = None,
    cache: str | os.PathLike[str] | None = None,
    records: int | None = None,
    known: KnownRows | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> ShadowRun:
    """Train ``models`` copies of a learner on independent uniform halves of the population.

    Args:
        examples: the population.
        learner: an unfitted estimator; it is cloned, and every parameter called ``random_state``,
            ``seed`` or ``random_seed`` is set anew.  A generator stored inside it is copied
            unchanged: all models would then share their randomness, which invalidates the intervals
            of an audit.
        models: number of models.
        seed: seed of halves and learners.
        n_jobs: processes, as in joblib; None uses all cores unless the fits are very short.
        cluster: dask cluster that trains the models unless ``n_jobs`` is 1.
        cache: folder to which each fit is written as soon as it finishes; none by default.
        records: maximum number of attacked records, a uniform sample of a larger population; the
            models still train on halves of the whole population.  Default: all records.
        known: the training rows, if they are not halves (see :func:`draw_half`).
        seconds: CPU seconds for all fits (without ``cache``): fewer models are trained if the
            first ones are too costly for ``models``.
        progress: called with (done, total).

    Edge cases: a fit that raises or predicts NaN is listed in ``failures`` and left out; if more
    than half fail, the run is rejected.  A population of fewer than 20 records is rejected.

    Examples:
        >>> import numpy as np
        >>> from memberbound.learners.examples import Examples
        >>> from memberbound.learners.names import learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(40, 2))
        >>> y = (x[:, 0] > 0).astype(int)
        >>> examples = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(examples, learner_from_name("tree"), models=4, n_jobs=1)
        >>> run.membership.sum(axis=1).tolist()
        [20, 20, 20, 20]
    """
    total = whole_number("models", models, at_least=2)
    whole_number("seed", seed, at_least=0)
    if n_jobs not in (-1, None):
        whole_number("workers", n_jobs, remedy="-1 is all cores.")
    if examples.rows < SMALLEST_POPULATION:
        raise InputError(
            f"the population must hold at least {SMALLEST_POPULATION} records to be halved, got "
            f"{examples.rows!r}."
        )
    if records is not None:
        whole_number("records", records, at_least=SMALLEST_POPULATION)
    sample = sample_attacked_records(examples.rows, records, seed)
    attacked = examples if sample is None else examples.take(sample)
    # A fit needs only the numbers; keep the encoder out of every pickled task.
    numbers, attacked_numbers = (replace(some, encoder=None) for some in (examples, attacked))
    work = _Training(numbers, learner, seed, attacked_numbers, known)
    # Failed fits are not cached, so they are retried.
    store = None if cache is None else FitStore.at(cache, work.fingerprint(), Signals)
    fits: dict[int, Signals | FailedFit] = {}
    if seconds is not None:
        assert store is None
        fits, total = _fit_within(work, total, seconds)
    first = len(fits)
    running = refits(
        work, range(first, total), workers=n_jobs, cluster=cluster, store=store, progress=progress
    )
    fits |= {first + index: fit for index, fit in running}
    trained = {model: fit for model, fit in sorted(fits.items()) if isinstance(fit, Signals)}
    failures = tuple(fit for _, fit in sorted(fits.items()) if isinstance(fit, FailedFit))
    if 2 * len(failures) > len(fits) or len(trained) < 2:
        raise InputError(
            f"learner must be able to train on random halves, got {len(failures)} failures in "
            f"{len(fits)} fits; the first one failed with: {failures[0].message}"
        )
    signals = Signals.stack(list(trained.values()))
    membership = np.vstack([work.half(model)[0] for model in trained])
    reused, damaged = (0, 0) if store is None else (store.reused, store.damaged)
    notes = {
        f"{len(failures)} of {len(fits)} fits failed and were left out; the audit is about the "
        "halves on which the learner succeeds.": failures,
        "The learner has no predict_proba; its decision values were squashed to "
        "probabilities.": signals.kind == "decision values",
        "The learner gives labels only; attacks see whether they are right.": signals.kind
        == "labels",
        f"The attacked records are a uniform sample of {attacked.rows} of the {examples.rows}; "
        "every model was trained on a half of all.": sample is not None,
        f"Damaged fits in the cache were computed again: {damaged} of {total}.": damaged,
    }
    return ShadowRun(
        membership if sample is None else membership[:, sample],
        signals,
        tuple(trained),
        failures,
        attacked,
        reused,
        tuple(note for note, applies in notes.items() if applies),
        sample,
        examples.rows,
    )


def _fit_within(
    work: _Training, most: int, seconds: float
) -> tuple[dict[int, Signals | FailedFit], int]:
    """Fit the first models here; return them and how many models the CPU time allows.

    CPU time hardly depends on other processes, and the number is a power of two or ``most``, so
    that a slightly different time gives the same result.
    """
    fits: dict[int, Signals | FailedFit] = {}
    costs: list[float] = []
    for model in range(min(FEWEST_IN_TIME, most)):
        began = time.process_time()
        fits[model] = work(model)
        costs.append(time.process_time() - began)
        if sum(costs) > seconds and len(fits) < min(FEWEST_IN_TIME, most):
            raise InputError(
                f"seconds must be enough for {FEWEST_IN_TIME} models: {len(fits)} took "
                f"{significant(sum(costs), 'given')} CPU seconds."
            )
    cheapest = min(costs)  # the first fit also imports modules
    if most * cheapest <= seconds:
        return fits, most
    allowed = len(fits)
    while 2 * allowed * cheapest <= seconds:
        allowed *= 2
    return fits, min(allowed, most)


@dataclass(frozen=True, eq=False)
class _Training:
    """A task for the workers: each call fits one model."""

    examples: Examples
    learner: Learner
    seed: int
    attacked: Examples
    known: KnownRows | None = None

    def half(self, model: int) -> tuple[BoolArray, int]:
        return draw_half(self.examples.rows, self.seed, model, self.known)

    def fingerprint(self) -> str:
        """Return a hash of data, learner, seeds, and the code of halves and signals."""
        population, settings = self.examples, (self.seed, self.known)
        numbers = (population.features, population.target, self.attacked.rows, population.task)
        return fingerprint(numbers, self.learner, settings, draw_half, signals_of)

    def __call__(self, model: int) -> Signals | FailedFit:
        member, learner_seed = self.half(model)
        try:
            fitted = _clone_with_seed(self.learner, learner_seed)
            fitted.fit(self.examples.features[member], self.examples.target[member])
            return signals_of(fitted, self.attacked)
        except MemoryError:  # otherwise the missing models would depend on the machine
            raise
        except Exception as problem:  # A learner may raise anything; the audit continues.
            message = f"{type(problem).__name__}: {problem}".splitlines()[0]
            return FailedFit(model, learner_seed, message)


def _clone_with_seed(learner: Learner, seed: int) -> Learner:
    """Clone a learner and set all of its seeds, including those of nested estimators."""
    if not callable(getattr(learner, "get_params", None)):
        return copy.deepcopy(learner)
    return _with_parameters(clone(learner), _SEEDS, seed)


def _with_parameters(estimator: Any, names: tuple[str, ...], value: int) -> Learner:
    """Set all parameters with these names, including those of nested estimators."""
    parameters = estimator.get_params(deep=True)

    def applies(name: str) -> bool:
        part, _, own = name.rpartition("__")
        # scikit-learn's n_jobs=None already means one thread, and some learners warn if it is set.
        single = own in _THREADS and parameters[name] is None
        module = type(parameters.get(part, estimator)).__module__
        return own in names and not (single and module.startswith("sklearn."))

    own = [name for name in parameters if applies(name)]
    return cast(Learner, estimator.set_params(**dict.fromkeys(own, value)) if own else estimator)


# ── Reference models for a given model, trained on records that the attacker knows
# ─────────────────

#: Default number of reference models, time permitting.
MODELS = 32
#: Thread-count parameters of estimators.
_THREADS = ("n_jobs", "nthread", "num_threads", "thread_count")
#: Minimum number of members and of non-members, so that at least 20 of each remain to measure.
FEWEST_RECORDS = 80


def select_known_records(evidence: Evidence, seed: int, *, references: bool) -> BoolArray:
    """Select the records with membership known to attacks, independently of the row order.

    These are half of the members and half of the non-members.  Reference models train on the known
    members, so with them only a quarter of the smaller class, but at least 250 and at most half of
    the members, is measured.
    """
    member = evidence.member
    members, others = int(member.sum()), int((~member).sum())
    measured = members - members // 2
    if references:
        measured = min(members // 2, max(250, min(members, others) // 4))
    rng = evidence.generator(seed, "known part" if references else "known half")
    known = np.zeros(len(member), dtype=np.bool_)
    for side, size in ((member, members - measured), (~member, others // 2)):
        known[rng.permutation(np.flatnonzero(side))[:size]] = True
    return known


def train_references(
    evidence: Evidence,
    learner: str | Learner | None = None,
    *,
    models: int = MODELS,
    seconds: float | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> ShadowRun:
    """Train reference models like the given one, without the measured records.

    Each one is trained on all known members; a fresh sample of known non-members replaces the
    unknown members.  So if a measured record is not a member, the given model differs from the
    reference models as they differ from each other.  Known non-members are in some models and
    absent from others, so attacks can learn the gain of inclusion.

    The learner is None or ``"same"`` (the given model's own kind) or an unfitted estimator, both
    trained on the model's input rows; or a short name or ``package.module:factory``, trained on
    encoded columns.

    Theorem: proofs/given-models.md claims 1 and 4.
    Edge cases: fewer than 80 members or non-members are rejected, and so is a time limit that
    allows fewer than four models.
    """
    if evidence.rows is None:
        raise InputError("learner must be left out for a table of predictions: there are no rows.")
    member = evidence.member
    few = min(int(member.sum()), int((~member).sum()))
    if few < FEWEST_RECORDS:
        raise InputError(
            f"members and non-members must be at least {FEWEST_RECORDS} each for reference "
            f"models, got {few}."
        )
    known = select_known_records(evidence, seed, references=True)
    truth = np.asarray(evidence.truth)
    if isinstance(learner, str) and learner != "same":
        features = _encode_columns(evidence, known)
        estimator = learner_from_name(learner, evidence.task)
    else:
        assert evidence.model is not None
        own = learner is None or isinstance(learner, str)
        estimator = clone_given_model(evidence) if own else cast(Learner, learner)
        # A pipeline may need a data frame.
        features = cast(FloatArray, evidence.model.match_columns(evidence.rows))
        classes = getattr(evidence.model.model, "classes_", None)
        if evidence.classes and classes is not None:
            truth = np.asarray(classes)[truth]
    names = tuple(f"x{i}" for i in range(features.shape[1]))
    examples = Examples(features, truth, evidence.task, names, evidence.classes)
    # Use at most half of the known non-members, because attacks need both included and omitted
    # ones.
    drawn = min(int((member & ~known).sum()), int((known & ~member).sum()) // 2)
    run = train_shadows(
        examples,
        estimator,
        models=models,
        # Seed the training sets by the content too, so that the row order does not matter.
        seed=int(evidence.generator(seed, "reference models").integers(2**63)),
        n_jobs=workers,
        known=KnownRows(known & member, known & ~member, drawn),
        seconds=seconds,
        progress=progress,
    )
    return replace(run, known=known)


def clone_given_model(evidence: Evidence) -> Learner:
    """Return an unfitted clone of the given model; raise if it is not a clonable estimator."""
    model = None if evidence.model is None else evidence.model.model
    try:
        unfitted = clone(model)
    except (TypeError, RuntimeError):
        raise InputError(
            "learner must be named: 'same' retrains the given model's own kind, which only a "
            f"scikit-learn estimator allows, got {type(model).__name__}."
        ) from None
    # Many fits run in parallel; threads within each would only compete.
    return _with_parameters(unfitted, _THREADS, 1)


def _encode_columns(evidence: Evidence, known: BoolArray) -> FloatArray:
    """Encode the columns for learners, with an encoding fitted on the known records."""
    frame = to_frame(evidence.rows)
    label = "target"
    while label in frame.columns:
        label += "_"
    codes = np.asarray(evidence.truth)
    labelled = frame.assign(**{label: [str(c) for c in codes] if evidence.classes else codes})
    examples = read_examples(labelled[known].reset_index(drop=True), label, task=evidence.task)
    assert examples.encoder is not None
    rows, _ = encode_rows(examples.encoder, examples.columns, frame)
    return rows
