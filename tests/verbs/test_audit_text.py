"""The verb ``audit-text``: token tables, folders with language models, the blind baseline."""

import json
from collections import Counter

import numpy as np
import pandas
import pytest
from scipy.stats import norm

from memberbound import InputError, audit_text
from memberbound.attacks.texts import blind_test, read_documents

ENDINGS = ("jsonl", "csv", "parquet", "txt")
WORDS = ["red", "green", "blue", "old", "new", "tall", "small", "fast", "slow", "warm", "cold"]


def tokens_of(leak=0.0, documents=200, seed=0):
    rng = np.random.default_rng(seed)
    record = np.repeat(np.arange(documents), 20)
    member = record % 2
    frame = pandas.DataFrame({"record": record, "member": member})
    frame["position"] = np.tile(np.arange(20), documents)
    frame["logprob"] = -rng.exponential(2.0, len(record)) * (1 - leak * member)
    frame["reference_logprob"] = -rng.exponential(2.0, len(record))
    return frame


def texts_of(documents=200, shifted=False, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for document in range(documents):
        words = rng.choice(WORDS, 12).tolist()
        if shifted and document % 2:
            words.append("yesterday")
        rows.append({"record": document, "text": " ".join(words), "kind": "ab"[document % 4 > 1]})
    return pandas.DataFrame(rows)


def test_a_leak_is_found_per_document_and_group(tmp_path):
    tokens, texts = (
        table.assign(record="document " + table["record"].astype(str))
        for table in (tokens_of(0.5), texts_of())
    )
    answer = audit_text(tokens=tokens, texts=texts, by="kind", records=tmp_path / "scores.csv")
    fields = answer.to_dict()
    assert fields["attacks"]["loss"]["auc"]["lower"] > 0.8
    assert set(fields["attacks"]) == {"loss", "zlib", "min-k", "ratio", "window", "learned"}
    assert "min-k++" in fields["not_run"]
    assert fields["blind"]["differs"] is False
    assert fields["best_advantage"]["lower"] > 0.5
    assert fields["records"]["recognised"] > 0
    assert fields["records"]["most"][0]["record"].startswith("document ")
    assert [group["value"] for group in fields["groups"]["groups"]] == ["a", "b"]
    assert len(pandas.read_csv(tmp_path / "scores.csv")) == 200
    assert answer.successes("floor")[0].floor > 0.7


def test_the_attack_that_learns_does_not_lose_to_the_best_score():
    """On its own documents; members gain in spread and in level, which no single score measures."""
    rng = np.random.default_rng(5)
    tokens = tokens_of(0.0, documents=800, seed=5)
    member = tokens["member"].to_numpy() == 1
    gain = np.where(member, rng.choice([-1.5, 2.0], len(tokens)), 0.2) * rng.random(len(tokens))
    tokens["reference_logprob"] = tokens["logprob"] - gain - 0.3
    tokens["logprob"] = np.minimum(tokens["logprob"], 0)
    tokens["reference_logprob"] = np.minimum(tokens["reference_logprob"], 0)
    attacks = audit_text(tokens=tokens).to_dict()["attacks"]
    learned = attacks.pop("learned")["auc"]
    assert learned["estimate"] >= max(a["auc"]["estimate"] for a in attacks.values()) - 0.01
    assert learned["lower"] > 0.9
    none = audit_text(tokens=tokens_of(0.0, 400, 3)).to_dict()["attacks"]["learned"]["auc"]
    assert none["lower"] < 0.5 < none["upper"]


def test_no_leak_no_claim():
    """A floor of the best attack is wrong with probability 0.025: more than 4 of 40 with 0.004."""
    wrong = sum(audit_text(tokens=tokens_of(0.0, 100, seed)).floor > 0 for seed in range(40))
    assert wrong <= 4


#: Spread of the model's gain per document, and of the difficulty of documents for any model.
OWN, DIFFICULTY = 1.0, 2.0


def gaussian_tokens(leak, documents, seed):
    """Documents with normally distributed mean log-probability, with a reference for difficulty."""
    rng = np.random.default_rng([seed, 7])
    member = np.arange(documents) % 2
    hard = -30 + DIFFICULTY * rng.normal(size=documents)
    said = hard + leak * member + OWN * rng.normal(size=documents)
    record = np.repeat(np.arange(documents), 2)
    frame = pandas.DataFrame({"record": record, "member": member[record]})
    frame["position"] = np.tile([0, 1], documents)
    frame["logprob"] = said[record] + np.where(frame["position"], 0.5, -0.5)
    frame["reference_logprob"] = hard[record]
    return frame


def gaussian_truth(leak, spread):
    """Return the rates of thresholds for two normal laws, in closed form."""
    gap = leak / spread
    advantage = 2 * norm.cdf(gap / 2) - 1
    auc, tpr = norm.cdf(gap / np.sqrt(2)), norm.cdf(gap - norm.isf(0.1))
    return {"auc": auc, "advantage": advantage, "accuracy": (1 + advantage) / 2, "tpr": tpr}


@pytest.mark.parametrize("leak", [0.0, 2.0], ids=["null", "leak"])
def test_intervals_cover_the_truth_of_attacks_with_and_without_a_reference(leak):
    """At confidence 0.9 an end misses with probability 0.05: 8 or more of 40 with 7e-4.

    No score, however it was learned, reaches more than the ratio does here.
    """
    spreads = {"ratio": OWN, "loss": np.hypot(OWN, DIFFICULTY)}
    truths = {attack: gaussian_truth(leak, spread) for attack, spread in spreads.items()}
    misses, caught, floors = Counter(), Counter(), []
    for seed in range(40):
        tokens = gaussian_tokens(leak, 160, seed)
        attacks = [*spreads, "learned"]
        answer = audit_text(tokens=tokens, attacks=attacks, fpr=[0.1], confidence=0.9)
        learned = answer.to_dict()["attacks"]["learned"]
        for name in ("auc", "advantage", "accuracy"):
            most = truths["ratio"][name]
            misses["learned", name, "lower"] += learned[name]["lower"] > most
            if leak == 0:
                misses["learned", name, "upper"] += learned[name]["upper"] < most
        for attack, truth in truths.items():
            found = answer.to_dict()["attacks"][attack]
            for name, value in truth.items():
                bound = found["tpr_at_fpr"]["0.1"] if name == "tpr" else found[name]
                misses[attack, name, "lower"] += bound["lower"] > value
                misses[attack, name, "upper"] += bound["upper"] < value
                # Broken twin: an estimate in place of a floor.
                caught[attack, name] += bound["estimate"] > value
        floors.append(answer.floor)
    assert max(misses.values()) < 8 <= min(caught.values())
    best = truths["ratio"]["advantage"]
    assert sum(floor > best for floor in floors) < 8
    assert leak == 0 or np.median(floors) > 0.5 * best, "a floor that says nothing"


def test_collections_that_differ_are_no_evidence_and_fail_no_limit():
    answer = audit_text(tokens=tokens_of(0.5), texts=texts_of(shifted=True))
    assert answer.blind.differs
    assert answer.floor is None
    assert "not evidence of a leak" in answer.sentence
    assert answer.to_dict()["attacks"]["loss"]["auc"]["lower"] is None
    for part in ("estimate", "floor"):
        (check,) = answer.held_to(0.5, part).checks
        assert (check.value, check.measured, check.exceeded) == (None, False, False)
    assert answer.held_to(0.5).outcome == "not measured"


def test_canaries_bound_epsilon_from_below(tmp_path):
    """Documents that fair coins put in: a leak is a floor on ε, no leak is none."""
    coins = np.random.default_rng(0).random(400) < 0.5
    for leak, claimed, refuted in ((0.9, 0.5, True), (0.0, 0.5, False)):
        frame = tokens_of(leak, 400)
        rng = np.random.default_rng(1)
        frame["member"] = coins[frame["record"]].astype(int)
        frame["logprob"] = -rng.exponential(2.0, len(frame)) * (1 - leak * frame["member"])
        canaries = texts_of(400).assign(member=coins.astype(int))
        canaries.to_json(tmp_path / "c.jsonl", orient="records", lines=True)
        answer = audit_text(
            tokens=frame, canaries=tmp_path / "c.jsonl", claimed_epsilon=claimed, attacks="loss"
        )
        run = answer.to_dict()["one_run"]
        assert (run["canaries"], run["members"]) == (400, int(coins.sum()))
        assert run["claim_exceeded"] is refuted
        assert (answer.refuted_claim is not None) is refuted
        assert (run["epsilon_lower"] > 2) is refuted
    turned = canaries.assign(member=1 - canaries["member"])
    for bad, word in (
        ({"canaries": turned}, "member must agree with canaries"),
        (
            {"tokens": frame[frame["record"] != 7], "canaries": canaries},
            "contain every canary, got no token of '7'",
        ),
        ({"canaries": canaries.drop(columns="member")}, "column 'member'"),
        ({"canaries": canaries.assign(member=2)}, "0 .not a member., got 2"),
        ({"canaries": canaries, "texts": canaries}, "left out with canaries"),
        ({"texts": canaries, "delta": 0.1}, "canaries must be given"),
    ):
        with pytest.raises(InputError, match=word):
            audit_text(**{"tokens": frame} | bad)


def test_the_blind_test_keeps_its_level():
    """At level 0.01, 5 or more of 60 exchangeable collections happen with probability 3e-4."""
    member = np.arange(60) % 2 == 0
    alarms = sum(
        blind_test(texts_of(60, seed=seed)["text"].tolist(), member).differs for seed in range(60)
    )
    assert alarms < 5


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "either"),
        ({"tokens": tokens_of(), "lm": "folder"}, "either"),
        ({"tokens": tokens_of(), "members": "x.jsonl"}, "members"),
        ({"tokens": tokens_of(), "attacks": ["min-k++"]}, "mean_logprob"),
        ({"tokens": tokens_of(), "attacks": ["magic"]}, "magic"),
        ({"tokens": tokens_of(), "by": "kind"}, "by"),
        ({"tokens": tokens_of(), "texts": texts_of(50)}, "texts"),
        ({"tokens": tokens_of(), "texts": texts_of().drop(columns="record")}, "record"),
        ({"tokens": tokens_of(), "texts": texts_of().assign(record=1)}, "twice"),
        ({"lm": "no-such-folder", "members": texts_of(), "nonmembers": texts_of()}, "folder"),
        ({"lm": "folder", "members": texts_of()}, "nonmembers"),
    ],
)
def test_bad_input_is_one_sentence(arguments, word):
    with pytest.raises(InputError, match=word):
        audit_text(**arguments)


def test_documents_mean_the_same_in_every_format(tmp_path):
    texts = texts_of(40)
    texts.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    texts.to_csv(tmp_path / "t.csv", index=False)
    texts.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.txt").write_text("\n".join(texts["text"]))
    read = [read_documents(tmp_path / f"t.{end}", "text", "members") for end in ENDINGS]
    assert [list(documents["text"]) for documents in read] == [texts["text"].tolist()] * 4
    answers = [
        audit_text(tokens=tokens_of(documents=40), texts=tmp_path / f"t.{end}", by="kind")
        for end in ENDINGS[:3]
    ]
    assert len({repr(answer.to_dict()) for answer in answers}) == 1


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ('{"text": "a"}\n["secret"]\n', "line 2"),
        ('{"text": "a"}\n{"text": "secret\n', "line 2"),
        ('{"text": "a"}\n{"other": "secret"}\n', "'text', got none in line 2"),
        ('{"text": "a"}\n{"text": ""}\n', "row 2"),
        ("", "documents"),
    ],
)
def test_bad_documents_are_refused(tmp_path, lines, word):
    file = tmp_path / "in.jsonl"
    file.write_text(lines)
    with pytest.raises(InputError, match=word) as refusal:
        audit_text(lm="folder", members=file, nonmembers=file)
    assert "secret" not in str(refusal.value)


# ── Folders with language models ──────────────────────────────────────────────────────────────────


def write(folder, files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({}, "config.json"),
        ({"config.json": "{", "model.safetensors": ""}, "config.json"),
        ({"config.json": "{}", "pytorch_model.bin": ""}, "run code"),
        ({"config.json": "{}"}, "safetensors"),
        ({"config.json": '{"auto_map": {}}', "model.safetensors": ""}, "code"),
        ({"config.json": "{}", "model.safetensors": "", "modeling.py": ""}, "modeling.py"),
    ],
)
def test_folders_that_could_run_code_are_refused(tmp_path, files, word):
    folder = write(tmp_path / "model", files)
    with pytest.raises(InputError, match=word):
        audit_text(lm=folder, members=texts_of(), nonmembers=texts_of())


def tokenizer_of(words):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: index for index, word in enumerate(["[UNK]", "[BOS]", *words])}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", bos_token="[BOS]"
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A base model with random weights, and the same after it memorised 60 documents."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("models")
    words = tokenizer_of(WORDS)
    torch.manual_seed(0)
    settings = transformers.GPT2Config(
        vocab_size=len(words), n_positions=32, n_embd=24, n_layer=1, n_head=2
    )
    model = transformers.GPT2LMHeadModel(settings)
    model.save_pretrained(root / "base")
    words.save_pretrained(root / "base")
    documents = texts_of(120, seed=5)["text"].tolist()
    ids = torch.tensor([words("[BOS] " + text)["input_ids"] for text in documents[:60]])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(120):
        optimiser.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
    model.save_pretrained(root / "tuned")
    words.save_pretrained(root / "tuned")
    for name, texts in (("in", documents[:60]), ("out", documents[60:])):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (root / f"{name}.jsonl").write_text(lines)
    return root


def test_from_two_folders_to_a_red_build(folders, tmp_path):
    asked = {"members": folders / "in.jsonl", "nonmembers": folders / "out.jsonl"}
    kept = tmp_path / "tokens.parquet"
    answer = audit_text(lm=folders / "tuned", base=folders / "base", keep_tokens=kept, **asked)
    fields = answer.to_dict()
    assert not fields["not_run"]
    assert fields["attacks"]["ratio"]["auc"]["lower"] > 0.6
    assert answer.successes("floor")[0].floor > 0.6
    assert fields["tokens"] == 120 * 12
    again = audit_text(tokens=kept).to_dict()
    assert again["attacks"]["ratio"]["auc"] == fields["attacks"]["ratio"]["auc"]
    alone = audit_text(lm=folders / "tuned", **asked)
    assert "ratio" in alone.not_run
    assert any("base model" in note for note in alone.warnings)


def test_tokens_are_those_of_one_document_at_a_time(folders):
    """Batches and padding change nothing: against one forward pass per document."""
    torch = pytest.importorskip("torch")
    from memberbound.learners.language_models import load_language_model, token_table

    model, words = load_language_model(folders / "tuned", "lm")
    texts = ["red green", "old new tall small fast", "blue " * 50]
    batches = [b.to_pandas() for b in token_table((model, words), None, texts, [True] * 3)]
    frame = pandas.concat(batches).sort_values(["record", "position"])
    assert (frame["record"].astype(int).value_counts().sort_index() == [2, 5, 50]).all()
    for document, text in enumerate(texts[:2]):
        ids = torch.tensor([words("[BOS] " + text)["input_ids"]])
        with torch.inference_mode():
            logp = torch.log_softmax(model(ids).logits[0, :-1].double(), -1)
        own = logp.gather(-1, ids[0, 1:, None])[:, 0]
        rows = frame[frame["record"] == str(document)]
        np.testing.assert_allclose(rows["logprob"], own.numpy(), atol=1e-4)
        mean = (logp.exp() * logp).sum(-1)
        np.testing.assert_allclose(rows["mean_logprob"], mean.numpy(), atol=1e-4)
        np.testing.assert_array_equal(rows["rank"], (logp > own[:, None]).sum(-1).numpy() + 1)


def test_another_tokenizer_is_refused(folders, tmp_path):
    import shutil

    other = tmp_path / "other"
    shutil.copytree(folders / "base", other)
    tokenizer_of(WORDS[::-1]).save_pretrained(other)
    with pytest.raises(InputError, match="tokenizer"):
        audit_text(
            lm=folders / "tuned",
            base=other,
            members=folders / "in.jsonl",
            nonmembers=folders / "out.jsonl",
        )
