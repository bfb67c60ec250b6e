"""What does a fine-tuned language model give away about its documents?

A tiny model is pre-trained on some paragraphs of documentation, fine-tuned on others and audited
with held-out ones; the second time it is fine-tuned with noise (DP-SGD, with a public vocabulary).
"""

import copy
import inspect
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import memberbound as mb

documented = (inspect.getdoc(getattr(np, name)) or "" for name in dir(np))
texts = {" ".join(p.split()[:24]) for d in documented for p in d.split("\n\n") if len(p) > 90}
texts = [sorted(texts)[i] for i in np.random.default_rng(0).permutation(len(texts))[:300]]
words = {word: index for index, word in enumerate(sorted({*" ".join(texts).split()}), 2)}
tokens = Tokenizer(models.WordLevel({"[UNK]": 0, "[BOS]": 1, **words}, unk_token="[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, bos_token="[BOS]")
shape = {"n_embd": 36, "n_layer": 1, "bos_token_id": 1, "eos_token_id": 1}
torch.manual_seed(0)
transformers.logging.disable_progress_bar()
base = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, vocab_size=len(words) + 2))


def train(model: torch.nn.Module, batch: list[str], steps: int, noise: float | None) -> None:
    """Follow the mean gradient; with noise, of documents clipped to length 1."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    rows = [torch.tensor([[1, *tokenizer(text)["input_ids"]]]) for text in batch]
    for _ in range(steps):
        total = [torch.zeros_like(p) for p in model.parameters()]
        for row in rows:
            model.zero_grad()
            logits = model(input_ids=row).logits[0, :-1]
            torch.nn.functional.cross_entropy(logits, row[0, 1:]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0 if noise else 1e9)
            total = [t + p.grad for t, p in zip(total, model.parameters(), strict=True)]
        for p, t in zip(model.parameters(), total, strict=True):
            p.grad = (t + (noise or 0) * torch.randn_like(t)) / len(rows)
        optimiser.step()


with TemporaryDirectory() as folder:
    train(base, texts[:100], 5, None)
    for name, noise in (("base", None), ("tuned", None), ("private", 8.0)):
        train(model := copy.deepcopy(base), texts[100:200], 0 if name == "base" else 12, noise)
        model.save_pretrained(f"{folder}/{name}")
        tokenizer.save_pretrained(f"{folder}/{name}")
    table = pd.DataFrame({"text": texts[100:]})
    sides = {"members": table[:100], "nonmembers": table[100:]}
    for name in ("tuned", "private"):
        found = mb.audit_text(lm=f"{folder}/{name}", base=f"{folder}/base", **sides)
        print(f"── {name}: {found.sentence}\n{found.held_to(0.7, 'floor').sentence}\n")
print(mb.explain(noise_multiplier=8.0, sample_rate=1, steps=12, delta=1e-5).sentence)
