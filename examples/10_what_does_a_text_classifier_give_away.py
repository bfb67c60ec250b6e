"""What does a text classifier give away about the texts that it was trained on?

The texts are paragraphs of the documentation inside Python's scientific packages, so that the
example runs anywhere; the classifier (TF-IDF and a perceptron) predicts the package of a paragraph.
The whole pipeline is attacked on raw texts, also with reference pipelines of the same kind.
"""

import inspect

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

import memberbound as mb


def paragraphs(package: object) -> list[str]:
    """Return the paragraphs of a package's documentation, each once, in a fixed order."""
    documented = (inspect.getdoc(getattr(package, name)) for name in dir(package))
    found = {" ".join(p.split()) for text in documented if text for p in text.split("\n\n")}
    return sorted(p for p in found if 60 < len(p) < 400 and ">>>" not in p)


texts = [
    (paragraph, name)
    for name, package in (("numpy", np), ("pandas", pd), ("scipy", stats))
    for paragraph in paragraphs(package)
]
table = pd.DataFrame(texts, columns=["text", "package"])
table = table.sample(1000, random_state=0).reset_index(drop=True)
members, others = table[:500], table[500:].reset_index(drop=True)

words = make_column_transformer((TfidfVectorizer(max_features=2000), "text"))
network = MLPClassifier((32,), max_iter=2000, tol=1e-2, n_iter_no_change=5, random_state=0)
model = make_pipeline(words, network)
model.fit(members[["text"]], members["package"])

given = {"nonmembers": others, "model": model, "target": "package"}
print("── As it is")
print(mb.audit(members, **given, quick=True).summary())
print("\n── Beside 8 pipelines of its own kind")
print(mb.audit(members, **given, shadows=8, attacks=["lira", "rmia", "combined"]).sentence)
