"""What three well-known privacy settings promise against membership inference.

Run it with ``python examples/explain_three_settings.py``.
"""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

import memberbound
from memberbound.quantities import decimals

SETTINGS: Mapping[str, Mapping[str, float]] = {
    # U.S. Census Bureau, "Census Bureau Sets Key Parameters to Protect Privacy in 2020 Census
    # Results", newsletter of 9 June 2021: ε = 17.14 for the persons file of the redistricting
    # data (and 2.47 for housing units). The system accounts in zero-concentrated DP (Abowd et
    # al., "The 2020 Census Disclosure Avoidance System TopDown Algorithm", Harvard Data Science
    # Review, 2022); this ε belongs to δ = 1e-10. It is read as replace-one here.
    "US Census 2020, persons: ε = 17.14, δ = 1e-10": {"epsilon": 17.14, "delta": 1e-10},
    # The budget most often reported for deep learning with DP. Accountants of DP-SGD usually
    # state it for add/remove. It is read as replace-one here: at add/remove the same ε promises
    # less about η and MIS, so pass adjacency="add-remove" if that is what was accounted.
    "ε = 8, δ = 1e-5": {"epsilon": 8.0, "delta": 1e-5},
    # Poisson-sampled DP-SGD, accounted for add/remove neighbours.
    "DP-SGD: σ = 1, q = 0.01, 1000 steps": {
        "noise_multiplier": 1.0,
        "sample_rate": 0.01,
        "steps": 1000,
        "delta": 1e-5,
    },
}


def main() -> None:
    """Explain each setting, print one table and one sentence per setting."""
    table = Table(title="Upper bounds that hold for every attack")
    table.add_column("setting")
    table.add_column("adjacency")
    for heading in ("accuracy ≤", "advantage ≤", "TPR at 1 % FPR ≤", "η ≤", "MIS ≥"):
        table.add_column(heading, justify="right")
    sentences = []
    for name, parameters in SETTINGS.items():
        explained = memberbound.explain(**parameters, fpr=[0.01])
        numbers = explained.to_dict()
        table.add_row(
            name,
            numbers["adjacency"],
            decimals(numbers["accuracy_upper"], "upper", 4),
            decimals(numbers["advantage_upper"], "upper", 4),
            decimals(numbers["tpr_upper"]["0.01"], "upper", 4),
            decimals(numbers["eta_upper"], "upper", 4),
            decimals(numbers["security_lower"], "lower", 4),
        )
        sentences.append(f"{name}\n  {explained.sentence}")
    # A fixed width: the table reads the same in a terminal, a pipe and a log.
    console = Console(width=132, highlight=False)
    console.print(table)
    for sentence in sentences:
        console.print(sentence, markup=False)


if __name__ == "__main__":
    main()
