"""How do we fine-tune a language model so that no document can be recognised?

A tiny model is pre-trained on paragraphs about arrays and fine-tuned on paragraphs about tables,
with a certificate for every one of them and an attack on canaries of the same training.
"""

import inspect
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import memberbound as mb


def paragraphs(*modules):
    """Paragraphs of the documentation of everything in some modules, in a random order."""
    docs = (inspect.getdoc(getattr(m, name)) or "" for m in modules for name in sorted(dir(m)))
    found = sorted({" ".join(p.split()[:12]) for d in docs for p in d.split("\n\n") if len(p) > 60})
    return [found[k] for k in np.random.default_rng(0).permutation(len(found))]


public = paragraphs(np)[:400]
letters = paragraphs(pd.DataFrame)[:400]
words = {word: index for index, word in enumerate(sorted({*" ".join(public).split()}), 2)}
tokens = Tokenizer(models.WordLevel({"[UNK]": 0, "[BOS]": 1, **words}, unk_token="[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, bos_token="[BOS]")
shape = {"n_embd": 32, "n_layer": 1, "n_head": 2, "bos_token_id": 1, "eos_token_id": 1}
torch.manual_seed(0)
transformers.logging.disable_progress_bar()
base = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, vocab_size=len(words) + 2))
rows = tokenizer([f"[BOS] {text}" for text in public], padding=False)["input_ids"]
optimiser = torch.optim.AdamW(base.parameters(), lr=3e-3)
for row in [row for row in rows if len(row) > 2] * 2:
    optimiser.zero_grad()
    base(input_ids=torch.tensor([row]), labels=torch.tensor([row])).loss.backward()
    optimiser.step()

with TemporaryDirectory() as folder:
    work = Path(folder)
    base.save_pretrained(work / "base")
    tokenizer.save_pretrained(work / "base")
    lines = [json.dumps({"text": text}) + "\n" for text in letters]
    (work / "letters.jsonl").write_text("".join(lines))
    given = {"lm": work / "base", "texts": work / "letters.jsonl", "out": work / "safe"}
    safe = mb.protect_text(**given, length=12, canaries=50, steps=20, insecure_seed=0)
    print(safe.sentence)
    print(safe.summary())
    print(safe.one_run.sentence)

# The same in a training script: a module, and documents that are arrays of token ids.
ids = [np.array(row) for row in tokenizer([f"[BOS] {text}" for text in letters])["input_ids"]]
model = mb.MembershipPrivateLM(base, length=12, steps=5, insecure_seed=0).fit(ids)
print(model.certificate_.summary())
