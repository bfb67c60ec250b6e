"""What does η for every document cost a language model (X31)?

    python benchmarks/text.py --folder DIR [--documents 1000 5000] [--eta 0.05 0.2]

A small GPT-2 is pre-trained on docstrings of installed packages and fine-tuned on bodies of
functions: usually (all weights, two epochs), and by ``protect-text``'s training.  Printed are the
mean loss per document on 1000 documents held back, the share of the usual gain that is kept, the
AUC of the ratio attack with its interval, and CPU seconds.  Finished lines are kept in
``DIR/results.jsonl`` and not computed again.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from text_data import documents
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import memberbound
from memberbound.release.all_rows import text as leaf
from memberbound.release.all_rows.text_adapters import Batch, language_losses
from memberbound.release.all_rows.text_training import TextRecords

WIDTH, LENGTH, VOCABULARY, HELD = 64, 32, 1024, 1000
#: Seconds of pre-training, and the rate and epochs of usual fine-tuning (the better of two rates).
PRETRAINING, RATE, EPOCHS, ROWS = 80.0, 3e-3, 2, 16


def descend(model: Any, records: TextRecords, rows: int, rate: float, steps: Any) -> None:
    """Train all weights; ``steps`` yields the share of the training that is done."""
    order, start = np.random.default_rng(0).permutation(len(records)), 0
    optimizer = torch.optim.AdamW(model.requires_grad_(True).parameters(), lr=rate)
    for done in steps:
        chosen = np.take(order, range(start, start + rows), mode="wrap")
        start += rows
        for group in optimizer.param_groups:
            group["lr"] = rate * max(0.05, 1 - done)
        optimizer.zero_grad()
        language_losses(model, records.batch(chosen, rows, LENGTH)).mean().backward()
        optimizer.step()
    model.requires_grad_(False).eval()


def seconds(limit: float) -> Any:
    start = time.process_time()
    while (done := (time.process_time() - start) / limit) < 1:
        yield done


def make_base(folder: Path) -> None:
    texts = documents("docstrings")[:30_000]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    how = {"vocab_size": VOCABULARY, "initial_alphabet": alphabet, "show_progress": False}
    trainer = trainers.BpeTrainer(special_tokens=["<s>"], **how)
    tokenizer.train_from_iterator(texts[:20_000], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")
    sizes = {"n_positions": LENGTH, "n_embd": WIDTH, "n_layer": 2, "n_head": 4}
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0, **sizes, **drops
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    records = TextRecords(leaf.encode_documents(fast, texts, LENGTH), LENGTH)
    descend(model, records, 32, 3e-3, seconds(PRETRAINING))
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def losses(model: Any, records: TextRecords) -> Any:
    found = []
    with torch.no_grad():
        for start in range(0, len(records), 100):
            rows = np.arange(start, min(start + 100, len(records)))
            batch: Batch = records.batch(rows, len(rows), LENGTH)
            found.append(language_losses(model, batch).double().numpy())
    return np.concatenate(found)


def report(kind: dict[str, Any], model: Any, base: Any, data: Any, cpu: float) -> dict[str, Any]:
    """Return a line: loss held back, and the ratio attack on as many members and others."""
    members, held = data
    inside = losses(base, members) - losses(model, members)
    after = losses(model, held)
    scores = np.concatenate([inside, losses(base, held) - after])
    table = pd.DataFrame({"score": scores, "member": np.arange(len(scores)) < len(inside)})
    (attack,) = memberbound.audit(table).to_dict()["attacks"].values()
    auc = attack["auc"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {**kind, "loss": float(after.mean()), "auc": auc, "cpu": cpu, "megabytes": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--documents", type=int, nargs="+", default=[1000, 5000, 20_000])
    parser.add_argument("--eta", type=float, nargs="+", default=[0.05, 0.1, 0.2, 0.3])
    given = parser.parse_args()
    torch.set_num_threads(1)
    base = given.folder / "base"
    if not base.exists():
        make_base(base)
    file = given.folder / "results.jsonl"
    known = [json.loads(line) for line in file.open()] if file.exists() else []
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    texts = documents("code")
    coded = leaf.encode_documents(tokenizer, texts[: HELD + max(given.documents)], LENGTH)
    held = TextRecords(coded[:HELD], LENGTH)

    def load() -> Any:
        return transformers.GPT2LMHeadModel.from_pretrained(base).eval()

    for count in given.documents:
        records = TextRecords(coded[HELD : HELD + count], LENGTH)
        data = (TextRecords(records.documents[:HELD], LENGTH), held)
        for eta in (None, 0.0, *given.eta):
            kind = {"documents": count, "eta": eta}
            if any(kind.items() <= line.items() for line in known):
                continue
            model, start = load(), time.process_time()
            if eta is None:
                steps = len(records) * EPOCHS // ROWS
                descend(model, records, ROWS, RATE, (k / steps for k in range(steps)))
                line = report(kind, model, load(), data, time.process_time() - start)
            elif eta:
                settings = leaf.default_training(count, eta, length=LENGTH)
                run = leaf.TextRun(model, settings, records, eta)
                run.train()
                cpu = time.process_time() - start
                with run.adapted.attach():
                    line = report(kind, model, load(), data, cpu)
                kind |= {"rank": settings.rank, "sample_rate": settings.sample_rate}
                line |= kind | {"weights": run.adapted.size}
            else:
                line = report(kind, model, load(), data, 0.0)
            known.append(line)
            with file.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
