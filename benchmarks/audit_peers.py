"""Adapters that run other tools' attacks on one target model; run by benchmarks/audit.py.

    PEER_PYTHON benchmarks/audit_peers.py TOOL JOB.npz ANSWER.npz

It runs in the other tool's own environment, so it imports nothing from memberbound.  The job holds
the population, the target's half and the learner; the answer holds one score per record and method
(higher: member), and the processor seconds of training and of the attack.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

#: Tool, and what it is called in the registry.
PACKAGES = {
    "art": "adversarial-robustness-toolbox",
    "sacroml": "sacroml",
}
#: Rows of shadow predictions that ART's attack models are trained on.
ART_ROWS = 40_000
Answer = dict[str, Any]


def make_learner(name: str, seed: int) -> Any:
    """Return the target's learner; the same for every tool."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.tree import DecisionTreeClassifier

    if name == "forest":
        return RandomForestClassifier(n_estimators=100, random_state=seed)
    if name == "boosting":
        return HistGradientBoostingClassifier(random_state=seed)
    if name == "mlp":
        return MLPClassifier(
            (64,), alpha=0.0, learning_rate_init=0.005, max_iter=150, tol=0.0, random_state=seed
        )
    if name == "tree":
        return DecisionTreeClassifier(random_state=seed)
    return LogisticRegression(max_iter=1000, random_state=seed)


class Clock:
    """Seconds of the calls that went through it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time kept."""

        def call(*args: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **named)
            finally:
                self.seconds += time.process_time() - start

        return call


def with_sacroml(job: Any, target: Any) -> Answer:
    """SACRO-ML's LiRA, its default mode and the online one; they share one set of shadow models."""
    from sacroml.attacks import likelihood_attack, utils
    from sacroml.attacks.target import Target

    x, y, member = job["x"], job["y"], job["member"]
    order = np.concatenate([np.flatnonzero(member), np.flatnonzero(~member)])
    clock = Clock()
    utils.train_shadow_models = clock.timed(utils.train_shadow_models)
    answer: Answer = {}
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("offline", "online-carlini"):
            attack = likelihood_attack.LIRAAttack(
                output_dir=folder,
                write_report=False,
                n_shadow_models=int(job["shadows"]),
                mode=mode,
                report_individual=True,
            )
            attack.attack(
                Target(
                    model=target,
                    dataset_name="benchmark",
                    X_train=x[member],
                    y_train=y[member],
                    X_test=x[~member],
                    y_test=y[~member],
                )
            )
            found = np.asarray(attack.result["member_prob"], dtype=float)
            if len(found) != len(order):
                raise ValueError("records of classes that the target has not seen were dropped")
            answer[f"LiRA {mode}"] = np.empty(len(order))
            answer[f"LiRA {mode}"][order] = found
    answer["training_seconds"] = clock.seconds
    answer["attack_seconds"] = time.process_time() - start - clock.seconds
    return answer


def with_art(job: Any, target: Any) -> Answer:
    """ART's black-box attack models on the predictions of its own shadow models."""
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBox, ShadowModels
    from art.estimators.classification.scikitlearn import SklearnClassifier

    x, y = job["x"].astype(np.float32), job["y"]
    start = time.process_time()
    # Its clone_for_refitting needs a fitted template.
    template = SklearnClassifier(target)
    shadows = ShadowModels(template, num_shadow_models=int(job["shadows"]), random_state=0)
    hot = np.eye(int(y.max()) + 1)[y]
    members, others = shadows.generate_shadow_dataset(x, hot)
    trained = time.process_time()
    rng = np.random.default_rng(0)
    picked = []
    for _, label, said in (members, others):
        some = rng.permutation(len(label))[: ART_ROWS // 2]
        picked.append((label[some], said[some]))
    answer: Answer = {}
    for kind in ("lr", "gb", "rf"):
        attack = MembershipInferenceBlackBox(template, attack_model_type=kind)
        attack.fit(y=picked[0][0], pred=picked[0][1], test_y=picked[1][0], test_pred=picked[1][1])
        answer[f"black box, {kind}"] = np.ravel(attack.infer(x, hot, probabilities=True))
    answer["training_seconds"] = trained - start
    answer["attack_seconds"] = time.process_time() - trained
    return answer


def sacroml_given(job: Any, target: Any) -> Answer:
    """SACRO-ML on a given model: its LiRA, offline and online."""
    answer = with_sacroml(job, target)
    return {k if k.endswith("seconds") else f"score:{k}": v for k, v in answer.items()}


def art_given(job: Any, target: Any) -> Answer:
    """ART on a given model: with its shadow models, and its attack models told about half."""
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
    from art.estimators.classification.scikitlearn import SklearnClassifier

    answer = with_art(job, target)
    found = {f"score:{k}, shadows": v for k, v in answer.items() if not k.endswith("seconds")}
    x, y, member = job["x"].astype(np.float32), job["y"], job["member"]
    hot = np.eye(int(y.max()) + 1)[y]
    told = np.random.default_rng(0).random(len(y)) < 0.5
    template = SklearnClassifier(target)
    start = time.process_time()
    for kind in ("lr", "gb", "rf"):
        attack = MembershipInferenceBlackBox(template, attack_model_type=kind)
        ins, outs = told & member, told & ~member
        attack.fit(x=x[ins], y=hot[ins], test_x=x[outs], test_y=hot[outs])
        score = np.full(len(y), np.nan)
        score[~told] = np.ravel(attack.infer(x[~told], hot[~told], probabilities=True))
        found[f"score:black box, {kind}, half told"] = score
    found["training_seconds"] = answer["training_seconds"]
    found["attack_seconds"] = answer["attack_seconds"] + time.process_time() - start
    return found


TOOLS: dict[str, Callable[[Any, Any], Answer]] = {
    "art": with_art,
    "sacroml": with_sacroml,
    "art-given": art_given,
    "sacroml-given": sacroml_given,
}


def main() -> None:
    tool, job_path, answer_path = sys.argv[1:4]
    job = np.load(job_path, allow_pickle=False)
    target = make_learner(str(job["learner"]), int(job["seed"]))
    target.fit(job["x"][job["member"]], job["y"][job["member"]])
    answer = TOOLS[tool](job, target)
    np.savez(answer_path, version=version(PACKAGES[tool.removesuffix("-given")]), **answer)


if __name__ == "__main__":
    main()
