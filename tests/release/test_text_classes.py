"""Text classifiers: gradients with a head, labels as secret as documents, classes, predictions."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from memberbound import InputError, MembershipPrivateLM, load, predict, protect_text, verify
from memberbound.curve.families import GaussianCurve
from memberbound.learners.adapters import merge_adapter, merge_tensors
from memberbound.learners.language_models import load_text_classifier
from memberbound.release.budget import NoisySums
from optional import Later

torch, transformers = Later("torch"), Later("transformers")
pytest.importorskip("tokenizers")

from memberbound.release.all_rows import text_training  # noqa: E402
from memberbound.release.all_rows.text import TextRun, adapt_model  # noqa: E402
from memberbound.release.all_rows.text_budget import TextBudget  # noqa: E402
from memberbound.release.all_rows.text_classes import (  # noqa: E402
    check_classes,
    load_base,
    scores,
)
from memberbound.release.all_rows.text_training import (  # noqa: E402
    Silence,
    TextRecords,
    TextTraining,
    encode_documents,
    record_reach,
    sum_clipped_gradients,
    train_adapters,
)

LENGTH, KINDS = 8, ("cold", "hot", "warm")
WORDS = [f"w{k}" for k in range(30)]
FAMILIES = ("gpt2", "llama", "bert")


def tokenizer(family):
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = ["[PAD]", "[CLS]", "[SEP]", "?"] if family == "bert" else ["<s>", "?"]
    known = {word: index for index, word in enumerate([*special, *WORDS])}
    made = Tokenizer(models.WordLevel(known, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    named = {"bos_token": "<s>", "eos_token": "<s>"}
    if family == "bert":
        named = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="?", **named)


def base_model(family):
    if family == "bert":
        sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
        sizes |= {"intermediate_size": 12, "max_position_embeddings": 16}
        return transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=34, **sizes))
    ends = {"vocab_size": 32, "bos_token_id": 0, "eos_token_id": 0}
    if family == "gpt2":
        sizes = {"n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2}
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**ends, **sizes))
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**ends, **sizes))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folders of tiny base models, and letters with a word that tells their kind."""
    root = tmp_path_factory.mktemp("classes")
    for family in FAMILIES:
        torch.manual_seed(1)
        base_model(family).save_pretrained(root / family)
        tokenizer(family).save_pretrained(root / family)
    rng, rows = np.random.default_rng(0), []
    for k in range(300):
        words = [WORDS[k % 3], *rng.choice(WORDS[3:], rng.integers(0, 6))]
        rows.append({"text": " ".join(words), "kind": KINDS[k % 3], "who": f"p{k % 200}"})
    write(root / "letters.jsonl", rows)
    return root


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(folder):
    return [json.loads(line) for line in (folder / "letters.jsonl").open()]


def some_records(starts=None):
    """Empty, of one token, all padding, cut, and without a listed label."""
    rng = np.random.default_rng(2)
    sizes = [0, 1, 3, 14, *rng.integers(1, 14, 16)]
    documents = [rng.integers(1, 30, size) for size in sizes]
    documents[2] = np.zeros(3, dtype=np.int64)  # nothing but the token of padding
    labels = rng.integers(-1, 3, len(documents))
    return TextRecords(documents, LENGTH, starts, labels)


def adapted_classifier(folder, family, rank=2):
    model, _, classes = load_base(folder / family, "text", "kind", KINDS)
    adapted = classes.adapt(model, rank)
    adapted.weights = adapted.random_weights(np.random.default_rng(0))
    return adapted, classes


def brute_force(adapted, tokens, label):
    """The gradient of one document's log loss, computed alone and without padding."""
    if label < 0:
        return np.zeros(adapted.size)
    before = [adapter.middle for adapter in adapted.adapters]
    leaves = [middle.clone().requires_grad_(True) for middle in before]
    for adapter, leaf in zip(adapted.adapters, leaves, strict=True):
        adapter.middle = leaf
    known = tokens[:LENGTH] if len(tokens) else np.array([adapted.model.config.pad_token_id])
    ids = torch.from_numpy(np.array(known))[None]
    logits = adapted.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
    (-torch.log_softmax(logits, -1)[int(label)]).backward()
    for adapter, middle in zip(adapted.adapters, before, strict=True):
        adapter.middle = middle
    return np.concatenate([leaf.grad.double().numpy().ravel() for leaf in leaves])


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_a_block_are_those_of_single_documents(folder, family):
    adapted, _ = adapted_classifier(folder, family)
    records, seen = some_records(), 0
    with adapted.attach():
        for indices, batch in records.blocks(np.arange(len(records)), adapted.vocabulary):
            gradients = torch.cat(adapted.gradients(batch), dim=1).double().numpy()
            for row, index in enumerate(indices):
                tokens, label = records.documents[index], records.labels[index]
                expected = brute_force(adapted, tokens, label)
                gap = np.linalg.norm(gradients[row] - expected)
                assert gap <= 1e-4 * (1e-2 + np.linalg.norm(expected))
                seen += 1
            assert not gradients[len(indices) :].any()
    assert seen == len(records)
    assert (records.labels < 0).any()


@pytest.mark.parametrize("starts", [None, np.array([0, 1, 4, 9])])
def test_a_document_with_another_label_moves_a_sum_by_at_most_two_clips(folder, starts):
    adapted, _ = adapted_classifier(folder, "bert")
    records, clip = some_records(starts), 0.05
    everyone, moved = np.arange(len(records)), []
    with adapted.attach():
        before = sum_clipped_gradients(adapted, records, everyone, clip)
        for index in range(len(records.documents)):
            for label in (-1, 0, 1, 2):
                labels = records.labels.copy()
                labels[index] = label
                other = TextRecords(records.documents, LENGTH, starts, labels)
                changed = sum_clipped_gradients(adapted, other, everyone, clip)
                moved.append(np.linalg.norm(changed - before))
    assert clip < max(moved) <= 2 * record_reach(clip, len(records))


def test_a_head_is_trained_whole_but_for_what_all_classes_share(folder):
    """Any change of the scores' differences is a middle: left and down have full rank."""
    for family, bias in (("gpt2", 0), ("bert", 1)):
        adapted, classes = adapted_classifier(folder, family)
        head = adapted.adapters[-1]
        assert head.name == classes.head
        assert head.middle.shape == (len(KINDS) - 1, 8 + bias)
        assert torch.linalg.matrix_rank(head.down) == 8
        assert torch.linalg.matrix_rank(head.left) == len(KINDS) - 1
        assert torch.allclose(head.left.sum(0), torch.zeros(2), atol=1e-5)
        assert not adapted.model.get_submodule(classes.head).weight.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_merged_is_unmerged_and_peft_agrees(folder, family, tmp_path):
    options = {"label": "kind", "classes": KINDS, "eta": 0.2, "steps": 3, "insecure_seed": 1}
    out = tmp_path / "safe"
    answer = protect_text(
        lm=folder / family, texts=folder / "letters.jsonl", trial=False, out=out, **options
    )
    ids = torch.tensor([[5, 6, 7, 8]])
    fresh, _, head, modules = load_text_classifier(folder / family, "lm", 3)
    before = {name: tensor.clone() for name, tensor in fresh.state_dict().items()}
    merged = merge_adapter(fresh, out, "lm")
    expected = merged(input_ids=ids).logits
    changed = {n for n, t in merged.state_dict().items() if not torch.equal(t, before[n])}
    layers = {f"{name}.weight" for name in answer.released.layers}
    assert changed - layers <= {f"{head}.weight", f"{head}.bias"}
    assert f"{head}.weight" in changed
    # Unmerged: the hooks of the training, with the weights of the release.
    model, _, classes = load_base(folder / family, "text", "kind", KINDS)
    adapted = adapt_model(model, answer.released.training, classes)
    restored = {}
    for name, values in answer.released.tensors.items():
        restored[name] = torch.from_numpy(values)
    again, *_ = load_text_classifier(folder / family, "lm", 3)
    twice = merge_tensors(again, answer.released.adapter_config("base"), restored, "lm")
    assert torch.equal(twice(input_ids=ids).logits, expected)
    rebuilt = []
    for adapter in adapted.adapters:
        if adapter.name == head:
            weight = restored[f"base_model.model.{head}.weight"]
            middle = torch.linalg.pinv(adapter.left) @ weight @ torch.linalg.pinv(adapter.down)
            if adapter.shifted:
                bias = restored[f"base_model.model.{head}.bias"]
                middle = torch.cat([middle, torch.linalg.pinv(adapter.left) @ bias[:, None]], 1)
        else:
            up = restored[f"base_model.model.{adapter.name}.lora_B.weight"]
            middle = torch.linalg.pinv(adapter.left) @ up
        rebuilt.append(middle.double().numpy().ravel())
    adapted.weights = np.concatenate(rebuilt)
    with adapted.attach():
        assert torch.allclose(model(input_ids=ids).logits, expected, atol=1e-4)
    if not Later.missing("peft"):
        from peft import PeftModel

        theirs, *_ = load_text_classifier(folder / family, "lm", 3)
        theirs = PeftModel.from_pretrained(theirs, str(out)).eval()
        assert torch.allclose(theirs(input_ids=ids).logits, expected, atol=1e-5)
    assert set(modules) == set(answer.released.adapter_config("base")["modules_to_save"])


def test_public_texts_of_a_model_that_reads_both_ways_have_all_lengths(folder):
    """Otherwise the head's inputs would hardly vary, and would be scaled up unnecessarily."""
    model, reader, classes = load_base(folder / "bert", "text", "kind", KINDS)
    lengths = classes.texts.mask.sum(1)
    assert set(lengths.tolist()) == set(range(2, 16))
    ends = classes.texts.ids[np.arange(len(lengths)), lengths - 1]
    assert set(ends.tolist()) == {reader.sep_token_id}
    head, inputs = classes.adapt(model, 2).adapters[-1], []
    hook = head.layer.register_forward_hook(lambda _layer, given, _out: inputs.append(given[0]))
    scores(model, classes.texts, classes.both_ways)
    coded = encode_documents(reader, [row["text"] for row in rows_of(folder)[:64]], 15, closed=True)
    records = TextRecords(coded, 15, None, np.zeros(64, dtype=np.int64))
    scores(model, records.batch(np.arange(64), 64, 15), classes.both_ways)
    hook.remove()
    public, secret = (float((found @ head.down.T).norm(dim=1).max()) for found in inputs)
    assert secret < 5 * public


# ── Labels are secret ─────────────────────────────────────────────────────────────────────────────


def neighbours(folder):
    """The letters, and those with one label changed to anything."""
    for value in ("cold", "unheard of", None, 7, 1e308, ["hot"], {"a": 1}, "\ud800", "", True):
        rows = rows_of(folder)
        rows[4]["kind"] = value
        yield rows


@pytest.mark.parametrize("given", [KINDS, None], ids=["listed", "counted"])
def test_a_label_changes_nothing_but_noisy_sums(folder, tmp_path, monkeypatch, given):
    """Replay: the published part is the same under the same noisy sums; nothing is refused."""
    asked = []

    def counts(sums, values, differing=None):
        """Keep the values that no record decides: counts of many, to a hundred."""
        asked.append((sums.scale, sums.sensitivity))
        sums.coordinates += differing
        return np.where(np.asarray(values) > 50, 1e6, 0.0)

    def steps(values, scale, source):
        asked.append((scale, len(values)))
        return source.normal(len(values)) * scale

    monkeypatch.setattr(NoisySums, "measure", counts)
    monkeypatch.setattr(text_training, "noisy_release", steps)
    said, noise = set(), set()
    for rows in neighbours(folder):
        asked.clear()
        answer = protect_text(
            lm=folder / "bert",
            texts=write(tmp_path / "letters.jsonl", rows),
            label="kind",
            classes=given,
            eta=0.3,
            steps=3,
            insecure_seed=5,
            trial=False,
        )
        fields = {k: v for k, v in answer.to_dict().items() if k not in answer.owner_only}
        tensors = {name: array.tobytes() for name, array in answer.released.tensors.items()}
        said.add(repr((fields, answer.released.certificate_fields(), tensors)))
        noise.add(repr(asked))
    assert len(said) == 1
    assert len(noise) == 1
    assert answer.classes == KINDS


def test_a_document_without_a_listed_label_has_no_influence(folder):
    adapted, _ = adapted_classifier(folder, "gpt2")
    records = some_records()
    without = np.flatnonzero(records.labels >= 0)
    with adapted.attach():
        every = sum_clipped_gradients(adapted, records, np.arange(len(records)), 0.3)
        listed = sum_clipped_gradients(adapted, records, without, 0.3)
    assert np.allclose(every, listed, rtol=1e-6, atol=1e-9)


def test_what_a_tokenizer_cannot_read_is_an_empty_document():
    def fail_on_bad(text, **_options):
        if "bad" in text:
            raise ValueError(text)
        return {"input_ids": [5, 6]}

    fields = {"bos_token_id": 1, "cls_token_id": 2, "sep_token_id": 3}
    reader = type("Reader", (), {"__call__": staticmethod(fail_on_bad), **fields})()
    found = [ids.tolist() for ids in encode_documents(reader, ["good", "bad"], 8)]
    assert found == [[1, 5, 6], [1]]
    closed = encode_documents(reader, ["good", "bad"], 3, closed=True)
    assert [ids.tolist() for ids in closed] == [[2, 5, 3], [2, 3]]


# ── Classes that noisy counts name ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rate", [1.0, 0.2])
@pytest.mark.parametrize("eta", [0.05, 0.2])
def test_naming_classes_is_paid_for(rate, eta):
    training = TextTraining(10, rate, 1.0, 2, LENGTH)
    whole = TextBudget.for_training(eta, training, 500)
    paid = TextBudget.for_training(eta, training, 500, records_with_labels=5000)
    (share,) = paid.shares
    assert paid.training.noise_multiplier > whole.training.noise_multiplier
    assert paid.curve().eta <= eta
    assert paid.slack > whole.slack
    if rate == 1.0:
        steps = 2 * math.sqrt(training.steps) / paid.training.noise_multiplier
        assert paid.normal_mu >= math.hypot(steps, share.mu)
        assert paid.normal_mu == pytest.approx(math.hypot(steps, share.mu), rel=1e-12)
        assert paid.curve().base == GaussianCurve(paid.normal_mu)
    # A budget that forgot the histogram would claim less.
    forgot = TextBudget.for_training(eta, training, 500)
    forgot.training = paid.training
    assert forgot.curve().eta < paid.curve().eta - 1e-4


@pytest.mark.parametrize("whole", [False, True], ids=["samples", "all"])
def test_certificates_of_classifiers_can_be_recomputed(folder, tmp_path, whole):
    more = {"sample_rate": 1.0} if whole else {}
    for number, (classes, unit) in enumerate([(KINDS, None), (None, "who")]):
        out = tmp_path / f"safe{number}"
        answer = protect_text(
            lm=folder / "gpt2",
            texts=folder / "letters.jsonl",
            label="kind",
            classes=classes,
            unit=unit,
            eta=0.45,
            steps=3,
            trial=False,
            out=out,
            **more,
        )
        file = out / "adapter_model.safetensors"
        checked = verify(file)
        assert checked.holds, checked.summary()
        stated = json.loads((out / "adapter_model.safetensors.certificate.json").read_text())
        names = [part["name"] for part in stated["derivation"]["measurements"]]
        assert ("classes of the target" in names) == (classes is None)
        assert ("classes of 'kind'" in stated["derivation"]["public"]) == (classes is not None)
        assert answer.classes == KINDS


def test_a_stopped_run_names_its_classes_once(folder, tmp_path, monkeypatch):
    from memberbound.release import text_files
    from memberbound.release.all_rows import text_classes

    monkeypatch.setattr(text_files, "_SECONDS", 0.0)
    counted, plain = [], text_classes.noisy_names
    monkeypatch.setattr(
        text_classes, "noisy_names", lambda *given: counted.append(plain(*given)) or counted[-1]
    )
    options = {"lm": folder / "gpt2", "texts": folder / "letters.jsonl", "label": "kind"}
    options |= {"eta": 0.45, "steps": 4, "trial": False, "insecure_seed": 3}
    whole = protect_text(**options, out=tmp_path / "whole")

    def stop(_stage, done, total):
        if done / total > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect_text(**options, out=tmp_path / "safe", progress=stop)
    assert len(counted) == 2
    rest = protect_text(**options, out=tmp_path / "safe", resume=True)
    assert len(counted) == 2
    assert rest.certificate == whole.certificate
    assert rest.released.certificate_fields() == whole.released.certificate_fields()
    for name, tensor in whole.released.tensors.items():
        assert np.array_equal(rest.released.tensors[name], tensor)
    with pytest.raises(KeyboardInterrupt):
        protect_text(**options, out=tmp_path / "third", progress=stop)
    with pytest.raises(InputError, match="another classes"):
        protect_text(**options, out=tmp_path / "third", classes=KINDS, resume=True)


def test_too_few_records_of_a_class_are_refused(folder, tmp_path):
    rows = [row | {"kind": f"k{n}"} for n, row in enumerate(rows_of(folder))]
    texts = write(tmp_path / "letters.jsonl", rows)
    with pytest.raises(InputError, match="--classes"):
        protect_text(lm=folder / "gpt2", texts=texts, label="kind", eta=0.4, trial=False)


# ── Predictions ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_predictions_are_those_of_the_merged_model(folder, family, tmp_path):
    out = tmp_path / "safe"
    estimator = MembershipPrivateLM(
        folder / family, eta=0.45, classes=KINDS, steps=6, insecure_seed=1
    )
    rows = rows_of(folder)
    texts = [row["text"] for row in rows]
    estimator.fit(texts, [row["kind"] for row in rows]).save(out)
    answer = predict(out, folder / "letters.jsonl", lm=folder / family)
    assert answer.classes == KINDS
    assert np.array_equal(answer.values, estimator.predict(texts))
    assert np.allclose(answer.probabilities, estimator.predict_proba(texts), atol=1e-6)
    assert np.allclose(answer.probabilities.sum(1), 1)
    assert answer.certificate.value == estimator.certificate_.value <= 0.45
    # One document at a time, without padding.
    reader = tokenizer(family)
    for row in (0, 7):
        ids = reader(texts[row], add_special_tokens=False)["input_ids"]
        ids = [1, *ids, 2] if family == "bert" else [0, *ids]
        ids = ids[: estimator.released_.training.length]
        logits = estimator.model_(input_ids=torch.tensor([ids])).logits[0].double()
        expected = torch.softmax(logits, -1).numpy()
        assert np.allclose(answer.probabilities[row], expected, atol=1e-5)
    with pytest.raises(InputError, match="lm must be given"):
        load(out)
    with pytest.raises(InputError, match="must not be given with documents"):
        predict(out, folder / "letters.jsonl", lm=folder / family, encoding="utf-8")
    empty = write(tmp_path / "empty.jsonl", [{"text": None}, {"text": "w3"}])
    assert "1 of 2 documents" in predict(out, empty, lm=folder / family).warnings[0]
    with pytest.raises(InputError, match="1 of 2 documents"):
        predict(out, empty, lm=folder / family, strict=True)
    other = "bert" if family == "gpt2" else "gpt2"
    with pytest.raises(InputError, match="must fit the base model"):
        predict(out, empty, lm=folder / other)


def test_a_classifier_learns_what_a_word_tells(folder):
    """Without noise the head and the adapters beat guessing; labels drawn by lot do not."""
    rows = rows_of(folder)
    texts = [row["text"] for row in rows]
    lots = np.random.default_rng(0).choice(KINDS, len(rows)).tolist()
    model, reader, classes = load_base(folder / "gpt2", "text", "kind", KINDS)
    coded = encode_documents(reader, texts, LENGTH, closed=True)
    right = []
    for labels in ([row["kind"] for row in rows], lots):
        codes = np.array([KINDS.index(label) for label in labels])
        records = TextRecords(coded, LENGTH, None, codes)
        adapted = classes.adapt(model, 4)
        with adapted.attach():
            training = TextTraining(25, 1.0, 1.5, 4, LENGTH, 50.0)
            adapted.weights = train_adapters(adapted, records, training, Silence()).mean
            _, batch = next(records.blocks(np.flatnonzero(records.widths == LENGTH), 64))
            with torch.no_grad():
                best = scores(model, batch, classes.both_ways).argmax(1).numpy()
        right.append(float(np.mean(best == batch.labels)))
    assert right[0] > 0.7
    assert right[1] < 0.6


# ── Refusals, before a document is read ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"classes": ["a"]}, "at least two different names"),
        ({"classes": "a,a"}, "at least two different names"),
        ({"label": None, "classes": KINDS}, "classes must come with label"),
        ({"label": "text"}, "must be different columns"),
        ({"label": "sort"}, "must have the key 'sort'"),
        ({"canaries": 20}, "canaries must come with classes"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(folder, options, sentence):
    given = {"lm": folder / "gpt2", "texts": folder / "letters.jsonl", "label": "kind"}
    with pytest.raises(InputError, match=sentence) as refused:
        protect_text(**(given | {"eta": 0.3} | options))
    assert "\n" not in str(refused.value)


def test_a_model_that_reads_both_ways_needs_labels(folder):
    with pytest.raises(InputError, match="reads both ways"):
        load_base(folder / "bert", "text")
    texts = [np.arange(5)] * 99
    with pytest.raises(InputError, match="reads both ways"):
        MembershipPrivateLM(base_model("bert"), eta=0.45).fit(texts)
    model = base_model("gpt2").train()  # as a script may leave it, with dropout
    made = MembershipPrivateLM(model, eta=0.45, length=4, steps=2, insecure_seed=1).fit(texts)
    assert made.certificate_.value <= 0.45
    assert model.training
    assert not made.model_.training


def test_a_tokenizer_without_padding_or_end_is_refused(folder, tmp_path):
    import shutil

    shutil.copytree(folder / "gpt2", tmp_path / "base")
    settings = json.loads((tmp_path / "base" / "tokenizer_config.json").read_text())
    settings.pop("eos_token")
    (tmp_path / "base" / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="padding or an end token"):
        load_text_classifier(tmp_path / "base", "lm", 2)


def test_canaries_of_a_classifier_have_labels(folder, tmp_path):
    answer = protect_text(
        lm=folder / "gpt2",
        texts=folder / "letters.jsonl",
        label="kind",
        classes=KINDS,
        eta=0.3,
        steps=3,
        canaries=30,
        trial=False,
        out=tmp_path / "safe",
    )
    rows = [json.loads(line) for line in (tmp_path / "safe.canaries.jsonl").open()]
    assert {row["label"] for row in rows} <= set(KINDS)
    assert len({row["label"] for row in rows}) > 1
    assert answer.one_run.canaries == 30
    assert answer.documents == 330


def test_labels_are_spelled_as_in_tables():
    assert check_classes([1, "2.0", " yes "], "kind") == ("1", "2", "yes")
    assert check_classes(None, None) is None


def test_work_moves_to_the_device_of_the_model(folder):
    """Tensors on ``meta`` have a device and no values: mixing devices would fail.

    No GPU was available for tests; this is the same code with another device.
    """
    adapted, _ = adapted_classifier(folder, "llama")
    records = some_records()
    adapted.model.to("meta")
    adapted.model.set_attn_implementation("eager")  # the other one looks at the values of masks
    for adapter in adapted.adapters:
        for name in ("down", "left", "middle"):
            setattr(adapter, name, getattr(adapter, name).to("meta"))
    _, batch = next(records.blocks(np.arange(5), adapted.vocabulary))
    with adapted.attach():
        parts = adapted.gradients(batch)
    assert {part.device.type for part in parts} == {"meta"}
    assert adapted.device == torch.device("meta")


def test_a_run_is_that_of_its_classes(folder):
    model, reader, classes = load_base(folder / "gpt2", "text", "kind", KINDS)
    records = some_records()
    run = TextRun(
        model, TextTraining(2, 1.0, 1.0, 2, LENGTH), records, 0.3, seed=1, classes=classes
    )
    assert run.budget.bounds == ("kind",)
    assert SimpleNamespace(**run.train().certificate_fields()).kind.startswith("text classifier")
    assert reader.eos_token_id == 0
