"""The verb ``protect-text``: folders, ledgers, stopped runs, canaries and bad input."""

import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pandas
import pytest

from memberbound import InputError, audit_text, ledger, protect_text
from memberbound.attacks.one_run import audit_one_run
from memberbound.attacks.scores import Scores
from memberbound.learners.adapters import merge_adapter
from memberbound.learners.language_models import load_language_model
from memberbound.leaves import load_leaf
from memberbound.release.randomness import InsecureSource
from memberbound.release.saving import check_certificate
from memberbound.tables.texts import read_secret_documents
from optional import Later

torch, transformers = Later("torch"), Later("transformers")
safetensors = Later("safetensors.torch")

from memberbound.release.all_rows.text_training import (  # noqa: E402
    Noise,
    sum_clipped_gradients,
    train_adapters,
)

WORDS = ["red", "green", "blue", "old", "new", "tall", "small", "fast", "slow", "warm", "cold"]
KEYS = {
    "eta": float,
    "documents": int,
    "persons": (int, type(None)),
    "sigma": float,
    "sample_rate": float,
    "steps": int,
    "curve": dict,
    "loss_base": (float, type(None)),
    "loss_released": (float, type(None)),
    "loss_usual": (float, type(None)),
    "certificate": dict,
    "out": (str, type(None)),
}
SMALL = {"eta": 0.2, "length": 8, "steps": 4, "rank": 2, "insecure_seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a tiny base model, and letters in three formats."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    root = tmp_path_factory.mktemp("text")
    known = {word: index for index, word in enumerate(["<s>", "?", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", unk_token="?"
    ).save_pretrained(root / "base")
    torch.manual_seed(0)
    sizes = {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(vocab_size=len(known), bos_token_id=0, eos_token_id=0, **sizes)
    transformers.GPT2LMHeadModel(config).save_pretrained(root / "base")
    rng = np.random.default_rng(0)
    letters = [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(200)]
    rows = [{"text": text, "who": f"p{k % 90}"} for k, text in enumerate(letters)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (root / "letters.jsonl").write_text(lines)
    csv = "".join(f"{row['text']},{row['who']}\n" for row in rows)
    (root / "letters.csv").write_text(f"text,who\n{csv}")
    (root / "letters.txt").write_text("\n".join(letters))
    return root


def protect_texts(folder, **options):
    given = {"lm": folder / "base", "texts": folder / "letters.jsonl", "trial": False}
    return protect_text(**(given | SMALL | options))


def test_answer_and_folder_are_those_of_the_contract(folder, tmp_path):
    answer = protect_texts(folder, out=tmp_path / "safe", trial=True)
    fields = answer.to_dict()
    for key, kind in KEYS.items():
        assert isinstance(fields[key], kind), key
    assert fields["command"] == "protect-text"
    assert fields["game"] == "neighbour"
    assert fields["protects"] == "every record"
    assert answer.certificate.value <= 0.2
    assert all(loss > 0 for loss in (answer.loss_base, answer.loss_released, answer.loss_usual))
    losses = {"loss_base", "loss_released", "loss_usual"}
    assert set(answer.owner_only) == losses | {"examples", "one_run", "warnings"}
    assert len(fields["examples"]) == 3
    assert {word for text in fields["examples"] for word in text.split()} <= {*WORDS, "?"}
    assert sum("it writes" in line for line in answer.summary().splitlines()) == 3
    names = {path.name for path in (tmp_path / "safe").iterdir()}
    weights = "adapter_model.safetensors"
    certificate = f"{weights}.certificate.json"
    assert names == {"adapter_config.json", weights, certificate, "README.md"}
    stated = check_certificate(tmp_path / "safe" / weights)
    assert stated["certificate"]["upper"] == answer.certificate.value
    published = "".join((tmp_path / "safe" / n).read_text() for n in names - {weights})
    for loss in (answer.loss_base, answer.loss_released, answer.loss_usual):
        assert repr(loss)[:8] not in published
    assert not (tmp_path / "safe.run").exists()
    assert "200" in answer.sentence
    assert "70 %" in answer.sentence


def test_the_owner_gets_notes_on_empty_and_similar_documents(folder):
    rows = [json.loads(line) for line in (folder / "letters.jsonl").read_text().splitlines()]
    texts = [f"{row['text']} only{number}" for number, row in enumerate(rows)]
    texts = ["".join(chr(97 + int(c)) if c.isdigit() else c for c in text) for text in texts]
    texts[:4] = ["red green, 7", "Green red 8", " ", "12"]
    notes = protect_texts(folder, texts=pandas.DataFrame({"text": texts})).warnings
    assert any(note.startswith("2 documents have the same words as another one") for note in notes)
    assert any(note.startswith("1 of 200 documents are empty") for note in notes)


def test_formats_of_texts_agree(folder):
    tensors = [
        protect_texts(folder, texts=folder / f"letters.{ending}").released.tensors
        for ending in ("jsonl", "csv", "txt")
    ]
    for other in tensors[1:]:
        assert all(np.array_equal(other[name], tensors[0][name]) for name in tensors[0])


def test_adapters_change_and_merging_them_changes_nothing_else(folder, tmp_path):
    answer = protect_texts(folder, out=tmp_path / "safe")
    model, _ = load_language_model(folder / "base", "lm")
    before = {name: t.clone() for name, t in model.state_dict().items()}
    ids = torch.arange(8)[None]
    plain = model(input_ids=ids).logits
    merged = merge_adapter(model, tmp_path / "safe", "lm")
    layers = {f"{name}.weight" for name in answer.released.layers}
    changed = {n for n, t in merged.state_dict().items() if not torch.equal(t, before[n])}
    assert changed == layers
    assert len(layers) == 4
    assert not torch.allclose(merged(input_ids=ids).logits, plain)


@pytest.mark.skipif(Later.missing("peft"), reason="peft is not installed")
def test_peft_reads_and_merges_the_folder(folder, tmp_path):
    from peft import PeftModel

    protect_texts(folder, out=tmp_path / "safe")
    ids = torch.arange(8)[None]
    ours, _ = load_language_model(folder / "base", "lm")
    expected = merge_adapter(ours, tmp_path / "safe", "lm")(input_ids=ids).logits
    base, _ = load_language_model(folder / "base", "lm")
    theirs = PeftModel.from_pretrained(base, str(tmp_path / "safe")).eval()
    assert torch.allclose(theirs(input_ids=ids).logits, expected, atol=1e-5)
    assert torch.allclose(theirs.merge_and_unload()(input_ids=ids).logits, expected, atol=1e-5)


def test_persons_count_once(folder):
    answer = protect_texts(folder, unit="who")
    assert (answer.documents, answer.persons) == (200, 90)
    assert "X26" in answer.theorems
    assert "persons" in answer.sentence
    with pytest.raises(InputError, match="texts must be a table"):
        protect_texts(folder, unit="who", texts=folder / "letters.txt")


def test_a_value_that_is_not_text_is_a_record_without_influence(folder, tmp_path):
    """Replay: a document that becomes a number, a null or a list is not refused."""
    rows = [json.loads(line) for line in (folder / "letters.jsonl").read_text().splitlines()]
    found = []
    for value in ("", None, 7, ["red"], "\ud800", "?" * 10**6):
        rows[3]["text"] = value
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "letters.jsonl").write_text(lines)
        answer = protect_texts(folder, texts=tmp_path / "letters.jsonl")
        assert answer.documents == 200
        found.append(answer.released)
    assert len({repr(each.budget) for each in found}) == 1
    empty, null, number, listed, _, _ = (each.tensors for each in found)
    for other in (null, number, listed):
        assert all(np.array_equal(other[name], empty[name]) for name in empty)


def test_a_run_that_is_stopped_continues(folder, tmp_path, monkeypatch):
    from memberbound.release import text_files

    monkeypatch.setattr(text_files, "_SECONDS", 0.0)
    whole = protect_texts(folder, out=tmp_path / "whole")
    seen = []

    def stop(stage, done, total):
        seen.append(done / total)
        if done / total > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect_texts(folder, out=tmp_path / "safe", progress=stop)
    assert not (tmp_path / "safe").exists()
    assert (tmp_path / "safe.run").stat().st_mode & 0o77 == 0
    with pytest.raises(InputError, match="stopped run"):
        protect_texts(folder, out=tmp_path / "safe")
    with pytest.raises(InputError, match="another eta"):
        protect_texts(folder, out=tmp_path / "safe", resume=True, eta=0.3)
    again = []
    rest = protect_texts(
        folder,
        out=tmp_path / "safe",
        resume=True,
        progress=lambda _stage, done, total: again.append(done / total),
    )
    assert min(again) >= 0.5
    assert rest.certificate == whole.certificate
    names = whole.released.tensors
    assert all(np.array_equal(rest.released.tensors[n], names[n]) for n in names)
    assert not (tmp_path / "safe.run").exists()
    with pytest.raises(InputError, match="must find a stopped run"):
        protect_texts(folder, out=tmp_path / "third", resume=True)


def test_a_stored_state_holds_no_text(folder, tmp_path, monkeypatch):
    from memberbound.release import text_files

    monkeypatch.setattr(text_files, "_SECONDS", 0.0)

    def stop(_stage, done, total):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect_texts(folder, out=tmp_path / "safe", progress=stop, sample_rate=1.0)
    (file,) = (tmp_path / "safe.run").iterdir()
    content = file.read_bytes()
    assert not any(word.encode() in content for word in WORDS)
    assert set(safetensors.load_file(str(file))) == {"weights", "momentum", "mean"}


def test_a_ledger_is_charged_once_however_often_the_run_is_stopped(folder, tmp_path):
    book = tmp_path / "ledger.json"
    ledger(book, limit_eta=0.25)
    options = {"out": tmp_path / "safe", "ledger": book, "insecure_seed": None}

    def stop(_stage, done, _total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect_texts(folder, progress=stop, **options)
    (entry,) = json.loads(book.read_text())["releases"]
    assert entry["state"] == "reserved"
    answer = protect_texts(folder, resume=True, **options)
    (after,) = json.loads(book.read_text())["releases"]
    assert {**after, "state": "reserved", "out": None} == entry
    assert (after["state"], after["out"]) == ("released", str(tmp_path / "safe"))
    stated = check_certificate(tmp_path / "safe" / "adapter_model.safetensors")
    assert stated["ledger"]["entry"] == after["id"]
    assert answer.sample_rate == 1.0
    assert after["mu"] == answer.mu
    with pytest.raises(InputError, match="left of its limit"):
        protect_texts(folder, **(options | {"out": tmp_path / "second"}))
    assert not (tmp_path / "second").exists()
    with pytest.raises(InputError, match="sample_rate must be 1"):
        protect_texts(folder, **(options | {"out": tmp_path / "third", "sample_rate": 0.5}))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_run_is_charged_once_and_draws_new_noise(folder, tmp_path, monkeypatch):
    """SIGKILL in the third step: what is repeated has fresh coins and noise, in one entry."""
    from memberbound.release import text_files
    from memberbound.release.all_rows import text_training

    monkeypatch.setattr(text_files, "_SECONDS", 0.0)
    book, drawn = tmp_path / "ledger.json", tmp_path / "drawn"
    ledger(book, limit_eta=0.25)
    options = {"out": tmp_path / "safe", "ledger": book, "insecure_seed": None, "steps": 5}
    measure = text_training.noisy_release

    def noted(total, scale, source):
        noisy = measure(total, scale, source)
        with drawn.open("a") as file:
            file.write(f"{(noisy - total)[:4].tolist()}\n")
        if os.getpid() != parent and len(drawn.read_text().splitlines()) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return noisy

    monkeypatch.setattr(text_training, "noisy_release", noted)
    parent, child = os.getpid(), os.fork()
    if child == 0:  # pragma: no cover
        protect_texts(folder, **options)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert not (tmp_path / "safe").exists()
    answer = protect_texts(folder, resume=True, **options)
    noises = drawn.read_text().splitlines()
    # Two steps were stored; the third one was drawn, never stored, and is drawn anew.
    assert len(noises) == len(set(noises)) == 6
    (entry,) = json.loads(book.read_text())["releases"]
    assert (entry["state"], entry["mu"]) == ("released", answer.mu)
    assert answer.curve == protect_texts(folder, **SMALL | {"steps": 5, "sample_rate": 1.0}).curve


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lm": "nowhere"}, "lm must be a local folder"),
        ({"eta": 0.6}, "eta must be in"),
        ({"length": 17}, "length must be at most 16"),
        ({"length": 1}, "length must be"),
        ({"rank": 0}, "rank must be"),
        ({"rank": 9}, "rank must be at most 8"),
        ({"steps": 0}, "steps must be"),
        ({"sample_rate": 1.5}, "sample_rate must be"),
        ({"rate": -1.0}, "rate must be"),
        ({"text": "words"}, "must have the key 'words'"),
        ({"unit": "text"}, "must be different columns"),
        ({"eta": 0.01}, "texts must have at least 1197 records"),
        ({"resume": True}, "resume must come with out"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(folder, options, sentence):
    with pytest.raises(InputError, match=sentence) as refused:
        protect_texts(folder, **options)
    assert str(refused.value).count("\n") == 0


def test_bad_files_are_refused(folder, tmp_path):
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(InputError, match="must have documents"):
        protect_texts(folder, texts=tmp_path / "none.jsonl")
    (tmp_path / "odd.jsonl").write_text("[1]\n")
    with pytest.raises(InputError, match="JSON object per line"):
        protect_texts(folder, texts=tmp_path / "odd.jsonl")
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="out must not exist"):
        protect_texts(folder, out=tmp_path / "there")
    with pytest.raises(InputError, match="existing folder"):
        protect_texts(folder, out=tmp_path / "no" / "where")
    shutil.copytree(folder / "base", tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "model.bin")
    with pytest.raises(InputError, match="safetensors"):
        protect_texts(folder, lm=tmp_path / "pickled")
    shutil.copytree(folder / "base", tmp_path / "coded")
    (tmp_path / "coded" / "model.py").write_text("")
    with pytest.raises(InputError, match="must not need its own code"):
        protect_texts(folder, lm=tmp_path / "coded")
    shutil.copytree(folder / "base", tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(InputError, match="could not be loaded"):
        protect_texts(folder, lm=tmp_path / "broken")
    (tmp_path / "broken" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="must hold its tokenizer"):
        protect_texts(folder, lm=tmp_path / "broken")


def test_documents_are_read_one_by_one(folder):
    """The same rows in three formats; persons keep their documents together."""
    found = [
        read_secret_documents(folder / f"letters.{ending}", "text", unit="who")
        for ending in ("jsonl", "csv")
    ]
    assert list(found[0].texts) == list(found[1].texts)
    assert np.array_equal(found[0].starts, found[1].starts)
    assert found[0].records == 90


def test_adapters_of_another_model_are_refused(folder, tmp_path):
    protect_texts(folder, out=tmp_path / "safe")
    model, _ = load_language_model(folder / "base", "lm")
    model.transformer.h = torch.nn.ModuleList()
    with pytest.raises(InputError, match="must fit the base model"):
        merge_adapter(model, tmp_path / "safe", "lm")


# ── Canaries: a floor from the same training ──────────────────────────────────────────────────────


def test_canaries_are_records_and_their_coins_stay_with_the_owner(folder, tmp_path):
    answer = protect_texts(folder, out=tmp_path / "safe", canaries=40)
    assert answer.documents == 240
    run = answer.one_run
    assert run.canaries == 40
    assert answer.refuted_claim is None
    assert "one_run" in answer.owner_only
    file = tmp_path / "safe.canaries.jsonl"
    assert file.stat().st_mode & 0o77 == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert sum(row["member"] for row in rows) == run.members
    published = "".join(path.read_text() for path in (tmp_path / "safe").glob("*.json"))
    assert not any(row["text"] in published for row in rows)
    with pytest.raises(InputError, match="canaries must be"):
        protect_texts(folder, canaries=3)


def test_a_stopped_run_keeps_its_canaries(folder, tmp_path):
    def stop(_stage, done, _total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect_texts(folder, out=tmp_path / "safe", canaries=20, progress=stop, insecure_seed=None)
    with pytest.raises(InputError, match="Continue it with --resume"):
        protect_texts(folder, out=tmp_path / "safe", canaries=20)
    before = (tmp_path / "safe.canaries.jsonl").read_text()
    options = {"canaries": 20, "resume": True, "insecure_seed": None}
    answer = protect_texts(folder, out=tmp_path / "safe", **options)
    assert (tmp_path / "safe.canaries.jsonl").read_text() == before
    assert answer.one_run.members == before.count('"member": 1')
    assert not any("are empty" in note for note in answer.warnings)  # those are canaries


def guess_canaries(folder, seed, noisy):
    """Estimate the coins of 60 canaries, knowing everything but them; return them and μ's ceiling.

    One step on all documents at η = .1; the estimate is ridge regression of the released sum on the
    gradients of the canaries, which are all of length 1.
    """
    leaf = load_leaf("text")
    model, tokenizer = load_language_model(folder / "base", "lm")
    canaries = leaf.draw_canaries(tokenizer, 60, InsecureSource(seed))
    letters = read_secret_documents(folder / "letters.jsonl", "text")
    documents = canaries.insert(replace(letters, texts=letters.texts[:20]))
    records = leaf.tokenize_records(tokenizer, documents, 16)
    run = leaf.TextRun(model, leaf.TextTraining(1, 1.0, 1.0, 8, 16, 0.01), records, 0.1, seed=seed)
    scale = run.scale if noisy else 1e-9
    with run.adapted.attach():
        everything = leaf.tokenize_records(tokenizer, replace(documents, texts=canaries.texts), 16)
        rows = [
            sum_clipped_gradients(run.adapted, everything, np.array([k]), 0.01) for k in range(60)
        ]
        known = sum_clipped_gradients(run.adapted, records, np.arange(20), 0.01)
        noise = Noise(scale, seed=seed)
        last = train_adapters(run.adapted, records, run.training, noise)
    released = -last.weights * len(records) - known
    gram = np.array(rows) @ np.array(rows).T
    gram += scale**2 * np.eye(60)
    estimates = np.linalg.solve(gram, np.array(rows) @ released)
    return canaries.coins, estimates, run.budget.readings().mu_upper


def test_canaries_are_caught_without_noise(folder):
    """All coins are guessed, and the floor is above the ceiling that the noise would have."""
    coins, estimates, ceiling = guess_canaries(folder, 1, noisy=False)
    assert np.array_equal(estimates > 0.5, coins)
    assert audit_one_run(Scores.of(estimates, coins)).mu_lower > ceiling


@pytest.mark.parametrize(
    "runs", [3, pytest.param(200, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_with_noise_canaries_stay_below_the_ceiling(folder, runs):
    """Guesses at the median; five standard errors above the ceiling would be too many.

    A floor is wrong with probability 0.05 at most: in 22 or more of 200 runs with 0.0005.
    """
    right, total, above = 0, 0, 0
    for seed in range(runs):
        coins, estimates, ceiling = guess_canaries(folder, seed, noisy=True)
        right += int(((estimates > np.median(estimates)) == coins).sum())
        total += len(coins)
        above += audit_one_run(Scores.of(estimates, coins)).mu_lower > ceiling
    assert right / total <= 0.6 + 2.5 / np.sqrt(total)
    assert above <= (21 if runs == 200 else 1)


def test_an_audit_of_adapters_names_their_certificate(folder, tmp_path):
    answer = protect_texts(folder, out=tmp_path / "safe", canaries=60)
    coins = tmp_path / "safe.canaries.jsonl"
    audit = audit_text(lm=tmp_path / "safe", base=folder / "base", canaries=coins)
    assert audit.certified_mu_upper == answer.curve.mu_upper
    assert audit.refuted_claim is None
    assert any("certificate of these adapters" in line for line in audit.findings())
    loud = replace(audit, certified_mu_upper=-1.0)
    assert "certificate says" in loud.refuted_claim
    with pytest.raises(InputError, match="base must be given"):
        audit_text(lm=tmp_path / "safe", canaries=coins)
