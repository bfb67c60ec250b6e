"""The error levels of every audit and every certificate add up to at most 1 - confidence.

Simulation cannot see a factor of four in one of four conservative terms.  So every level that is
passed to an interval is recorded, and the levels of one promise are added up. Deliberate faults,
one for each place where an error is shared, must be detected.
"""

import importlib
import inspect
import math
import pkgutil

import numpy as np
import pandas as pd
import pytest

from memberbound.attacks.checks import blind_scores, law_test
from memberbound.attacks.model_audit import audit_groups, audit_score_table
from memberbound.attacks.one_run import audit_one_run
from memberbound.attacks.scores import Scores
from memberbound.attacks.synthetic_tables import audit_refits
from memberbound.verbs.audit import audit
from memberbound.verbs.audit_learner import audit_learner
from memberbound.verbs.audit_table import audit_table
from memberbound.verbs.audit_text import audit_text
from memberbound.verbs.certify import certify
from memberbound.verbs.harden import harden
from memberbound.verbs.plan import plan
from memberbound.verbs.population import population
from memberbound.verbs.protect_half import protect_half
from oracle.error_shares import PRIMITIVES, by_call, recording, total_error

SURE = 0.9
AUC = ("auc_lower", "auc_upper")


def rng():
    return np.random.default_rng(1)


def score_rows(members=600, others=600):
    member = np.arange(members + others) < members
    return rng().normal(size=len(member)) + 1.5 * member, member


def people(rows=300):
    draw = rng()
    frame = pd.DataFrame({"a": draw.normal(size=rows), "b": draw.normal(size=rows)})
    frame["y"] = np.where(draw.integers(2, size=rows) == 1, "yes", "no")
    return frame


def cells(rows=400):
    draw = rng()
    return pd.DataFrame({"x": draw.choice(list("aab"), rows), "z": draw.integers(0, 9, rows)})


# ── What was spent on each promise ────────────────────────────────────────────────────────────────


def scores_promises(uses):
    """Every interval of every attack by itself, and the advantages of all attacks together."""
    shared = []
    yield from auc_promises(uses)
    own = [use for use in uses if not use.within("law_test")]
    for (call,), group in by_call(own, "audit_scores").items():
        yield f"AUC {call.number}", total_error(u for u in group if u.primitive in AUC)
        gaps = list(by_call(group, "_gap").values())
        yield f"advantage {call.number}", total_error(gaps[0])
        shared.append(gaps[-1])
        for (rate,), terms in by_call(group, "_tpr").items():
            assert len(terms) == 4 or {u.primitive for u in terms} >= {"rank_within"}
            yield f"TPR {call.number}.{rate.number}", total_error(terms)
    yield "best advantage", sum(map(total_error, shared))


def groups_promises(uses):
    """All groups together, the advantages and the AUCs."""
    yield "advantages of groups", total_error(u for u in uses if u.within("_gap"))
    yield "AUCs of groups", total_error(u for u in uses if u.primitive in AUC)


def auc_promises(uses):
    """The blind classifier's AUC on the half on which it did better."""
    for group in by_call(uses, "law_test").values():
        yield "AUC of two halves", total_error(u for u in group if u.primitive in AUC)


def means_promises(uses):
    """Means over releases: each by itself, those of compared attacks together, all records."""
    together = {}
    for (call,), group in by_call(uses, "mean_bound").items():
        assert {u.primitive for u in group} == {"betting_upper"}
        assert len(group) == 2  # two sides
        yield f"mean {call.number}", total_error(group)
        if call.among > 1:
            together[call.number] = total_error(group)
    assert together
    yield "best advantage", sum(together.values())
    records = [u for u in uses if u.within("record_exposure")]
    if records:
        yield "all records", total_error(records)


def one_run_promises(uses):
    for name in ("one_run_epsilon", "one_run_mu"):
        yield name, total_error(u for u in uses if u.primitive == name)


def counts_promises(uses):
    """The certificate of a table, and those of all of its records."""
    beyond = by_call(uses, "certify_beyond_the_table")
    for group in (beyond or by_call(uses, "certify_counts")).values():
        yield "table", total_error(group)
    for group in by_call(uses, "record_leaks").values():
        yield "records", total_error(group)


def plan_promises(uses):
    """Sizes are tested in a fixed order: one of them errs, or the records', or more rows."""
    uses = [use for use in uses if not use.within("_why_none")]  # that is an explanation
    by_size = by_call(uses, "certify_counts").values()
    sizes = max((total_error(g) for g in by_size), default=0.0)
    first = total_error(next(iter(by_size), []))
    more = max((u.error for u in uses if u.primitive == "_concentrated"), default=0.0)
    records = total_error(u for u in uses if u.primitive == "_solved")
    yield "plan", max(sizes, first + more) + records


def subsets_promises(uses):
    """All records, outcomes and directions of one sampling run; a target takes a second run."""

    def largest(chosen):
        groups = by_call(chosen, "_directions").values()
        # Of the sums of p from the j-th outcome on, the last is empty: 0 without sampling.
        empty = [next(u for u in g if u.primitive == "moment_upper") for g in groups]
        return max(
            (total_error(g) - u.error / u.statements for g, u in zip(groups, empty, strict=True)),
            default=0.0,
        )

    # A target tries sizes in a fixed order, and then takes fresh subsets.
    fresh = largest(u for u in uses if not u.within("epsilon_for"))
    assert fresh > 0
    yield "all records", fresh + largest(u for u in uses if u.within("epsilon_for"))


def scale_promises(uses):
    """Scales are tested against one sample, in an order that makes them one event."""
    found = [total_error(group) for group in by_call(uses, "mean_bounds").values()]
    assert found
    yield "noise scale", max(found)


# ── Audits and certificates ───────────────────────────────────────────────────────────────────────


def run_scores():
    score, member = score_rows()
    audit(pd.DataFrame({"score": score, "member": member}), confidence=SURE, fpr=[0.1, 0.05])


def run_attacks():
    score, member = score_rows()
    everywhere = np.ones(len(member), dtype=bool)
    tried = {name: (score * sign, everywhere) for name, sign in zip("abc", (1, -1, 2), strict=True)}
    audit_score_table(tried, member, confidence=SURE, fpr=(0.1,))


def run_groups():
    score, member = score_rows()
    values = np.array(list("uvw"))[np.arange(len(score)) % 3]
    audit_groups(score, member, values, column="g", attack="loss", confidence=SURE)


def run_law():
    score, member = score_rows(100, 100)
    law_test(np.column_stack([score, score]), member, blind_scores, confidence=SURE)


def run_table():
    draw = rng()
    rows = [pd.DataFrame(draw.normal(size=(120, 2)), columns=["a", "b"]) for _ in range(3)]
    audit_table(rows[0], nonmembers=rows[1], synthetic=rows[2], confidence=SURE)


def text_tokens(records=200, length=8):
    draw = rng()
    tokens = pd.DataFrame({"record": np.repeat(np.arange(records), length)})
    tokens["member"] = tokens["record"] % 2
    tokens["position"] = np.tile(np.arange(length), records)
    tokens["logprob"] = -draw.exponential(2 - tokens["member"])
    return tokens


def run_text():
    audit_text(tokens=text_tokens(), confidence=SURE)


def run_learner():
    audit_learner(
        people(80), target="y", learner="tree", shadows=12, workers=1, confidence=SURE, fpr=[0.1]
    )


class Copies:
    """A synthesizer that returns its input."""

    def fit(self, rows):
        self.rows = rows
        return self

    def sample(self, count):
        return self.rows.iloc[:count]


def run_synthesizer():
    audit_refits(people(120)[["a", "b"]], Copies, refits=12, confidence=SURE)


def run_one_run():
    score, member = score_rows(500, 500)
    audit_one_run(Scores.of(score, member), confidence=SURE)


def run_certify():
    certify(cells(), confidence=SURE)


def run_certify_part():
    certify(cells(), n=100, confidence=SURE)


def run_certify_beyond():
    certify(cells(), n=2000, confidence=SURE)


def run_certify_reference():
    draw = np.random.default_rng(2)
    other = pd.DataFrame({"x": draw.choice(list("aab"), 900), "z": draw.integers(0, 9, 900)})
    certify(cells(), reference=other, confidence=SURE)


def run_plan():
    plan(cells(2000), security=0.8, confidence=SURE)


def run_plan_both():
    plan(cells(2000), security=0.8, record_leak=0.4, confidence=SURE)


def run_plan_beyond():
    plan(cells(100), security=0.8, confidence=SURE)


def run_harden():
    harden(cells(), security=0.5, confidence=SURE)


def run_population(**asked):
    values = rng().normal(size=(60, 1))
    population(
        values,
        mechanism="exponential",
        candidates=[[-0.5], [0.0], [0.5]],
        clip=3.0,
        subsets=400,
        confidence=SURE,
        **asked,
    )


def run_population_epsilon():
    run_population(epsilon=1.0)


def run_population_target():
    run_population(target_success=0.6)


def run_half(**asked):
    frame = people(60)
    protect_half(
        frame,
        statistic="quantiles",
        columns=["a"],
        eta=0.2,
        confidence=SURE,
        insecure_seed=1,
        **asked,
    )


def run_half_average():
    run_half(record="average", pairs=120)


def run_half_every():
    run_half(record="every", method="moment", pairs=400)


RUNS = {
    run_scores: scores_promises,
    run_attacks: scores_promises,
    run_groups: groups_promises,
    run_law: auc_promises,
    run_table: scores_promises,
    run_text: scores_promises,
    run_learner: means_promises,
    run_synthesizer: means_promises,
    run_one_run: one_run_promises,
    run_certify: counts_promises,
    run_certify_part: counts_promises,
    run_certify_beyond: counts_promises,
    run_certify_reference: counts_promises,
    run_plan: plan_promises,
    run_plan_both: plan_promises,
    run_plan_beyond: plan_promises,
    run_harden: counts_promises,
    run_population_epsilon: subsets_promises,
    run_population_target: subsets_promises,
    run_half_average: scale_promises,
    run_half_every: scale_promises,
}


def find_overspent(run, fault=None):
    """Return the guarantees of a run with errors that add up to more than 1 - confidence."""
    with recording() as uses, pytest.MonkeyPatch.context() as patch:
        if fault is not None:
            fault(patch)
        run()
    assert uses, "no interval was made"
    shares = list(RUNS[run](uses))
    assert shares
    assert all(share > 0 for _, share in shares)
    return {name: share for name, share in shares if share > (1 - SURE) * (1 + 1e-9)}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__.removeprefix("run_"))
def test_errors_add_up(run):
    assert find_overspent(run) == {}


# ── Faults that must be noticed ───────────────────────────────────────────────────────────────────


def larger(module, name, factor, argument="error"):
    """Pass a primitive more error than its caller states."""

    def fault(patch):
        target = importlib.import_module(f"memberbound.{module}")
        right = getattr(target, name)

        def wrong(*args, **named):
            if argument in named:
                named[argument] *= factor
            else:
                args = (*args[:-1], args[-1] * factor)
            return right(*args, **named)

        patch.setattr(target, name, wrong)

    return fault


def unshare(module, name="shared_confidence"):
    """Let every part have the whole error."""

    def fault(patch):
        target = importlib.import_module(f"memberbound.{module}")
        if name == "shared_confidence":
            patch.setattr(target, name, lambda confidence, parts: confidence)
        else:
            patch.setattr(target, name, lambda confidence, *_: -math.log(1 - confidence))

    return fault


def share(name, value):
    """Change one share of the error of a table's certificate."""

    def fault(patch):
        certificates = importlib.import_module("memberbound.iid.certificates")
        for shares in (certificates._SHARES_ALL_ROWS, certificates._SHARES_WITH_REST):
            if name in shares:
                patch.setitem(shares, name, value)

    return fault


FAULTS = [
    (run_scores, larger("attacks.scores", "clopper_pearson_lower", 4)),
    (run_scores, larger("attacks.scores", "clopper_pearson_upper", 4)),
    (run_scores, larger("attacks.scores", "two_sample_deviation", 2)),
    (run_scores, larger("attacks.scores", "auc_lower", 2)),
    (run_scores, larger("attacks.scores", "rank_within", 2)),
    (run_scores, larger("attacks.scores", "rank_beyond", 2)),
    (run_attacks, unshare("attacks.scores")),
    (run_groups, unshare("attacks.model_audit")),
    (run_law, unshare("attacks.checks")),
    (run_table, unshare("attacks.checks")),
    (run_text, larger("attacks.scores", "clopper_pearson_lower", 4)),
    (run_learner, unshare("attacks.learner_audit")),
    (run_learner, larger("attacks.learner_audit", "clopper_pearson_lower", 2)),
    (run_synthesizer, unshare("attacks.learner_audit")),
    (run_one_run, unshare("attacks.one_run")),
    (run_certify, share("heavy cells", 0.30)),
    (run_certify, larger("iid.certificates", "mixture_upper", 2)),
    (run_certify, larger("iid.count_functions", "_cut", 64)),
    (run_certify, larger("iid.record_leak", "_solved", 2)),
    (run_certify_part, larger("iid.certificates", "split_leak_upper", 2)),
    (run_certify_beyond, unshare("iid.leak_bounds")),
    (run_certify_reference, larger("iid.certificates", "two_sample_leak_upper", 20)),
    (run_plan_both, unshare("iid.sample_sizes")),
    (run_plan_beyond, unshare("iid.sample_sizes")),
    (run_harden, share("count function, exponential moments", 0.80)),
    (run_population_epsilon, unshare("subset.sampling", "log_error_shared")),
    (run_population_target, unshare("subset.exponential_setting")),
    (run_half_average, larger("numerics.means", "betting_upper", 0.9)),
    (run_half_every, larger("numerics.means", "betting_upper", 0.9)),
]


@pytest.mark.parametrize(
    ("run", "fault"), FAULTS, ids=[f"{i}-{r.__name__}" for i, (r, _) in enumerate(FAULTS)]
)
def test_a_fault_is_noticed(run, fault):
    assert find_overspent(run, fault)


#: Functions that pass an error level on, split it, or compute what a sample could show.
PASS_ON = {
    "_candidates",  # shares it out
    "_impossible",  # one_run_epsilon and one_run_mu, whose error is recorded
    "_probability_lower",  # at the level of _cut
    "heavy_discount_lower",
    "heavy_probability_lower",
    "log_confidence",
    "non_members_needed",
    "zeros_certify",
}


def test_every_interval_is_recorded():
    """A function with an error level is recorded, or known to make no interval of its own."""
    found = {}
    for room in ("attacks", "iid", "numerics", "subset", "release.half"):
        package = importlib.import_module(f"memberbound.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for name, function in vars(importlib.import_module(module.name)).items():
                target = inspect.unwrap(function) if callable(function) else None
                if inspect.isfunction(target) and target.__module__ == module.name:
                    levels = {"error", "log_error", "beta"} & set(
                        inspect.signature(target).parameters
                    )
                    if levels:
                        found[name] = target.__module__
    recorded = {name for _, name in PRIMITIVES}
    assert set(found) <= recorded | PASS_ON
    assert recorded >= {"clopper_pearson_lower", "two_sample_deviation", "betting_lower"}
