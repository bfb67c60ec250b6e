"""The verb ``explain``: translate DP parameters into bounds on membership inference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

from memberbound.answers import (
    INTERNAL,
    Answer,
    Given,
    Inline,
    Lower,
    OmitEmpty,
    Upper,
    computed,
)
from memberbound.curve.families import gaussian_summary
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
    leak_from_pure_dp,
)
from memberbound.errors import (
    InputError,
    fraction,
    fractions,
    nonnegative,
    one_of,
    whole_number,
)
from memberbound.games import (
    ADJACENCIES,
    GUESSES_STAND_ALONE,
    Adjacency,
    NeighbourGame,
    gamma_from_priors,
    member_name,
)
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import down
from memberbound.quantities import (
    Certificate,
    marked,
    mu_row,
    percent,
    significant,
    vacuous,
)
from memberbound.release.precision import IntervalTarget, IntervalWidth, widths_at
from memberbound.release.precision import target_interval as interval_target

#: False-positive rates at which the TPR is bounded unless others are given.
_DEFAULT_FPR = (0.1, 0.01, 0.001)

# ── The answer: a guarantee, in terms of membership inference ─────────────────────────────────────

#: The notion of privacy of all releases that share a ledger.
_LEDGER = "ledger of releases"
#: Theorems behind the curve, by notion.
_CURVE_THEOREMS = {
    "(ε, δ)-DP": ("I24-T4", "X2"),
    "μ-GDP": ("L24-L10",),
    "DP-SGD": ("L24-L10", "X12"),
    _LEDGER: ("X22", "X27"),
}


#: Releases that a guarantee of each notion covers.
_COVERED = {
    "(ε, δ)-DP": "every mechanism with this guarantee",
    "μ-GDP": "every mechanism with this guarantee",
    "DP-SGD": "DP-SGD with these parameters",
    _LEDGER: "all these releases together",
}


@dataclass(frozen=True)
class Parameters:
    """Parameters of a guarantee other than ε and δ."""

    gdp: OmitEmpty[Given | None] = None
    noise_multiplier: OmitEmpty[Given | None] = None
    sample_rate: OmitEmpty[Given | None] = None
    steps: OmitEmpty[int | None] = None
    #: Noise multiplier, sample rate and number of steps, per kind of step.
    history: OmitEmpty[tuple[tuple[Given, Given, int], ...]] = ()
    ledger: OmitEmpty[str | None] = None
    limit_eta: OmitEmpty[Given | None] = None
    #: The column that identifies the records of a ledger; None if every row is a record.
    unit: OmitEmpty[str | None] = None
    #: Records that are replaced together.
    records: OmitEmpty[int | None] = None
    #: The η that an interval of the target width needs.
    interval: OmitEmpty[IntervalTarget | None] = None
    ledger_assumptions: tuple[str, ...] = field(default=(), metadata=INTERNAL)


@dataclass(frozen=True, repr=False)
class Explanation(Answer, Limited):
    """A guarantee in terms of membership inference, with its inputs and its curve.

    ``guarantee.curve`` is the trade-off curve at the stated adjacency;
    ``guarantee.replaced().curve`` is the one from which η and MIS are computed.
    """

    VERB: ClassVar = "explain"
    FAILS_ON: ClassVar = ("ceiling",)
    COMPARED: ClassVar = "the certified success of any attack on any record"

    guarantee: DpGuarantee = field(metadata=INTERNAL)
    epsilon: Given | None
    delta: Given | None
    nu: Given = 0.5
    lam: Given = 1.0
    prior: Given = 0.5
    fpr: tuple[float, ...] = field(default=_DEFAULT_FPR, metadata=INTERNAL)
    parameters: Inline[Parameters] = field(default_factory=Parameters)
    target: str | None = None
    notes: tuple[str, ...] = field(default=(), metadata=INTERNAL)
    baseline: tuple[float, ...] = field(default=(), metadata=INTERNAL)

    @cached_property
    def game(self) -> NeighbourGame:
        """The neighbour game at the stated adjacency."""
        return NeighbourGame(self.adjacency)

    @property
    def certificate(self) -> Certificate:
        """The certified advantage of every attack on any record."""
        promise = (self.game, self.theorems, self.assumptions)
        return Certificate("advantage", self.advantage_upper, "upper", *promise)

    @computed
    def adjacency(self) -> Adjacency:
        """The neighbour relation: replace one record, or add or remove one."""
        return self.guarantee.adjacency

    @computed
    def notion(self) -> str:
        """The notion of privacy in which the guarantee is given."""
        return self.guarantee.notion

    @computed
    def advantage_upper(self) -> Upper:
        """Largest TPR - FPR."""
        return self.guarantee.curve.advantage

    @computed
    def accuracy_upper(self) -> Upper:
        """Best probability of being right at the prior."""
        return self.guarantee.curve.accuracy(self.prior)

    @computed
    def precision_upper(self) -> Upper:
        """Best precision: probability that a record called a member is one, at any recall."""
        return self.guarantee.curve.precision(self.prior)

    @computed
    def tpr_upper(self) -> dict[str, Upper]:
        """Best TPR at each FPR, keyed by the FPR as text."""
        return {repr(alpha): self.guarantee.curve.tpr(alpha) for alpha in self.fpr}

    @computed
    def guess_upper(self) -> OmitEmpty[dict[str, Upper]]:
        """Best chance of guessing a fact about a record, by the chance without the release."""
        return {repr(chance): self.guarantee.curve.tpr(chance) for chance in self.baseline}

    @computed
    def eta_upper(self) -> Upper:
        """Smallest η for which MIP is certified, replace-one."""
        return self.guarantee.replaced().curve.eta

    @cached_property
    def _gaussian(self) -> tuple[float, float]:
        return gaussian_summary(self.guarantee.replaced().curve)

    @computed
    def mu_upper(self) -> Upper:
        """μ of a μ-GDP curve that summarizes this one, replace-one."""
        return self._gaussian[0]

    @computed
    def mu_regret_upper(self) -> Upper:
        """Regret of that summary: the shift in both rates that reverses the curves' order."""
        return self._gaussian[1]

    @computed
    def interval_widths(self) -> tuple[IntervalWidth, ...]:
        """Widths of the intervals of means that are released at this η (X32); maybe none."""
        return () if self.parameters.records is not None else widths_at(self.eta_upper)

    @computed
    def security_lower(self) -> Lower:
        """MIS at (ν, λ) from the curve alone, replace-one."""
        return self.guarantee.replaced().curve.security(self.nu, self.lam)

    @computed
    def security_lower_iid(self) -> Lower | None:
        """MIS by the sharper bound for pure replace-one ε-DP (X11); ``None`` if δ > 0."""
        if self.parameters.records is not None:
            return None
        largest = self.guarantee.replaced().curve.epsilon(0.0)
        if not math.isfinite(largest):
            return None
        leak = leak_from_pure_dp(largest, self.nu, self.lam)
        return max(self.security_lower, 1.0 if leak == 0.0 else down(1.0 - leak))

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """The theorems behind the numbers."""
        used = ["A25-P5", "A25-T6", "I24-P2", *_CURVE_THEOREMS[self.notion]]
        if self.security_lower_iid is not None:
            used.append("X11")
        used += ["X33"] if self.parameters.records is not None else []
        used += ["X32"] if self.interval_widths else []
        return (*used, "X23") if self.baseline else tuple(used)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions about the system behind the numbers."""
        first = {
            "(ε, δ)-DP": f"The release is (ε, δ)-DP under {self.adjacency} adjacency.",
            "μ-GDP": f"The release is μ-GDP under {self.adjacency} adjacency.",
            "DP-SGD": (
                "Every step samples each record independently with the stated rate, clips its "
                "gradient, and adds Gaussian noise of the stated multiple of the clipping norm; "
                "nothing else about the data is released."
            ),
        }.get(self.notion)
        convert = (
            "advantage, accuracy and TPR are against an attacker who knows every other record, at "
            f"{self.adjacency} adjacency; η and MIS are converted to replace-one."
        )
        one = "One record is one person's whole contribution; groups are less protected."
        if self.parameters.records is not None:
            one = f"At most {self.parameters.records} records differ, all of them together."
        beyond = (GUESSES_STAND_ALONE,) if self.baseline else ()
        if first is None:
            group = () if self.parameters.records is None else (one,)
            return (*self.parameters.ledger_assumptions, convert, *group, *beyond, *self.notes)
        return (first, convert, one, *beyond, *self.notes)

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the success rate to check against a limit: any attack on any record."""
        del on
        blind = max(self.prior, 1 - self.prior)
        what = f"any attack on any {member_name(self.parameters.unit)}"
        return (Success(what, blind, ceiling=self.accuracy_upper),)

    @property
    def setting(self) -> str:
        """The parameters in words; a calibrated one is rounded to the safe side."""
        p = self.parameters
        if p.history:
            total = sum(steps for _, _, steps in p.history)
            return f"{total} steps of DP-SGD of {len(p.history)} kinds of noise and sampling"
        if self.notion == "DP-SGD":
            sigma = significant(p.noise_multiplier, "given" if self.target is None else "upper")
            rate = significant(p.sample_rate, "given")
            return f"noise multiplier {sigma}, sampling rate {rate} and {p.steps} steps"
        if self.notion == "μ-GDP":
            mu = significant(p.gdp, "given" if self.target is None else "upper")
            return f"μ = {mu} (Gaussian DP)"
        if p.ledger is not None:
            limit = significant(p.limit_eta, "given")
            return f"all releases that the ledger {p.ledger} allows (limit η = {limit})"
        delta = "" if not self.delta else f" and δ = {significant(self.delta, 'given')}"
        return f"ε = {self._epsilon_in_words()}{delta}"

    def _epsilon_in_words(self) -> str:
        """Format ε: as given, rounded down if calibrated, rounded up if derived."""
        if self.epsilon is None or math.isinf(self.epsilon):
            return "no finite ε"
        if self.notion != "(ε, δ)-DP":
            return significant(self.epsilon, "upper")
        return significant(self.epsilon, "given" if self.target is None else "lower")

    @computed
    def sentence(self) -> str:
        """A sentence that a lawyer understands, with every number rounded to the safe side."""
        who, size = member_name(self.parameters.unit), self.parameters.records
        whose, subject = f"a {who}'s membership", f"that {who}"
        if size is not None:
            whose, subject = f"the membership of {size} {who}s together", f"these {size} {who}s"
        lead = f"With {self.setting}, "
        if self.target is not None:
            lead = f"To keep {self.target}, use {self.setting}: then "
        odds = ""
        if self.prior != 0.5:
            odds = f" when {percent(self.prior, 'given')} of the candidates are members"
        if vacuous(self.accuracy_upper):
            success = f"there is no useful guarantee{odds}."
        else:
            blind = percent(max(self.prior, 1 - self.prior), "upper")
            success = (
                f"no attacker is right about {whose} more than "
                f"{percent(self.accuracy_upper, 'upper')} of the time{odds} (blind guessing: "
                f"{blind})."
            )
        parts = [lead + success]
        if self.fpr and not vacuous(self.accuracy_upper):
            alpha = min(self.fpr, key=lambda a: abs(a - 0.01))
            parts.append(
                f"An attack with a false-positive rate of at most {percent(alpha, 'given')} "
                f"identifies at most {percent(self.tpr_upper[repr(alpha)], 'upper')} of the "
                "members."
            )
        other = f"the same data without {subject}"
        if self.adjacency == "replace-one":
            other = f"another {who} in its place" if size is None else "others in their place"
        every = f"every {who}" if size is None else f"all {size} {who}s"
        parts.append(
            f"This holds for {_COVERED[self.notion]}, {every} and every attack; “out” means "
            f"training on {other}."
        )
        if self.parameters.interval is not None:
            parts.append(_interval_sentence(self.parameters.interval))
        return " ".join(parts)

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the rows of the command line's table."""
        epsilon = self._epsilon_in_words()
        if self.delta is not None:
            epsilon += f" at {significant(self.delta, 'given')}"
        gamma = significant(gamma_from_priors(self.nu, self.lam), "given")
        bounds = [("advantage (TPR - FPR)", self.advantage_upper, "advantage")]
        for alpha, value in self.tpr_upper.items():
            bounds.append((f"TPR at FPR {significant(float(alpha), 'given')}", value, "tpr"))
        for before, after in self.guess_upper.items():
            chance = percent(float(before), "given")
            bounds.append((f"a guess right {chance} of the time before", after, "tpr"))
        bounds.append(("η (MIP, replace-one)", self.eta_upper, "eta"))
        bounds.append((f"MIS at γ = {gamma}", self.security_lower, "security"))
        if self.security_lower_iid is not None:
            bounds.append(("  and for i.i.d. records", self.security_lower_iid, "security"))
        accuracy = marked(self.accuracy_upper, "certificate")
        summed_up = [] if vacuous(self.eta_upper, "eta") else [self._gaussian]
        widths = [
            (
                f"95 % interval of a mean of {width.rows} rows",
                f"width {significant(width.noise_upper, 'upper', 3)} at this η, "
                f"{significant(width.population_upper, 'upper', 3)} with sampling",
            )
            for width in self.interval_widths
            if width.noise_upper < 1
        ]
        return [
            ("ε at δ", epsilon),
            ("adjacency", self.adjacency),
            (f"attack success at prior {significant(self.prior, 'given')}", accuracy),
            *((name, marked(v, "certificate", quantity, 6)) for name, v, quantity in bounds),
            *(mu_row(*pair, member_name(self.parameters.unit)) for pair in summed_up),
            *widths,
        ]


# ── The verb ──────────────────────────────────────────────────────────────────────────────────────


def explain(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    gdp: float | None = None,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    steps: int | None = None,
    history: Annotated[Any, Option("file", metavar="FILE", web=False)] | None = None,
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
    rates = _DEFAULT_FPR if fpr is None else fractions("fpr", fpr)
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
    stated: dict[str, Any] = {
        "epsilon": epsilon,
        "gdp": gdp,
        "noise_multiplier": noise_multiplier,
        "sample_rate": sample_rate,
        "steps": steps,
        "history": history,
        "ledger": ledger,
    }
    limit = targets[0].limit() if targets else None
    wanted = _interval_target(target_interval, n, stated, limit, adjacency)
    if targets:
        stated = _calibrate(targets[0], stated, delta, adjacency)
    if wanted is not None:
        stated["gdp"] = wanted.noise.mu
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
    if stated["epsilon"] is not None:
        quoted, at = float(stated["epsilon"]), float(delta or 0.0)
    else:
        # A ledger's slack is up to 1e-4, and no finite ε holds at a smaller δ.
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
    stated: Mapping[str, Any],
    limit: str | None,
    adjacency: Adjacency | None,
) -> IntervalTarget | None:
    """Return what the wanted width of an interval needs; None if none is wanted."""
    if width is None and rows is None:
        return None
    if width is None or rows is None:
        raise InputError(
            "target_interval must come with n, the number of rows, got only one of them."
        )
    given = [name for name, value in stated.items() if value is not None]
    if limit is not None or given:
        raise InputError(
            "target_interval finds η without any other input, so it must be the only target, got "
            f"{limit or given[0]} beside it."
        )
    if adjacency == "add-remove":
        raise InputError("adjacency must be replace-one for an interval, got 'add-remove'.")
    return interval_target(width, rows)


def _interval_sentence(wanted: IntervalTarget) -> str:
    """State which η is precise enough, from noise alone and together with sampling."""
    width, rows = significant(wanted.width, "given"), wanted.rows
    eta = significant(wanted.noise.eta, "upper", 4)
    alone = significant(wanted.sampling_alone_upper, "upper", 3)
    first = (
        f"At η = {eta} noise alone gives a mean or share of {rows} rows, of values in [0, 1], a "
        f"95 % interval of width {width}"
    )
    if wanted.population is None:
        return f"{first}; for the population sampling alone is wider already: up to {alone}."
    eta = significant(wanted.population.eta, "upper", 4)
    return (
        f"{first}; with sampling, which alone gives up to {alone}, an interval for the population "
        f"needs η = {eta}."
    )


def _calibrate(
    target: Target, stated: Mapping[str, Any], delta: float | None, adjacency: Adjacency | None
) -> dict[str, Any]:
    """Return what is stated, with the parameter that meets a target."""
    for name in ("epsilon", "gdp", "noise_multiplier", "history", "ledger"):
        if stated[name] is not None:
            raise InputError(
                f"a target finds the parameter, so {name} must be left out, got {stated[name]!r}."
            )
    rate, steps = stated["sample_rate"], stated["steps"]
    if rate is None and steps is None:
        epsilon = calibrated_epsilon(target, delta or 0.0, adjacency or "replace-one")
        return {**stated, "epsilon": epsilon}
    if rate is None or steps is None:
        raise InputError("a noise multiplier needs both sample_rate and steps, got only one.")
    DpSgd(1.0, rate, steps)  # validates rate and steps
    sigma = calibrated_noise_multiplier(target, rate, steps, adjacency or "add-remove")
    return {**stated, "noise_multiplier": sigma}


def _guarantee(
    stated: Mapping[str, Any], delta: float | None, adjacency: Adjacency | None
) -> tuple[DpGuarantee, Parameters]:
    """Return the guarantee described by the options, and its parameters."""
    ways = [name for name in ("epsilon", "gdp", "history", "ledger") if stated[name] is not None]
    missing = [name for name in _SGD if stated[name] is None]
    if len(missing) < len(_SGD):
        ways.append("DP-SGD parameters")
    if len(ways) != 1:
        raise InputError(
            "the guarantee must be given in one way: epsilon (with delta), gdp, noise_multiplier "
            "with sample_rate and steps, a history of them, or a ledger; got "
            f"{' and '.join(ways) + ' together' if ways else 'none of them'}."
        )
    (way,) = ways
    if way == "epsilon":
        points = [(nonnegative("epsilon", stated[way]), fraction("delta", delta or 0.0))]
        return guarantee_from_epsilon_delta(points, adjacency or "replace-one"), Parameters()
    if way == "gdp":
        mu = nonnegative("gdp", stated[way])
        return guarantee_from_gdp(mu, adjacency or "replace-one"), Parameters(gdp=stated[way])
    if way == "ledger":
        return _of_ledger(stated[way], adjacency)
    if way != "history" and missing:
        raise InputError(
            "DP-SGD needs noise_multiplier, sample_rate and steps, got no "
            f"{' and no '.join(missing)}."
        )
    run: DpSgd | DpSgdHistory
    if way == "history":
        run = dp_sgd_from_history(stated[way])
    else:
        run = DpSgd(*(stated[name] for name in _SGD))
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
    return DpGuarantee(opened.curve(), "replace-one", _LEDGER), parameters
