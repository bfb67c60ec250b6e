"""What does η for every document cost a language model (X31)?

    python benchmarks/text.py --folder DIR [--documents 1000 5000] [--eta 0.05 0.2] [--rivals]

A small GPT-2 is pre-trained on docstrings of installed packages and fine-tuned on paragraphs of C++
headers: usually (all weights, two epochs), and by ``protect-text``'s training.  Printed are the
mean loss per document on 1000 documents held back, the AUC of the ratio attack and of the best of
``audit-text``'s, their intervals, and CPU seconds.  With ``--rivals`` also Opacus, with the same
noise, and the time of a step.  Finished lines are kept in ``DIR/results.jsonl`` and not computed
again; ``docs/pictures/draw_text.py`` draws them.
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
from memberbound.learners.language_models import token_table
from memberbound.release.all_rows import text as leaf
from memberbound.release.all_rows.text_adapters import Batch, language_losses
from memberbound.release.all_rows.text_settings import default_training
from memberbound.release.all_rows.text_training import TextRecords, sum_clipped_gradients

WIDTH, LENGTH, VOCABULARY, HELD = 64, 32, 1024, 1000
#: Seconds of pre-training, and the rate and epochs of usual fine-tuning (the better of two rates).
PRETRAINING, RATE, EPOCHS, ROWS = 80.0, 3e-3, 2, 16
#: Members and others that are attacked; rank and rates (the better is kept) of Opacus' adapters,
#: documents of its blocks.
ATTACKED, RANK, RATES, BLOCK = 800, 4, (3e-3, 1e-2), 64


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


def attack(lm: Any, base: Any, members: TextRecords, held: TextRecords) -> dict[str, Any]:
    """Return the AUC of the ratio attack and of the best one, and the best advantage of all."""
    both = [*members.documents[:ATTACKED], *held.documents[:ATTACKED]]
    texts = [lm[1].decode(ids[1:]) for ids in both]
    member = [k < ATTACKED for k in range(len(both))]
    frame = pd.concat([part.to_pandas() for part in token_table(lm, base, texts, member)])
    found = memberbound.audit_text(tokens=frame).to_dict()
    aucs = {name: each["auc"] for name, each in found["attacks"].items()}
    best = max(aucs, key=lambda name: aucs[name]["estimate"])
    attacks = {"auc": aucs["ratio"], "learned_auc": aucs["learned"]}
    return attacks | {"best": best, "best_auc": aucs[best], "advantage": found["best_advantage"]}


def opacus_steps(model: Any, records: TextRecords, run: Any, rate: float, steps: int) -> Any:
    """Train peft's adapters by Opacus' low-level classes, with the samples and noise of a run."""
    import opacus
    import peft

    config = peft.LoraConfig(r=RANK, target_modules=["c_attn", "c_fc", "c_proj"], lora_alpha=RANK)
    tuned = peft.get_peft_model(model, config)
    wrapped = opacus.GradSampleModule(tuned, loss_reduction="sum")
    training, trained = run.training, [p for p in tuned.parameters() if p.requires_grad]
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.Adam(trained, lr=rate),
        noise_multiplier=run.scale / training.clip,
        max_grad_norm=training.clip,
        expected_batch_size=round(training.sample_rate * len(records)),
        loss_reduction="mean",
    )
    rng = np.random.default_rng(0)
    for _ in range(steps):
        chosen = np.flatnonzero(rng.random(len(records)) < training.sample_rate)
        parts = np.array_split(chosen, -(-len(chosen) // BLOCK))
        for number, part in enumerate(parts, 1):
            optimizer.signal_skip_step(do_skip=number < len(parts))
            language_losses(wrapped, records.batch(part, len(part), LENGTH)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return wrapped.to_standard_module().merge_and_unload().requires_grad_(False).eval()


def step_seconds(load: Any, records: TextRecords, run: Any) -> dict[str, float]:
    """Return CPU seconds of a step: private, the same without privacy, and of all weights."""
    adapted, sample = run.adapted, np.arange(round(run.training.sample_rate * len(records)))

    def private() -> None:
        sum_clipped_gradients(adapted, records, sample, run.training.clip)

    def usual() -> None:
        for adapter in adapted.adapters:
            adapter.middle = adapter.middle.detach().requires_grad_(True)
        for _, batch in records.blocks(sample, adapted.vocabulary):
            language_losses(adapted.model, batch).sum().backward()
        for adapter in adapted.adapters:
            adapter.middle = adapter.middle.detach()

    found = {}
    with adapted.attach():
        for name, step in (("private", private), ("usual", usual)):
            step()
            start = time.process_time()
            for _ in range(2):
                step()
            found[name] = (time.process_time() - start) / 2
    model, start = load(), time.process_time()
    descend(model, records, BLOCK, RATE, [0.0] * len(sample[::BLOCK]))
    found["all weights"] = time.process_time() - start
    return found


def measure(line: dict[str, Any], base: Path, records: TextRecords, held: TextRecords) -> Any:
    """Train as a line says, and return it with what was measured."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)

    def load() -> Any:
        return transformers.GPT2LMHeadModel.from_pretrained(base).eval()

    def finish(model: Any, cpu: float, **more: Any) -> dict[str, Any]:
        found = {"loss": float(losses(model, held).mean()), "cpu": cpu, **more}
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if name != "base":
            found |= attack((model, tokenizer), (load(), tokenizer), records, held)
        return {**line, **found, "megabytes": memory}

    name, eta, model, start = line["training"], line["eta"], load(), time.process_time()
    if name == "base":
        return finish(model, 0.0)
    if name == "usual":
        steps = len(records) * EPOCHS // ROWS
        descend(model, records, ROWS, RATE, (k / steps for k in range(steps)))
        return finish(model, time.process_time() - start)
    settings = default_training(len(records), eta, length=LENGTH)
    run = leaf.TextRun(model, settings, records, eta)
    if name == "private":
        run.train()
        more = {"rank": settings.rank, "sample_rate": settings.sample_rate}
        more |= {"steps": settings.steps, "weights": run.adapted.size, "scale": run.scale}
        with run.adapted.attach():
            return finish(model, time.process_time() - start, **more)
    if name == "opacus":
        start = time.process_time()
        tried = [opacus_steps(load(), records, run, rate, settings.steps) for rate in RATES]
        cpu = (time.process_time() - start) / len(RATES)
        best = min(tried, key=lambda each: float(losses(each, held).mean()))
        return finish(best, cpu, rank=RANK)
    return line | step_seconds(load, records, run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--documents", type=int, nargs="+", default=[1000, 5000, 20_000])
    parser.add_argument("--eta", type=float, nargs="+", default=[0.05, 0.1, 0.2, 0.3])
    parser.add_argument("--rivals", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    base, file = given.folder / "base", given.folder / "results.jsonl"
    if not base.exists():
        make_base(base)
    known = [json.loads(line) for line in file.open()] if file.exists() else []
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    texts = documents("headers")
    coded = leaf.encode_documents(tokenizer, texts[: HELD + max(given.documents)], LENGTH)
    held = TextRecords(coded[:HELD], LENGTH)
    todo: list[tuple[str, float | None]] = [("base", None), ("usual", None)]
    todo += [("private", eta) for eta in given.eta]
    if given.rivals:
        todo += [("steps", given.eta[0]), *(("opacus", eta) for eta in given.eta)]
    for count in given.documents:
        records = TextRecords(coded[HELD : HELD + count], LENGTH)
        for name, eta in todo:
            line = {"training": name, "documents": count, "eta": eta}
            if any(line.items() <= old.items() for old in known):
                continue
            done = json.dumps(measure(line, base, records, held))
            with file.open("a") as lines:
                lines.write(done + "\n")
            print(done, flush=True)


if __name__ == "__main__":
    main()
