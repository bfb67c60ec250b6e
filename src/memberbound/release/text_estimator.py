"""An estimator of a language model that hides every document it is fitted to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from memberbound.certificate import Certificate
from memberbound.errors import InputError
from memberbound.learners.adapters import merge_tensors
from memberbound.learners.language_models import check_folder
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.network_modules import torch_module
from memberbound.release.all_rows.text import PrivateText, TextRun
from memberbound.release.all_rows.text_adapters import largest_rank
from memberbound.release.all_rows.text_classes import TextClassifier, check_causal
from memberbound.release.all_rows.text_plan import TextBase, TextPlan
from memberbound.release.all_rows.text_settings import check_length, default_training
from memberbound.release.all_rows.text_training import TextRecords
from memberbound.release.text_files import UnstoredRun, check_folder_free, write_release
from memberbound.tables.texts import arrange_documents, sort_by_person

if TYPE_CHECKING:
    from torch.nn import Module

#: Names that the texts, labels and persons of a call have in the certificate.
_TEXT, _LABEL, _UNIT = "text", "label", "unit"


class MembershipPrivateLM(BaseEstimator):  # type: ignore[misc]
    """Fine-tune a language model in Python; ``fit`` hides every document.

    Guarantee: as :func:`~memberbound.protect_text`: nobody who knows all other documents and sees
    ``released_`` or ``model_`` is right about a document's membership more than ``eta`` above blind
    guessing; with ``groups`` about a person's.
    Theorem: X31 (proofs/networks.md).
    Assumes: one fit; the number of documents or persons, the base model and all parameters are
    public.

    Args:
        lm: folder of the base model; or a torch module whose answers have ``logits``, which is
            copied, for documents that are arrays of token ids.
        eta: η for all steps together.
        classes: with labels, their classes, if these are public; otherwise noisy counts name them.
        length: number of tokens of a document that are used.
        rank: rank of the adapters.
        steps: number of noisy steps.
        sample_rate: probability that a step takes a record.
        rate: size of a step per weight.
        insecure_seed: a seed for rehearsals, which protects nobody.

    After ``fit``: ``released_`` (adapters with their budget), ``certificate_``, ``model_`` (the
    model with the adapters merged into it) and ``classes_``.
    """

    released_: PrivateText
    model_: Module

    def __init__(
        self,
        lm: object,
        *,
        eta: float = 0.05,
        classes: Sequence[object] | None = None,
        length: int | None = None,
        rank: int | None = None,
        steps: int | None = None,
        sample_rate: float | None = None,
        rate: float | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.lm = lm
        self.eta = eta
        self.classes = classes
        self.length = length
        self.rank = rank
        self.steps = steps
        self.sample_rate = sample_rate
        self.rate = rate
        self.insecure_seed = insecure_seed

    def fit(
        self,
        texts: Sequence[object],
        labels: Sequence[object] | None = None,
        *,
        groups: Sequence[object] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> MembershipPrivateLM:
        """Train adapters on texts, or on arrays of token ids; with labels a classifier.

        ``groups`` names the person of every text: all texts of a person are one record.
        ``progress`` is called with the work that is done and the whole.
        """
        for name, column in (("labels", labels), ("groups", groups)):
            if column is not None and len(column) != len(texts):
                raise InputError(
                    f"{name} must have a value for each of {len(texts)} texts, got {len(column)}."
                )
        if isinstance(self.lm, torch_module().nn.Module):
            if labels is not None:
                raise InputError("lm must be a folder for texts with labels, got a module.")
            run = self._tokens_run(cast("Sequence[NDArray[np.int64]]", texts), groups)
            self.released_ = run.train(progress=progress)
        else:
            base = TextBase(
                check_folder(str(self.lm), "lm"),
                _TEXT,
                None if labels is None else _LABEL,
                self.classes,
            )
            columns = {_TEXT: texts, _LABEL: labels, _UNIT: groups}
            documents = arrange_documents(
                {name: part for name, part in columns.items() if part is not None},
                _TEXT,
                unit=None if groups is None else _UNIT,
                label=None if labels is None else _LABEL,
            )
            training = base.training(documents.records, self.eta, **self._settings)
            plan = TextPlan(base, documents, training, self.eta, self.insecure_seed)
            run, state = plan.start(UnstoredRun())
            self.released_ = run.train(state=state, progress=progress)
            self._base = base
        tensors = {k: torch_module().from_numpy(v) for k, v in self.released_.tensors.items()}
        self.model_ = merge_tensors(run.model, self._config, tensors, "lm")
        return self

    @property
    def _settings(self) -> dict[str, Any]:
        names = ("length", "rank", "steps", "sample_rate", "rate")
        return {name: getattr(self, name) for name in names}

    @property
    def _config(self) -> Mapping[str, object]:
        return self.released_.adapter_config(self._base_name)

    @property
    def _base_name(self) -> str:
        named = isinstance(self.lm, (str, Path))
        return Path(cast("str | Path", self.lm)).name if named else type(self.lm).__name__

    def _tokens_run(
        self, tokens: Sequence[NDArray[np.int64]], groups: Sequence[object] | None
    ) -> TextRun:
        """Return the training of a module in memory on arrays of token ids."""
        model = copy.deepcopy(cast("Module", self.lm)).float().eval()
        check_causal(model)
        length = check_length(model, self.length)
        settings = self._settings | {"length": length, "most_rank": largest_rank(model)}
        size = int(cast("Any", model).get_input_embeddings().num_embeddings)
        coded = [_token_ids(ids, size)[:length] for ids in tokens]
        starts = None
        if groups is not None:
            order, starts = sort_by_person(groups)
            coded = [coded[index] for index in order]
        records = TextRecords(coded, length, starts)
        training = default_training(len(records), self.eta, **settings)
        unit = None if groups is None else _UNIT
        return TextRun(model, training, records, self.eta, unit, self.insecure_seed)

    @property
    def certificate_(self) -> Certificate:
        """The certificate of η for every document, or every person."""
        check_is_fitted(self)
        return self.released_.certificate_

    @property
    def classes_(self) -> NDArray[np.object_]:
        """The classes, in the order of the probabilities."""
        return np.array(self._classifier().class_names, dtype=object)

    def predict(self, texts: Sequence[object]) -> NDArray[np.object_]:
        """Return the most probable class of every text."""
        classifier = self._classifier()
        return classifier.predict_encoded(classifier.tokenize(texts))

    def predict_proba(self, texts: Sequence[object]) -> FloatArray:
        """Return the probabilities of the classes of every text."""
        classifier = self._classifier()
        return classifier.probabilities(classifier.tokenize(texts))

    def _classifier(self) -> TextClassifier:
        check_is_fitted(self)
        classes = self.released_.classes
        if classes is None:
            raise AttributeError("a language model has no classes: fit it to labels.")
        length, fields = self.released_.training.length, self.released_.certificate_fields()
        tokenizer = self._base.tokenizer
        return TextClassifier(
            self.model_, tokenizer, _TEXT, length, classes.names, fields, classes.both_ways
        )

    def save(self, out: str | Path) -> Path:
        """Write the adapters, their certificate and a page for people to a new folder."""
        check_is_fitted(self)
        target = check_folder_free(out)
        write_release(self.released_, target, self._base_name)
        return target


def _token_ids(ids: object, size: int) -> NDArray[np.int64]:
    """Return the ids of one document, none if one of them is no token of the model."""
    try:
        found = np.asarray(ids, dtype=np.int64).ravel()
    except (TypeError, ValueError, OverflowError):
        return np.zeros(0, dtype=np.int64)
    inside = bool(((found >= 0) & (found < size)).all())
    return found if inside else np.zeros(0, dtype=np.int64)
