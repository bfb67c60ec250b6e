"""One table of forms: what ``auto`` chooses, on which stream, and why the certificate holds."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.release import methods
from memberbound.release.calibration import FreshSubsets
from memberbound.release.estimator import MembershipPrivate
from memberbound.release.methods import FORMS, METHODS, calibrate, forms_for, released_statistic
from memberbound.release.parameters import ConvexParameters, Population
from memberbound.release.statistics import computed, mean, quantiles
from memberbound.verbs.protect import protect

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + RNG.normal(size=60)
SEEDS = {"insecure_seed": 1, "calibration_seed": 3, "n_jobs": 1}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_every_method_is_a_form_and_every_form_is_a_method_but_the_sum():
    assert set(METHODS) - {"auto"} == set(FORMS) - {"sum"}


@pytest.mark.parametrize("base", [Ridge(alpha=1e-3), LinearSVC(C=100.0)], ids=["ridge", "svm"])
def test_auto_leaves_the_convex_form_where_it_needs_hundreds_of_times_the_noise(base):
    """Weak regularisation: one record may move the minimiser far, though it hardly ever does."""
    target = Y if isinstance(base, Ridge) else (Y > 0).astype(int)
    settings = {"eta": 0.2, "record": "every", "game": "subset", "tune": False} | SEEDS
    settings["pairs"] = 100
    auto, convex, moment = (
        MembershipPrivate(base, method=method, **settings).fit(X, target)
        for method in ("auto", "convex", "moment")
    )
    assert auto.calibration_.method == "moment"
    assert {trial.method for trial in auto.trials_} == {"convex", "moment"}
    assert convex.calibration_.noise_scale > 100 * auto.calibration_.noise_scale
    # What was tried leaves no trace in the certificate: the stream that certifies is another.
    assert auto.calibration_.to_dict() == moment.calibration_.to_dict()
    # The pilot foresaw what each form would ask for.
    for trial, found in zip(auto.trials_, (convex, moment), strict=True):
        assert found.calibration_.noise_scale == pytest.approx(trial.noise_scale_estimate, rel=0.5)


def test_auto_keeps_the_convex_form_where_it_wins():
    settings = {"eta": 0.2, "record": "every", "game": "subset", "tune": False} | SEEDS
    settings["pairs"] = 100
    auto, moment = (
        MembershipPrivate(Ridge(alpha=100.0), method=method, **settings).fit(X, Y)
        for method in ("auto", "moment")
    )
    assert auto.calibration_.method == "convex"
    assert auto.calibration_.noise_scale < moment.calibration_.noise_scale


def test_a_statistic_gets_the_form_with_the_least_noise_of_the_pilot(monkeypatch):
    statistic = quantiles(np.linspace(0.0, 1.0, 12) ** 2, [0.5])
    fresh = FreshSubsets(SubsetGame(12, 6), 5)
    forms = forms_for("auto", fresh.game, eta=0.1)
    assert set(forms) == {"moment", "neighbour"}
    found = {form: calibrate(statistic, fresh, eta=0.1, method=form) for form in forms}
    best = min(forms, key=lambda form: found[form].noise_scale)
    streams = []
    noise = methods._pilot_noise

    def watched(statistic, fresh, *args, **options):
        streams.append(fresh.seed)
        return noise(statistic, fresh, *args, **options)

    monkeypatch.setattr(methods, "_pilot_noise", watched)
    chosen = calibrate(statistic, fresh, eta=0.1)
    assert chosen.to_dict() == found[best].to_dict()
    # Calibrators certify on (5, 1), (5, 2) and (5, 3).
    assert streams == [(5, 15)] * 2


def test_the_average_record_and_sums_have_one_form_each():
    game = SubsetGame(500, 250, "average")
    assert forms_for("auto", game, eta=0.05, convex=True) == ("neighbour",)
    for method, form in (("auto", "crowd"), ("crowd", "crowd"), ("neighbour", "sum")):
        assert forms_for(method, game, eta=0.05, additive=True) == (form,)
    assert forms_for("moment", game, eta=0.05, additive=True) == ("moment",)
    every = replace(game, record="every")
    assert forms_for("auto", every, eta=0.05) == ("moment",)
    # Too few for the centre form to certify anything, not for the convex form's worst case.
    assert forms_for("auto", every, eta=0.05, convex=True, pairs=20) == ("convex",)


def test_one_search_whoever_asks():
    """`protect`, the table and the calibrator name the same scale for the same question."""
    values = np.arange(8.0) ** 2
    whole = protect(values[:, None], statistic="mean", eta=0.1, record="every", insecure_seed=1)
    game = SubsetGame(8, 4)
    out = released_statistic(mean(values), game, eta=0.1, insecure_seed=1)
    fresh = FreshSubsets(game)
    tabled = calibrate(mean(values), fresh, eta=0.1, method="neighbour")
    scales = {c.noise.scale for c in (whole.calibration, out.calibration, tabled)}
    assert len(scales) == 1
    assert out.values.tolist() == whole.released.values.tolist()


def test_the_area_under_the_roc_is_scikit_learns_ties_and_all():
    rng = np.random.default_rng(5)
    for digits in (0, 1, 12):  # few values, some, all different
        of_it, ranking = rng.random(90) < 0.3, rng.normal(size=90).round(digits)
        assert methods._area(of_it, ranking) == pytest.approx(roc_auc_score(of_it, ranking), 1e-14)
    assert methods._area(np.array([True, False]), np.array([1.0, 1.0])) == 0.5


def test_a_form_refuses_what_it_cannot_take():
    fresh = FreshSubsets(SubsetGame(20, 10))
    with pytest.raises(InputError, match="'convex' applies only to linear models"):
        calibrate(computed(np.arange(20.0), np.median), fresh, eta=0.1, method="convex")
    with pytest.raises(InputError, match="method must be one of"):
        calibrate(mean(np.arange(20.0)), fresh, eta=0.1, method="magic")
    with pytest.raises(InputError, match="L2 penalty"):
        ConvexParameters.of(GaussianNB(), Population(X, (Y > 0).astype(int), np.arange(2)), 30)
