"""Files of a language model's training: the published folder, and the state of a stopped run."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import numpy as np

from memberbound.errors import InputError
from memberbound.files import make_private_folder, sync_folder, write_atomically, write_text
from memberbound.learners.adapters import CONFIG_FILE, WEIGHTS_FILE
from memberbound.quantities import percent
from memberbound.release.all_rows.text import Canaries, PrivateText
from memberbound.release.all_rows.text_training import TrainingState
from memberbound.release.release_file import json_page, safetensors, tensor_writer
from memberbound.release.saving import save
from memberbound.tables.texts import json_lines

#: Ending of the folder of an incomplete run, next to the output folder.
RUN_ENDING, _DRAFT_ENDING = ".run", ".draft"
_STATE_FILE, _ABOUT = "state.safetensors", "memberbound"
#: Seconds between two stored states.
_SECONDS = 10.0


def check_folder_free(out: str | Path) -> Path:
    """Return the path of a new folder, or raise before any work is done."""
    path = Path(out)
    if path.exists():
        raise InputError(f"out must not exist yet, got {str(out)!r}. Name another folder.")
    if not path.parent.is_dir():
        raise InputError(f"out must be in an existing folder, got {str(out)!r}.")
    return path


def write_release(released: PrivateText, out: Path, base: str) -> None:
    """Write the published folder: adapters, certificate and model card.

    The folder appears complete or not at all.
    """
    draft = out.with_name(out.name + _DRAFT_ENDING)
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir()
    try:
        save(released, draft / WEIGHTS_FILE)
        write_text(json_page(released.adapter_config(base)), draft / CONFIG_FILE)
        write_text(model_card(released, base), draft / "README.md")
        sync_folder(draft)
        draft.rename(out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_folder(out.parent)


def model_card(released: PrivateText, base: str) -> str:
    """Return the model card: the guarantee, its limits, and how to use the adapters."""
    budget, training = released.budget, released.training
    who = "document" if budget.unit is None else "person"
    most = percent(budget.success_upper(released.certificate_.value), "upper")
    steps = budget.training
    noise = f"{steps.noise_multiplier:.6g}, {steps.sample_rate:g}, {steps.steps}"
    assumptions = "\n".join(f"* {text}" for text in released.certificate_.assumptions)
    return f"""---
library_name: peft
tags: [lora, differential-privacy, membership-inference]
---
# Adapters that hide every {who}

Nobody who knows all other {who}s, the base model `{base}` and these adapters is right about whether
any one {who} was trained on more than {most} of the time (guessing blindly: 50 %).

| | |
|---|---|
| {who}s | {released.records} |
| η | {percent(released.certificate_.value, "upper")} |
| noise multiplier, sampling rate, steps | {noise} |
| rank, tokens of a document at most | {training.rank}, {training.length} |

Not promised: facts that many {who}s share, their common style, and texts that the base model knew
before. Anything made from the adapters (merging, texts, further training on other data) keeps the
promise.

## What the promise assumes

{assumptions}

## Use

{_use(released, base)}

`{WEIGHTS_FILE}.certificate.json` holds the certificate and everything that it is computed from.
"""


def _use(released: PrivateText, base: str) -> str:
    kind, given = "AutoModelForCausalLM", ""
    before, after = "", ""
    if released.classes is not None:
        names = released.classes.names
        kind, given = "AutoModelForSequenceClassification", f", num_labels={len(names)}"
        before = (
            f"Classes, in the order of the scores: {', '.join(map(repr, names))}. `memberbound "
            f"predict FOLDER texts.jsonl --lm {base}` classifies documents.\n\n"
        )
        after = (
            "\n\nPad at the end with the token that `config.pad_token_id` names; with a tokenizer "
            f"that has no padding token, set it to the end token. Cut documents to "
            f"{released.training.length} tokens."
        )
    return f"""{before}```python
from peft import PeftModel
from transformers import {kind}

base = {kind}.from_pretrained("{base}"{given})
model = PeftModel.from_pretrained(base, "this folder")
```{after}"""


class UnstoredRun:
    """A run without an output folder, which always starts from the beginning."""

    entry_id: str | None = None

    def state(self, size: int) -> TrainingState:
        """Return the state before the first step."""
        return TrainingState.start(size)

    def begin(self) -> None:
        """Store nothing."""

    def classes(self) -> tuple[str, ...] | None:
        """Return the classes that were named before the run was stopped: none."""
        return None

    def keep_classes(self, names: tuple[str, ...]) -> None:
        """Store nothing."""

    def keep(self, state: TrainingState) -> None:
        """Store nothing."""

    def remove(self) -> None:
        """Remove nothing."""


@dataclass
class StoredRun(UnstoredRun):
    """The private folder of an incomplete run; it holds noisy states and public settings only."""

    folder: Path
    settings: Mapping[str, object]
    #: Id of the run's ledger entry, stored before the entry is written.
    entry_id: str | None = None
    _written: float | None = None
    _names: tuple[str, ...] | None = None

    @property
    def file(self) -> Path:
        """The file with the last stored state."""
        return self.folder / _STATE_FILE

    def keep(self, state: TrainingState) -> None:
        """Store a state, at most every few seconds."""
        if self._written is not None and monotonic() - self._written < _SECONDS:
            return
        make_private_folder(self.folder)
        arrays = {k: getattr(state, k) for k in ("weights", "momentum", "mean")}
        about = {
            "step": state.step,
            "entry": self.entry_id,
            "settings": dict(self.settings),
            "classes": self._names,
        }
        write = tensor_writer(arrays, {_ABOUT: json.dumps(about, sort_keys=True)})
        write_atomically(self.file, write, True, private=True)
        self._written = monotonic()

    def state(self, size: int) -> TrainingState:
        """Return the stored state of the run."""
        state = self._read()
        # Before its first step, the number of weights may not be known.
        if not state.weights.size:
            return TrainingState.start(size)
        if state.weights.shape != (size,):
            raise self._other("lm")
        return state

    def begin(self) -> None:
        """Store a new run, or check that a stored one has the same settings."""
        if self.file.is_file():
            self._read()
        else:
            self.keep(TrainingState.start(0))

    def classes(self) -> tuple[str, ...] | None:
        """Return the classes that were named before the run was stopped, if they were."""
        self._read()
        return self._names

    def keep_classes(self, names: tuple[str, ...]) -> None:
        """Store the classes, which come from noisy counts."""
        self._names, self._written = names, None
        self.keep(TrainingState.start(0))

    def _read(self) -> TrainingState:
        """Return the stored state, of a run with the same settings."""
        try:
            with safetensors("safetensors").safe_open(str(self.file), framework="numpy") as file:
                about = json.loads((file.metadata() or {})[_ABOUT])
                arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
            state = TrainingState(int(about["step"]), **arrays)
            stored, self.entry_id = about["settings"], str(about["entry"])
            named = about["classes"]
            self._names = None if named is None else tuple(map(str, named))
        except Exception as error:  # parsing a damaged file may raise anything
            raise InputError(
                f"resume must find the state of the stopped run, got {_STATE_FILE}, which is "
                f"damaged ({type(error).__name__}). Remove {str(self.folder)!r} and start again."
            ) from None
        wanted = json.loads(json.dumps(dict(self.settings)))
        different = [k for k in wanted if stored.get(k) != wanted[k]]
        if different:
            raise self._other(different[0])
        return state

    def _other(self, what: str) -> InputError:
        return InputError(
            f"resume must continue with the settings of the stopped run, got another {what}. "
            f"Give the same ones, or remove {str(self.folder)!r}."
        )

    def remove(self) -> None:
        """Remove the folder once the release is written."""
        shutil.rmtree(self.folder, ignore_errors=True)


def check_run(out: Path | None, *, resume: bool) -> None:
    """Require a stopped run of an output folder if it is to be resumed, and none otherwise."""
    if out is None:
        if resume:
            raise InputError("resume must come with out, the folder of the stopped run.")
        return
    folder = out.with_name(out.name + RUN_ENDING)
    stopped = (folder / _STATE_FILE).is_file()
    if stopped and not resume:
        raise InputError(
            f"out must not have a stopped run, got {str(folder)!r}. Continue it with --resume, "
            "or remove that folder."
        )
    if resume and not stopped:
        raise InputError(f"resume must find a stopped run of {str(out)!r}, got none.")


def open_run(out: Path | None, settings: Mapping[str, object], *, resume: bool) -> UnstoredRun:
    """Return the stored run of an output folder, or a new one."""
    check_run(out, resume=resume)
    if out is None:
        return UnstoredRun()
    return StoredRun(out.with_name(out.name + RUN_ENDING), settings, secrets.token_hex(8))


# ── Canaries: for the owner only ──────────────────────────────────────────────────────────────────


def load_canaries(out: Path | None, *, resume: bool) -> Canaries | None:
    """Return the canaries of a stopped run."""
    if not resume or out is None:
        return None
    path = _canary_file(out)
    if not path.is_file():
        raise InputError(f"resume must find the canaries of the stopped run, got no {path.name!r}.")
    rows = list(json_lines(path, "canaries"))
    texts = tuple(str(row["text"]) for row in rows)
    labels = tuple(str(row["label"]) for row in rows) if rows and "label" in rows[0] else None
    coins = np.array([row["member"] == 1 for row in rows], dtype=np.bool_)
    return Canaries(texts, coins, labels)


def store_canaries(out: Path | None, canaries: Canaries, *, resume: bool) -> None:
    """Write canaries and coin flips next to the output folder, in the format of ``audit-text``."""
    if out is None or resume:
        return
    pairs = zip(canaries.texts, canaries.coins.tolist(), strict=True)
    rows: list[dict[str, object]] = [{"text": words, "member": int(coin)} for words, coin in pairs]
    if canaries.labels is not None:
        rows = [row | {"label": label} for row, label in zip(rows, canaries.labels, strict=True)]
    lines = [json.dumps(row) + "\n" for row in rows]
    write_text("".join(lines), _canary_file(out), private=True)


def _canary_file(out: Path) -> Path:
    return out.with_name(out.name + ".canaries.jsonl")
