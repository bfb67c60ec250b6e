"""Do shared shadow models bias the results of single records?

    python benchmarks/record_bias.py [--records 60] [--tried 12] [--shadows 64] [--repeats 8]

The pipeline of ``audit`` trains one set of models and attacks each with the others, for all records
at once.  For comparison, every record gets its own targets and shadow models, which are used for
nothing else: slow, but without any sharing that could cause bias.  The difference is the bias of
the pipeline, with a standard error over independent repetitions of the whole pipeline.  The record
with the highest estimate is shown separately, because it was selected for being high.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from memberbound.attacks.attacks import ATTACKS, Targets
from memberbound.attacks.learner_audit import audit_shadows, best_threshold
from memberbound.attacks.shadows import train_shadows
from memberbound.learners.examples import Examples
from memberbound.learners.names import learner_from_name

ATTACK = "lira"
Array = NDArray[np.float64]


def population(rows: int) -> Examples:
    from sklearn.datasets import make_classification

    x, y = make_classification(rows, 6, n_informative=3, flip_y=0.2, random_state=0)
    return Examples(x, y, "classification", tuple(f"x{i}" for i in range(6)), ("0", "1"))


def own_accuracy(
    examples: Examples, name: str, record: int, sizes: tuple[int, int], seed: int
) -> float:
    """Accuracy about one record from models that serve this record alone."""
    made = [
        train_shadows(
            examples,
            learner_from_name(name),
            models=count,
            seed=10_000 * (record + 1) + seed + index,
            n_jobs=1,
        )
        for index, count in enumerate(sizes)
    ]
    known, asked = made
    attack = ATTACKS[ATTACK]
    practice = Targets.each_by_the_others(known.signals, known.membership)
    threshold = best_threshold(attack.score(practice), known.membership)
    targets = Targets(asked.signals, known.signals, known.membership)
    said = attack.score(targets)[:, record] >= threshold
    return float((said == asked.membership[:, record]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=60)
    parser.add_argument("--tried", type=int, default=12)
    parser.add_argument("--shadows", type=int, default=64)
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--learner", nargs="+", default=("tree", "naive-bayes"))
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    examples, sizes = population(given.records), (given.shadows, given.targets)
    print("| learner | records | mean bias | most exposed: plain | most exposed: corrected |")
    print("|---|---|---|---|---|")
    with threadpool_limits(1):
        for name in given.learner:
            tried = np.arange(given.tried)
            truth = np.array([own_accuracy(examples, name, r, sizes, 0) for r in tried])
            plain, top, corrected = [], [], []
            for repeat in range(given.repeats):
                run = train_shadows(
                    examples,
                    learner_from_name(name),
                    models=given.shadows,
                    seed=repeat,
                    n_jobs=1,
                )
                exposure = audit_shadows(run, attacks=[ATTACK], fpr=()).records
                plain.append(float((exposure.estimate[tried] - truth).mean()))
                best = int(np.argmax(exposure.estimate))
                real = own_accuracy(examples, name, best, sizes, 1)
                top.append(exposure.estimate[best] - real)
                corrected.append(exposure.worst_record_estimate - real)
            cells = [
                f"{np.mean(v):+.3f} ± {np.std(v, ddof=1) / np.sqrt(len(v)):.3f}"
                for v in (plain, top, corrected)
            ]
            print(f"| {name} | {given.tried} of {given.records} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
