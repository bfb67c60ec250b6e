"""A25-T6: best accuracy = max(nu, lam(1-nu)) + min(1, 1/gamma) nu Delta, and MIS = 1 - Delta.

Truth: definitions D2 and D3 with all 2^m attacks played.
"""

from fractions import Fraction

from oracle import iid, mechanisms
from oracle.claims import assert_exact

F = Fraction
SETTINGS = [
    (F(1, 2), F(1)),
    (F(1, 5), F(1)),
    (F(4, 5), F(1)),
    (F(1, 3), F(5, 2)),
    (F(2, 3), F(1, 3)),
    (F(3, 4), F(3)),
]


def best_accuracy(nu, lam, delta):
    gamma = nu / (lam * (1 - nu))
    return max(nu, lam * (1 - nu)) + min(F(1), 1 / gamma) * nu * delta


def with_the_maximum(nu, lam, delta):
    gamma = nu / (lam * (1 - nu))
    return max(nu, lam * (1 - nu)) + max(F(1), 1 / gamma) * nu * delta


def games():
    for game in mechanisms.random_iid_games(606, 12):
        yield iid.joint_laws(*game)
    yield iid.joint_laws([F(1, 2), F(1, 2)], 1, iid.injective(1, 2))


def test_accuracy_formula():
    assert_exact(
        best_accuracy,
        (
            (
                (nu, lam, iid.leakage(pair, iid.gamma(nu, lam))),
                iid.accuracies_by_attacks(pair, nu, lam)[1],
            )
            for pair in games()
            for nu, lam in SETTINGS
        ),
        broken={
            "without the minimum": lambda nu, lam, d: max(nu, lam * (1 - nu)) + nu * d,
            "with the maximum": with_the_maximum,
        },
    )


def test_security_is_one_minus_delta():
    for pair in games():
        for nu, lam in SETTINGS:
            mis = iid.security(pair, nu, lam, by_attacks=True)
            assert mis == 1 - iid.leakage(pair, iid.gamma(nu, lam))
            assert 0 <= mis <= 1


def test_limits():
    silent = iid.joint_laws([F(1, 3), F(2, 3)], 2, mechanisms.constant_release(2, 2))
    for nu, lam in SETTINGS:
        assert iid.security(silent, nu, lam) == 1
        assert iid.best_accuracy(silent, nu, lam) == max(nu, lam * (1 - nu))
    # many atoms and one released record: the leak tends to complete exposure
    exposed = []
    for atoms in (4, 16, 64):
        pair = iid.joint_laws([F(1, atoms)] * atoms, 1, iid.injective(1, atoms))
        exposed.append(iid.security(pair, F(1, 2), F(1)))
    assert exposed == [F(1, 4), F(1, 16), F(1, 64)]
