"""The verb ``explain``: translate DP parameters into bounds on membership inference."""

from __future__ import annotations

import math
from dataclasses import asdict, astuple, dataclass, fields, replace
from typing import Annotated

from memberbound.declarations import LedgerFile, Option, Rates
from memberbound.dp import (
    AdvantageTarget,
    DpGuarantee,
    DpSgd,
    DpSgdHistory,
    EtaTarget,
    SecurityTarget,
    Target,
    TprTarget,
    calibrated_epsilon,
    calibrated_noise_multiplier,
    dp_sgd_from_history,
    guarantee_from_dp_sgd,
    guarantee_from_epsilon_delta,
    guarantee_from_gdp,
)
from memberbound.errors import InputError, fraction, fractions, nonnegative, one_of, whole_number
from memberbound.games import ADJACENCIES, Adjacency, gamma_from_priors
from memberbound.quantities import significant
from memberbound.release.precision import IntervalTarget
from memberbound.release.precision import target_interval as interval_target
from memberbound.verbs.explanation import DEFAULT_FPR, LEDGER, Explanation, Parameters


@dataclass(frozen=True)
class _Stated:
    """The parameters of a guarantee, as given."""

    epsilon: float | None
    gdp: float | None
    noise_multiplier: float | None
    sample_rate: float | None
    steps: int | None
    history: object
    ledger: object

    def given(self, *names: str) -> list[str]:
        """Return which of these parameters (by default, of all) are given."""
        listed = names or [field.name for field in fields(self)]
        return [name for name in listed if getattr(self, name) is not None]


def explain(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    gdp: float | None = None,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    steps: int | None = None,
    history: Annotated[object, Option("file", metavar="FILE", web=False)] | None = None,
    ledger: LedgerFile | None = None,
    nu: float = 0.5,
    lam: float = 1.0,
    prior: float = 0.5,
    fpr: Rates | None = None,
    baseline: Rates | None = None,
    records: int | None = None,
    adjacency: Adjacency | None = None,
    target_advantage: float | None = None,
    target_tpr: float | None = None,
    target_eta: float | None = None,
    target_security: float | None = None,
    target_interval: Annotated[float, Option("number", metavar="WIDTH")] | None = None,
    n: int | None = None,
) -> Explanation:
    """Translate a DP guarantee into attack success, or find the parameters for a target.

    Pass exactly one of: ``epsilon`` (with ``delta``), ``gdp``, DP-SGD's ``noise_multiplier``,
    ``sample_rate`` and ``steps``, a ``history`` of such steps, or a ``ledger`` of releases.  For
    the inverse, pass one target instead: alone (or with ``delta``) it yields an ε; with
    ``sample_rate`` and ``steps``, a noise multiplier; ``target_interval`` with ``n`` yields a μ.

    Guarantee: every ``*_upper`` and every ``*_lower`` holds for all attacks.
    Theorem: A25-P5, A25-T6, I24-P2, I24-T4, X2, X11 (see ``memberbound theorems``).
    Assumes: the release satisfies the stated guarantee; unless ``adjacency`` is given, (ε, δ) and
    GDP refer to replace-one and DP-SGD to add-remove.
    Numerics: upper bounds are rounded up, lower bounds down.
    Edge cases: ε = 0 gives blind guessing; ε = 700 gives 1 without overflow.

    Args:
        epsilon: ε of (ε, δ)-DP.
        delta: δ of (ε, δ)-DP (default: 0 with epsilon, 1e-3 with a ledger, else 1e-5).
        gdp: μ of Gaussian DP.
        noise_multiplier: DP-SGD: noise divided by clipping norm.
        sample_rate: DP-SGD: Poisson sampling rate (batch size divided by data size).
        steps: DP-SGD: number of steps.
        history: DP-SGD: JSON file with a list of [noise multiplier, sample rate, steps]; in Python
            also that list, an Opacus accountant or ``PrivacyEngine``.
        ledger: ledger of releases: explain the joint guarantee of all releases that it allows.
        nu: MIS: probability that the tested record is not a member.
        lam: MIS: weight of a missed member.
        prior: share of candidates who are members, for the attack success.
        fpr: false-positive rate at which the TPR is bounded; may be repeated.
        records: bound the success on this many records together, such as a household, or deletions
            at once (default: 1).
        adjacency: how neighbouring data sets differ: ``replace-one`` (default for ε and μ) or
            ``add-remove`` (default for DP-SGD).
        target_advantage: find the parameters for at most this advantage (TPR - FPR).
        target_tpr: find the parameters for at most this TPR at the given FPR.
        target_eta: find the parameters for at most this η; 0.05 means right 55 % of the time.
        target_security: find the parameters for at least this MIS.
        target_interval: find the η at which a mean or share of ``n`` rows, of values in [0, 1], has
            a 95 % interval of this width.
        n: number of rows (with ``unit``: of persons) of that mean.

    Command line:
        memberbound explain --epsilon 8 --delta 1e-5
        memberbound explain --gdp 1 --fpr 0.01 --fpr 0.001 --plot roc.png
        memberbound explain --noise-multiplier 1 --sample-rate 0.01 --steps 1000
        memberbound explain --gdp 1 --baseline 0.1
        memberbound explain --history history.json --adjacency replace-one
        memberbound explain --ledger ledger.json
        memberbound explain --gdp 0.2513 --records 4
        memberbound explain --target-advantage 0.1
        memberbound explain --target-interval 0.02 --n 10000
        memberbound explain --target-tpr 0.05 --fpr 0.01 --sample-rate 0.01 --steps 1000

    Examples:
        >>> result = explain(epsilon=1.0)
        >>> round(result.advantage_upper, 6), round(result.tpr_upper["0.01"], 6)
        (0.462117, 0.027183)
    """
    gamma_from_priors(nu, lam)
    fraction("prior", prior)
    if adjacency is not None:
        one_of("adjacency", adjacency, ADJACENCIES)
    rates = DEFAULT_FPR if fpr is None else fractions("fpr", fpr)
    if target_tpr is not None and len(rates) != 1:
        raise InputError(
            f"a target TPR must come with exactly one FPR, got {len(rates)}. "
            "Add --fpr 0.01, for example."
        )
    targets: list[Target] = [
        *([] if target_advantage is None else [AdvantageTarget(target_advantage)]),
        *([] if target_eta is None else [EtaTarget(target_eta)]),
        *([] if target_security is None else [SecurityTarget(target_security, nu, lam)]),
        *([] if target_tpr is None else [TprTarget(target_tpr, rates[0])]),
    ]
    if len(targets) > 1:
        raise InputError(
            "the target must be one of advantage, TPR, η and security, got several of them."
        )
    stated = _Stated(epsilon, gdp, noise_multiplier, sample_rate, steps, history, ledger)
    limit = targets[0].limit() if targets else None
    wanted = _interval_target(target_interval, n, stated, limit, adjacency)
    if targets:
        stated = _calibrate(targets[0], stated, delta, adjacency)
    if wanted is not None:
        stated = replace(stated, gdp=wanted.noise.mu)
        limit = (
            f"a 95 % interval of width {significant(wanted.width, 'given')} for a mean of "
            f"{wanted.rows} rows"
        )
    guarantee, parameters = _guarantee(stated, delta, adjacency)
    parameters = replace(parameters, interval=wanted)
    if records is not None:
        if limit is not None:
            raise InputError("records must be left out with a target, which is about one record.")
        guarantee = guarantee.group(records)
        parameters = replace(parameters, records=whole_number("records", records))
    notes: tuple[str, ...] = () if history is None else (_HISTORY,)
    if stated.epsilon is not None:
        quoted, at = float(stated.epsilon), float(delta or 0.0)
    else:
        # A ledger's slack is up to 1e-4, and at a smaller δ no finite ε holds.
        usual = 1e-5 if ledger is None else 1e-3
        at = float(usual if delta is None else fraction("delta", delta))
        quoted = guarantee.curve.epsilon(at)
        if delta is None:
            notes += (f"No δ was given, so ε is quoted at δ = {significant(at, 'given')}.",)
    return Explanation(
        guarantee,
        quoted if math.isfinite(quoted) else None,
        at,
        nu=float(nu),
        lam=float(lam),
        prior=float(prior),
        fpr=rates,
        parameters=parameters,
        target=limit,
        notes=notes,
        baseline=fractions("baseline", baseline),
    )


# ── Reading the guarantee or the target ───────────────────────────────────────────────────────────

#: Assumptions about a history.
_HISTORY = (
    "Sample rates and numbers of steps were fixed without looking at the rows. Opacus' "
    "make_private derives them from the number of rows: then only replace-one numbers hold."
)
_SGD = ("noise_multiplier", "sample_rate", "steps")


def _interval_target(
    width: float | None,
    rows: int | None,
    stated: _Stated,
    limit: str | None,
    adjacency: Adjacency | None,
) -> IntervalTarget | None:
    """Return the η that an interval of the target width needs, or None without a target."""
    if width is None and rows is None:
        return None
    if width is None or rows is None:
        raise InputError(
            "target_interval must come with n, the number of rows, got only one of them."
        )
    given = stated.given()
    if limit is not None or given:
        raise InputError(
            "target_interval finds η without any other input, so it must be the only target, got "
            f"{limit or given[0]} as well."
        )
    if adjacency == "add-remove":
        raise InputError("adjacency must be replace-one for an interval, got 'add-remove'.")
    return interval_target(width, rows)


def _calibrate(
    target: Target, stated: _Stated, delta: float | None, adjacency: Adjacency | None
) -> _Stated:
    """Return the stated parameters, completed by the one that meets a target."""
    for name in stated.given("epsilon", "gdp", "noise_multiplier", "history", "ledger"):
        raise InputError(
            f"a target finds the parameter, so {name} must be left out, got "
            f"{getattr(stated, name)!r}."
        )
    rate, steps = stated.sample_rate, stated.steps
    if rate is None and steps is None:
        epsilon = calibrated_epsilon(target, delta or 0.0, adjacency or "replace-one")
        return replace(stated, epsilon=epsilon)
    if rate is None or steps is None:
        raise InputError("a noise multiplier needs both sample_rate and steps, got only one.")
    DpSgd(1.0, rate, steps)  # validates rate and steps
    sigma = calibrated_noise_multiplier(target, rate, steps, adjacency or "add-remove")
    return replace(stated, noise_multiplier=sigma)


def _guarantee(
    stated: _Stated, delta: float | None, adjacency: Adjacency | None
) -> tuple[DpGuarantee, Parameters]:
    """Return the guarantee described by the options, and its parameters."""
    ways = stated.given("epsilon", "gdp", "history", "ledger")
    missing = [name for name in _SGD if name not in stated.given(*_SGD)]
    if len(missing) < len(_SGD):
        ways.append("DP-SGD parameters")
    if len(ways) != 1:
        raise InputError(
            "the guarantee must be given in one way: epsilon (with delta), gdp, noise_multiplier "
            "with sample_rate and steps, a history of them, or a ledger; got "
            f"{' and '.join(ways) + ' together' if ways else 'none of them'}."
        )
    if stated.epsilon is not None:
        points = [(nonnegative("epsilon", stated.epsilon), fraction("delta", delta or 0.0))]
        return guarantee_from_epsilon_delta(points, adjacency or "replace-one"), Parameters()
    if stated.gdp is not None:
        mu = nonnegative("gdp", stated.gdp)
        return guarantee_from_gdp(mu, adjacency or "replace-one"), Parameters(gdp=stated.gdp)
    if stated.ledger is not None:
        return _of_ledger(stated.ledger, adjacency)
    run: DpSgd | DpSgdHistory
    if stated.history is not None:
        run = dp_sgd_from_history(stated.history)
    elif stated.noise_multiplier is None or stated.sample_rate is None or stated.steps is None:
        raise InputError(
            "DP-SGD needs noise_multiplier, sample_rate and steps, got no "
            f"{' and no '.join(missing)}."
        )
    else:
        run = DpSgd(stated.noise_multiplier, stated.sample_rate, stated.steps)
    parameters = (
        Parameters(**asdict(run))
        if isinstance(run, DpSgd)
        else Parameters(history=tuple(astuple(part) for part in run.parts))
    )
    return guarantee_from_dp_sgd(run, adjacency or "add-remove"), parameters


def _of_ledger(ledger: object, adjacency: Adjacency | None) -> tuple[DpGuarantee, Parameters]:
    """Return the joint guarantee of all releases that a ledger allows."""
    from memberbound.release.ledger_file import open_ledger

    if adjacency == "add-remove":
        raise InputError("adjacency must be replace-one for a ledger, got 'add-remove'.")
    opened = open_ledger(ledger)
    parameters = Parameters(
        ledger=opened.path.name,
        limit_eta=opened.limit_eta,
        unit=opened.unit,
        ledger_assumptions=opened.assumptions,
    )
    return DpGuarantee(opened.curve(), "replace-one", LEDGER), parameters
