"""The utility shape: least cost among covariances that hide equally well."""

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.release.erm import RegularisedRisk
from memberbound.release.methods import risk_shape, utility_shape
from memberbound.release.noise import ShapedGaussianNoise


def price(covariance, spread, hessian):
    """tr(HΣ)·tr(Σ⁻¹C): what Σ costs when it is scaled to hide a mean square length of 1."""
    return np.trace(hessian @ covariance) * np.trace(np.linalg.solve(covariance, spread))


@pytest.mark.parametrize("seed", range(5))
def test_no_other_covariance_costs_less(seed):
    rng = np.random.default_rng(seed)
    moves = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    root = rng.normal(size=(4, 4))
    hessian = root @ root.T + 0.1 * np.eye(4)
    factor = utility_shape(moves, hessian, ridge=1e-12)
    spread = moves.T @ moves / len(moves)
    best = price(factor @ factor.T, spread, hessian)
    # The closed form of the minimum: (tr (H^½ C H^½)^½)².
    values = np.linalg.eigvals(hessian @ spread).real
    assert best == pytest.approx(np.sqrt(values).sum() ** 2, rel=1e-6)
    rivals = [np.eye(4), spread, np.linalg.inv(hessian)]
    for _ in range(300):
        bent = factor @ (np.eye(4) + 0.3 * rng.normal(size=(4, 4)))
        rivals.append(bent @ bent.T)
    assert all(price(rival, spread, hessian) >= best * (1 - 1e-9) for rival in rivals)


def test_normalised_triangular_and_accepted_by_the_noise_law():
    rng = np.random.default_rng(0)
    factor = utility_shape(rng.normal(size=(30, 5)) * np.arange(1, 6))
    assert np.linalg.norm(factor) == pytest.approx(np.sqrt(5))
    assert not np.triu(factor, 1).any()
    assert ShapedGaussianNoise(factor).dimension == 5
    assert np.allclose(utility_shape(np.zeros((3, 2))), np.eye(2))


def test_many_coordinates_get_a_diagonal_shape():
    rng = np.random.default_rng(1)
    widths = np.linspace(1.0, 3.0, 1510)
    factor = utility_shape(rng.normal(size=(200, 1510)) * widths, ridge=1e-6)
    assert (np.count_nonzero(factor, axis=1) == 1).all()
    assert np.corrcoef(np.diag(factor), np.sqrt(widths))[0, 1] > 0.8
    bent = utility_shape(rng.normal(size=(200, 1510)), np.diag(widths**4), ridge=1e-6)
    assert np.corrcoef(np.diag(bent), 1 / widths)[0, 1] > 0.8


def test_shape_of_a_risk_follows_the_features():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(300, 2)) * [0.2, 3.0]
    target = (features.sum(axis=1) + rng.normal(size=300) > 0).astype(int)
    factor = risk_shape(RegularisedRisk(features, target, "logistic", 0.01))
    covariance = factor @ factor.T
    assert factor.shape == (3, 3)
    assert covariance[0, 0] > 3 * covariance[1, 1]  # the narrow feature's weight bears more noise
    wide = RegularisedRisk(rng.normal(size=(40, 755)), np.arange(40) % 2, "softmax", 1.0)
    assert (np.count_nonzero(risk_shape(wide), axis=1) == 1).all()


def test_bad_input():
    with pytest.raises(InputError, match="displacements must be a finite table"):
        utility_shape([np.nan])
    with pytest.raises(InputError, match="hessian must be a finite 2 by 2"):
        utility_shape(np.ones((3, 2)), np.eye(3))
    with pytest.raises(InputError, match="positive definite"):
        utility_shape(np.ones((3, 2)), -np.eye(2))
