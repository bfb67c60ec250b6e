"""What does a network give away about the pictures that it was trained on?

A small convolutional network was trained on 300 of scikit-learn's handwritten digits. Its weights
come from a file that is read as numbers only; the factory creates the module. Attacks see its
logits: first on the network alone, then with reference networks trained on all cores.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from sklearn.datasets import load_digits
from sklearn.utils import shuffle
from torch import nn

import memberbound as mb


def cnn() -> nn.Module:
    """Return the network, untrained."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


if __name__ == "__main__":  # processes that train networks read this file again
    # Shuffle, because the data are ordered by writer and both sides must come from one source.
    pictures, digits = shuffle(*load_digits(return_X_y=True), random_state=0)
    members = (pictures[:300] / 16, digits[:300])
    others = (pictures[300:700] / 16, digits[300:700])
    learner = mb.TorchLearner(cnn, epochs=150)
    with TemporaryDirectory() as folder:
        weights = Path(folder) / "network.pt"
        torch.save(learner.fit(*members).module_.state_dict(), weights)

        def audit(**more: object) -> mb.Audit:
            """Audit the network in its file."""
            given = {"model": weights, "factory": cnn, "members": members, "nonmembers": others}
            return mb.audit(**given, **more)

        print("── One answer per picture")
        print(audit().sentence)
        print("\n── Beside 8 reference networks")
        found = audit(learner=learner, shadows=8, seconds=600)
        print(found.summary())
        print("\n── May it be released where nobody may be right more than 60 % of the time?")
        print(found.held_to(0.6).sentence)
