"""What does a boosted model give away, when all there is of it is an ONNX file?

LightGBM has learnt which of 300 patients have a malignant tumour, and was converted to ONNX. The
file holds no code and cannot be retrained, so a learner is named for reference models.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import lightgbm
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.datasets import load_breast_cancer

import memberbound as mb

patients = load_breast_cancer(as_frame=True).frame.sample(frac=1, random_state=0)
members, others = patients[:300], patients[300:]
features = [name for name in patients if name != "target"]
booster = lightgbm.LGBMClassifier(n_estimators=60, min_child_samples=3, verbose=-1, random_state=0)
booster.fit(members[features].to_numpy(), members["target"])

with TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    shape = [("rows", FloatTensorType([None, len(features)]))]
    path.write_bytes(convert_lightgbm(booster, initial_types=shape).SerializeToString())

    given = {"nonmembers": others, "model": path, "target": "target"}
    found = mb.audit(members, **given, learner="boosting", shadows=8)
    print(found.summary())
    print("\n── May it be released where nobody may be right more than 55 % of the time?")
    print(found.held_to(0.55).sentence)
