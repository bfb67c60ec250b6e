"""``explain`` as a Python function: its numbers, limits, bad input."""

import json
import math

import pytest

import memberbound
from memberbound import InputError, explain
from memberbound.games import ADJACENCIES
from memberbound.verbs.explanation import Parameters


def test_adjacency_is_converted_for_eta_and_security_only():
    """The curves are compared with the truth in tests/dp."""
    result, plain = (explain(epsilon=1, delta=1e-6, adjacency=a) for a in ADJACENCIES[::-1])
    assert 2 * result.eta_upper == pytest.approx(1 - math.exp(-1) * (1 - 2e-6), rel=1e-12)
    assert result.security_lower < plain.security_lower
    assert result.advantage_upper == plain.advantage_upper
    assert plain.advantage_upper == pytest.approx(1e-6 + (1 - 1e-6) * math.tanh(0.5), rel=1e-12)


@pytest.mark.parametrize(
    ("given_", "advantage"),
    [
        ({"epsilon": 0}, 0.0),
        ({"epsilon": 0, "delta": 0}, 0.0),
        ({"epsilon": 700}, 1.0),
        ({"epsilon": 1e6}, 1.0),
        ({"gdp": 0}, 0.0),
        ({"gdp": 40}, 1.0),
        ({"epsilon": 0, "delta": 0.25}, 0.25),
        ({"epsilon": 3, "delta": 1}, 1.0),
        ({"epsilon": 1}, math.tanh(0.5)),
    ],
)
def test_limits(given_, advantage):
    result = explain(**given_)
    assert result.advantage_upper == pytest.approx(advantage, abs=1e-14)
    assert result.accuracy_upper == pytest.approx((1 + advantage) / 2, abs=1e-14)
    assert result.security_lower == pytest.approx(1 - advantage, abs=1e-14)
    json.dumps(result.to_dict(), allow_nan=False)


def test_prior_and_priors_of_the_iid_game():
    result = explain(epsilon=1, prior=0.1)
    # Odds 9 : 1 exceed e: the attacker does no better than always answering "out".
    assert result.accuracy_upper == pytest.approx(0.9, abs=1e-14)
    assert explain(epsilon=1, nu=0.9).security_lower == 1.0
    by_hand = 1 - (math.e - 2) / (math.e + 1)
    assert explain(epsilon=1, nu=2 / 3).security_lower == pytest.approx(by_hand, rel=1e-12)
    assert explain(epsilon=1, nu=1 / 3).security_lower == pytest.approx(by_hand, rel=1e-12)


def test_iid_security_is_sharper_for_pure_dp_only():
    pure = explain(epsilon=1)
    assert pure.security_lower_iid == pytest.approx(1 - math.tanh(0.25), rel=1e-12)
    assert pure.security_lower_iid > pure.security_lower
    assert explain(epsilon=1, delta=1e-9).security_lower_iid is None


def test_inverse_noise_multiplier():
    found = explain(target_tpr=0.05, fpr=0.01, sample_rate=0.02, steps=200)
    assert found.tpr_upper["0.01"] <= 0.05
    sigma = found.to_dict()["noise_multiplier"]
    again = explain(noise_multiplier=sigma, sample_rate=0.02, steps=200, fpr=0.01)
    assert again.tpr_upper == found.tpr_upper
    less = explain(noise_multiplier=sigma * 0.999, sample_rate=0.02, steps=200, fpr=0.01)
    assert less.tpr_upper["0.01"] > 0.05


BAD = [
    ({"epsilon": -1}, "epsilon must be at least 0, got -1"),
    ({"epsilon": math.nan}, "epsilon must be a finite number"),
    ({"epsilon": 1, "delta": 1.5}, "delta must be in [0, 1]"),
    ({"noise_multiplier": 1, "sample_rate": 0, "steps": 10}, "sample_rate must be in (0, 1]"),
    ({"noise_multiplier": 1, "sample_rate": 0.1, "steps": 2.5}, "steps must be a whole number"),
    ({"noise_multiplier": 1, "steps": 2}, "got no sample_rate"),
    ({"epsilon": 1, "gdp": 1}, "epsilon and gdp together"),
    ({"delta": 1e-5}, "got none of them"),
    ({"epsilon": 1, "prior": 1.2}, "prior must be in [0, 1]"),
    ({"epsilon": 1, "lam": 0}, "lambda must be greater than 0"),
    ({"epsilon": 1, "fpr": [2]}, "fpr must be in [0, 1]"),
    ({"epsilon": 1, "adjacency": "swap"}, "adjacency must be one of"),
    ({"target_advantage": 0.1, "epsilon": 1}, "epsilon must be left out"),
    ({"target_advantage": 0.1, "target_eta": 0.1}, "got several"),
    ({"target_advantage": 1e-6, "delta": 1e-5}, "delta must be smaller"),
    ({"target_tpr": 0.05}, "exactly one FPR"),
    ({"target_eta": 0.6}, "target eta must be in (0, 0.5)"),
    ({"target_advantage": 0.1, "steps": 100}, "both sample_rate and steps"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_input_is_one_sentence(options, message):
    with pytest.raises(InputError) as caught:
        explain(**options)
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert text.endswith(".")


def test_theorems_are_those_of_the_notion():
    assert "X2" in explain(epsilon=1).theorems
    assert "X2" not in explain(gdp=1).theorems
    assert "X12" in explain(noise_multiplier=2, sample_rate=0.1, steps=10).theorems
    ledger = {entry.id for entry in memberbound.theorems().results}
    for options in ({"epsilon": 1}, {"gdp": 1}, {"epsilon": 1, "delta": 0.1}):
        result = explain(**options)
        assert set(result.theorems) <= ledger


# ── Histories of DP-SGD ───────────────────────────────────────────────────────────────────────────

MIXED = [(1.1, 0.02, 200), (0.9, 0.05, 40), (20.0, 1.0, 2)]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_history_of_one_kind_is_its_parameters(adjacency):
    listed = explain(history=[(1.3, 0.02, 60), (1.3, 0.02, 40)], adjacency=adjacency).to_dict()
    plain = explain(
        noise_multiplier=1.3, sample_rate=0.02, steps=100, adjacency=adjacency
    ).to_dict()
    assert any("make_private" in said for said in listed.pop("assumptions"))
    plain.pop("assumptions")
    assert listed == plain


@pytest.mark.parametrize(
    ("adjacency", "relation"),
    [("add-remove", "ADD_OR_REMOVE_ONE"), ("replace-one", "REPLACE_ONE")],
)
def test_a_mixed_history_against_dp_accounting(adjacency, relation):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    total = None
    for sigma, rate, steps in MIXED:
        law = pld.from_gaussian_mechanism(
            sigma,
            sampling_prob=rate,
            value_discretization_interval=1e-3,
            neighboring_relation=getattr(pld.NeighborRel, relation),
        ).self_compose(steps)
        total = law if total is None else total.compose(law)
    found = explain(history=MIXED, adjacency=adjacency, delta=1e-6)
    # Both are above the truth, by less than these.
    assert found.advantage_upper == pytest.approx(total.get_delta_for_epsilon(0.0), rel=2e-3)
    assert found.epsilon == pytest.approx(total.get_epsilon_for_delta(1e-6), rel=2e-3)
    fewer = explain(history=MIXED[:2], adjacency=adjacency, delta=1e-6)
    assert fewer.epsilon < total.get_epsilon_for_delta(1e-6) * (1 - 2e-3)
    assert found.to_dict()["history"] == [list(kind) for kind in MIXED]


def test_a_history_may_be_a_file_an_accountant_or_an_engine(tmp_path):
    class Accountant:
        history = MIXED

        def get_epsilon(self, delta):
            raise AssertionError("nobody's ε is read")

    class Engine:
        accountant = Accountant()

    file = tmp_path / "history.json"
    for text in (json.dumps(MIXED), json.dumps({"history": MIXED, "mechanism": "gdp"})):
        file.write_text(text)
        found = explain(history=file)
        for each in (MIXED, Accountant(), Engine()):
            assert explain(history=each).to_dict() == found.to_dict()


def test_an_engine_of_opacus_is_read_by_its_steps():
    opacus = pytest.importorskip("opacus")
    engine = opacus.PrivacyEngine(accountant="gdp")
    for _ in range(30):
        engine.accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    ours = explain(history=engine, delta=1e-5)
    assert ours.parameters == Parameters(noise_multiplier=1.0, sample_rate=0.1, steps=30)
    # The Gaussian accountant is below the truth; this is why its ε is not used.
    assert engine.accountant.get_epsilon(1e-5) < ours.epsilon


@pytest.mark.parametrize(
    "history", [[], 7, [(1.0, 0.1)], [(0.0, 0.1, 3)], [(1.0, 2.0, 3)], "no-such-file.json"]
)
def test_bad_histories_are_refused(history):
    with pytest.raises(InputError, match=r"history|noise_multiplier|sample_rate"):
        explain(history=history)


def test_a_history_excludes_other_parameters():
    with pytest.raises(InputError, match="one way"):
        explain(history=MIXED, epsilon=1.0)
    with pytest.raises(InputError, match="left out"):
        explain(history=MIXED, target_eta=0.1)
