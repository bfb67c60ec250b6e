"""Where do we keep the verdict of each training run?

With the run itself. MLflow stores the model and its settings; the study of the same table is logged
to the same run: certified, measured and estimated numbers as three groups of metrics, the question
as parameters, the verdict as a tag, the report as files. All of this is computed from the rows, so
only their owner may have access to the server; format "mlflow" logs the public part. Here MLflow
writes to a folder; with a server only the address changes.
"""

import logging
import os
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

import memberbound as mb

os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
import mlflow

logging.getLogger("mlflow").setLevel(logging.WARNING)

draws = np.random.default_rng(0)
rows = 600
age, smoker = draws.integers(18, 91, rows), draws.random(rows) < 0.25
ill = (age - 55) / 12 + 1.5 * smoker + draws.logistic(-0.4, 0.6, rows) > 0
patients = pd.DataFrame({"age": age, "smoker": smoker, "ill": ill})

with TemporaryDirectory() as folder:
    mlflow.set_tracking_uri(f"file:{folder}")
    mlflow.set_experiment("releases")
    with mlflow.start_run(run_name="tree") as run:
        tree = DecisionTreeClassifier().fit(patients[["age", "smoker"]], ill)
        mlflow.log_params(tree.get_params())
        study = mb.study(patients, target="ill", learner="tree", shadows=16, quick=True, workers=1)
        print(mb.export(study, format="mlflow-owner").summary().splitlines()[-1])

    print("\n── What the run holds now")
    kept = mlflow.get_run(run.info.run_id)
    print(kept.data.tags["memberbound.verdict"], kept.data.tags["memberbound.advice"])
    for kind in ("certified", "measured", "estimated"):
        names = [name for name in kept.data.metrics if name.startswith(f"memberbound/{kind}/")]
        print(f"{kind}: {len(names)} metrics, such as {min(names)}")
