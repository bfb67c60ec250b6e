"""Language models fine-tuned on all documents: gradients, clips, sums, budgets and files."""

import math

import numpy as np
import pytest

from memberbound.dp import DpSgd
from memberbound.errors import InputError
from memberbound.release import noise as noises
from memberbound.release.all_rows.networks import NetworkBudget
from memberbound.release.budget import Budget, Slack
from memberbound.release.randomness import InsecureSource
from optional import Later

torch, transformers = Later("torch"), Later("transformers")

from memberbound.release.all_rows import text as texts  # noqa: E402
from memberbound.release.all_rows import text_training  # noqa: E402
from memberbound.release.all_rows.text import TextRun  # noqa: E402
from memberbound.release.all_rows.text_adapters import (  # noqa: E402
    AdaptedModel,
    check_model,
    language_losses,
)
from memberbound.release.all_rows.text_budget import TextBudget  # noqa: E402
from memberbound.release.all_rows.text_settings import default_training  # noqa: E402
from memberbound.release.all_rows.text_training import (  # noqa: E402
    Noise,
    TextRecords,
    TextTraining,
    TrainingState,
    record_reach,
    sum_clipped_gradients,
    train_adapters,
)

VOCABULARY, LENGTH = 40, 8


def gpt2(**more):
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=16,
            n_embd=8,
            n_layer=2,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
            **more,
        )
    )


def llama(**more):
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16}
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=VOCABULARY, **sizes, **more)
    )


def adapted_model(make=gpt2, rank=2, seed=0):
    """A tiny model with adapters that are neither zero nor small."""
    torch.manual_seed(seed)
    adapted = AdaptedModel(make(), rank, language_losses)
    adapted.weights = adapted.random_weights(np.random.default_rng(seed))
    return adapted


def some_documents(count, seed=1, longest=14):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, longest, count)
    sizes[:4] = 0, 1, 2, longest
    return [rng.integers(0, VOCABULARY, size) for size in sizes]


def brute_force(adapted, ids):
    """The gradient of one document's mean loss with respect to every B, one document at a time."""
    if len(ids[:LENGTH]) < 2:
        return np.zeros(adapted.size)
    before = [adapter.middle for adapter in adapted.adapters]
    leaves = [middle.clone().requires_grad_(True) for middle in before]
    for adapter, leaf in zip(adapted.adapters, leaves, strict=True):
        adapter.middle = leaf
    tokens = torch.from_numpy(np.array(ids[:LENGTH]))[None]
    logits = adapted.model(input_ids=tokens).logits[0, :-1]
    chosen = torch.log_softmax(logits, -1)[torch.arange(len(logits)), tokens[0, 1:]]
    (-chosen.mean()).backward()
    for adapter, middle in zip(adapted.adapters, before, strict=True):
        adapter.middle = middle
    return np.concatenate([leaf.grad.double().numpy().ravel() for leaf in leaves])


@pytest.mark.parametrize("make", [gpt2, llama])
def test_gradients_of_a_block_are_those_of_single_documents(make):
    """Padded, cut, empty and one-token documents, in blocks of three widths."""
    adapted = adapted_model(make)
    documents = some_documents(25)
    records = TextRecords(documents, LENGTH)
    seen = 0
    with adapted.attach():
        for indices, batch in records.blocks(np.arange(25), adapted.vocabulary):
            gradients = torch.cat(adapted.gradients(batch), dim=1).double().numpy()
            for row, index in enumerate(indices):
                expected = brute_force(adapted, documents[index])
                assert np.linalg.norm(gradients[row] - expected) <= 1e-4 * (
                    1e-2 + np.linalg.norm(expected)
                )
                seen += 1
            assert not gradients[len(indices) :].any()
    assert seen == 25
    assert len(set(records.widths.tolist())) == 3


def clipped_one_by_one(adapted, documents, clip, starts=None):
    groups = [[k] for k in range(len(documents))]
    if starts is not None:
        groups = [list(g) for g in np.split(np.arange(len(documents)), starts[1:])]
    total = np.zeros(adapted.size)
    for group in groups:
        mean = np.mean([brute_force(adapted, documents[k]) for k in group], axis=0)
        total += mean * min(1.0, clip / max(np.linalg.norm(mean), 1e-300))
    return total


@pytest.mark.parametrize("starts", [None, np.array([0, 1, 5, 6, 20])])
def test_sums_are_those_of_clipped_records_whatever_the_blocks(starts, monkeypatch):
    adapted = adapted_model()
    documents = some_documents(25)
    records = TextRecords(documents, LENGTH, starts)
    sums = []
    with adapted.attach():
        for rows in (1, 3, 64):
            monkeypatch.setattr(text_training, "_MOST_ROWS", rows)
            everyone = np.arange(len(records))
            sums.append(sum_clipped_gradients(adapted, records, everyone, 0.3))
        expected = clipped_one_by_one(adapted, documents, 0.3, starts)
    for found in sums:
        assert np.linalg.norm(found - expected) <= 1e-4 * np.linalg.norm(expected)


@pytest.mark.parametrize("persons", [False, True])
def test_a_replaced_record_moves_a_sum_by_at_most_two_clips(persons):
    """Neighbouring corpora with the same coins; opposite gradients come near the bound."""
    adapted = adapted_model()
    documents = some_documents(12)
    starts = np.array([0, 3, 4, 9]) if persons else None
    records = TextRecords(documents, LENGTH, starts)
    sample, clip = np.arange(len(records)), 0.05
    moved = []
    with adapted.attach():
        before = sum_clipped_gradients(adapted, records, sample, clip)
        for record in range(len(records)):
            for value in (0, VOCABULARY - 1):
                first = record if starts is None else int(starts[record])
                last = first + 1
                if starts is not None:
                    last = int(np.append(starts, len(documents))[record + 1])
                other = list(documents)
                other[first:last] = [np.full(LENGTH, value)] * (last - first)
                changed = sum_clipped_gradients(
                    adapted, TextRecords(other, LENGTH, starts), sample, clip
                )
                moved.append(np.linalg.norm(changed - before))
    assert max(moved) <= 2 * record_reach(clip, len(records))
    assert max(moved) > clip  # and one record matters


def test_what_is_published_does_not_tell_how_many_documents_persons_have():
    """Five persons with one document more: the noise and the record stay the same, to the bit."""
    found = []
    for documents in (40, 41):
        records = TextRecords(some_documents(documents), LENGTH, np.array([0, 3, 4, 9, 20]))
        run = TextRun(gpt2(), training_of(), records, 0.1, "person", seed=1)
        found.append((run.scale, run.budget.derivation(len(records), ("X31",))))
    assert found[0] == found[1]
    alone = [TextRecords(some_documents(n), LENGTH) for n in (40, 41)]
    scales = [TextRun(gpt2(), training_of(), records, 0.1, seed=1).scale for records in alone]
    assert scales[0] != scales[1]  # the number of documents is public there, and enters


def test_a_run_draws_the_noise_of_its_record(monkeypatch):
    drawn = []

    def train(adapted, records, training, noise, **more):
        drawn.append(noise.scale)
        return TrainingState.start(adapted.size)

    monkeypatch.setattr(texts, "train_adapters", train)
    run = TextRun(gpt2(), training_of(), TextRecords(some_documents(12), LENGTH), 0.1, seed=1)
    made = run.train()
    assert drawn == [run.budget.drawn.noise_scale] == [made.calibration_.noise.scale]


def test_a_document_that_overflows_has_no_influence():
    adapted = adapted_model()
    documents = some_documents(6)
    with adapted.attach():
        records = TextRecords(documents, LENGTH)
        expected = sum_clipped_gradients(adapted, records, np.array([2, 3]), 1.0)

        def broken_losses(model, batch):
            losses = language_losses(model, batch)
            bad = torch.from_numpy((batch.ids[:, :2] == documents[5][:2]).all(1))
            return losses * torch.where(bad, math.inf, 1.0)

        adapted._losses = broken_losses
        found = sum_clipped_gradients(adapted, records, np.array([2, 3, 5]), 1.0)
    assert np.isfinite(found).all()
    assert np.allclose(found, expected, rtol=1e-6)


def test_settings_are_a_rule_of_the_number_of_records_and_eta():
    """More signal gives a larger rate, rank and number of steps; given settings stay."""
    found = [
        default_training(records, eta, length=LENGTH)
        for records, eta in [(300, 0.05), (1000, 0.05), (5000, 0.1), (20_000, 0.2), (10**6, 0.3)]
    ]
    for name, most in (("rate", 15.0), ("rank", 64), ("steps", 180)):
        values = [getattr(each, name) for each in found]
        assert values == sorted(values)
        assert values[-1] == most
    assert all(0 < each.sample_rate <= 1 for each in found)
    given = {"rank": 3, "steps": 7, "sample_rate": 0.5, "rate": 0.1}
    made = default_training(1000, 0.05, length=LENGTH, **given)
    assert given.items() <= vars(made).items()
    assert default_training(10**6, 0.3, length=LENGTH, most_rank=8).rank == 8
    with pytest.raises(InputError, match="rank must be at most 8"):
        default_training(1000, 0.05, length=LENGTH, most_rank=8, rank=9)


# ── Accounting ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("rate", "steps"), [(1.0, 12), (0.2, 30), (0.05, 60)])
def test_the_account_is_that_of_networks(rate, steps):
    training = TextTraining(steps, rate, 0.01, 4, LENGTH)
    budget = TextBudget.for_training(0.05, training, 1000)
    slack = Slack(1000 * steps).total
    network = NetworkBudget.calibrate(0.05, Budget(1.0, slack), rate, steps)
    assert (
        budget.training == network.training == DpSgd(network.training.noise_multiplier, rate, steps)
    )
    assert budget.curve().eta == network.curve().eta <= 0.05
    assert budget.certificate().value <= 0.05
    assert (budget.normal_mu is None) == (rate < 1)
    if rate == 1.0:
        assert budget.mu == pytest.approx(2 * math.sqrt(steps) / budget.training.noise_multiplier)


# ── Steps: noise, coins, stopped runs ─────────────────────────────────────────────────────────────


def training_of(steps=6, rate=0.5):
    return TextTraining(steps, rate, 0.05, 2, LENGTH, 0.5)


def test_a_stopped_run_continues_with_new_noise_and_to_the_same_end():
    records, training = TextRecords(some_documents(12), LENGTH), training_of()

    def run(state=None, stop=None):
        kept = []

        def keep(state):
            kept.append(state)
            if len(kept) == stop:
                raise KeyboardInterrupt

        adapted = adapted_model()
        noise = Noise(0.3, seed=5)
        try:
            with adapted.attach():
                train_adapters(adapted, records, training, noise, state=state, keep=keep)
        except KeyboardInterrupt:
            pass
        return kept, noise.released

    whole, steps = run()
    assert steps == list(range(6))
    first, before = run(stop=3)
    rest, after = run(state=first[-1])
    assert before + after == steps
    assert np.array_equal(rest[-1].mean, whole[-1].mean)
    noise = Noise(0.3, seed=5)
    one, other = (noise.source_of(step).normal(50) for step in (1, 2))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.5
    noise.measure(1, np.zeros(3), InsecureSource(0))
    with pytest.raises(RuntimeError):
        noise.measure(1, np.zeros(3), InsecureSource(0))


def test_states_hold_functions_of_noisy_sums_only(monkeypatch):
    """Replay: other documents with the same noisy sums give the same states."""
    training = training_of()
    sums = iter(np.random.default_rng(0).normal(size=(12, adapted_model().size)))
    fixed = [next(sums) for _ in range(6)]
    ends = []
    for seed in (1, 2):
        steps = iter(fixed)
        monkeypatch.setattr(
            text_training, "noisy_release", lambda _sum, _scale, _source, s=steps: next(s)
        )
        adapted, states = adapted_model(), []
        adapted.weights = np.zeros(adapted.size)
        with adapted.attach():
            train_adapters(
                adapted,
                TextRecords(some_documents(12, seed), LENGTH),
                training,
                Noise(0.3, seed=5),
                keep=states.append,
            )
        ends.append(states)
    for one, other in zip(*ends, strict=True):
        assert np.array_equal(one.weights, other.weights)
        assert np.array_equal(one.mean, other.mean)
        assert np.array_equal(one.momentum, other.momentum)


def test_noise_is_on_the_grid_with_the_scale_of_the_budget(monkeypatch):
    met = []
    keep = text_training.noisy_release

    def note(values, scale, source):
        out = keep(values, scale, source)
        met.append((out - values, scale, out))
        return out

    monkeypatch.setattr(text_training, "noisy_release", note)
    adapted = adapted_model()
    with adapted.attach():
        train_adapters(
            adapted, TextRecords(some_documents(8), LENGTH), training_of(), Noise(0.3, seed=1)
        )
    step = float(noises.COARSE.steps(0.3))
    noise = np.concatenate([difference for difference, _, _ in met])
    assert {scale for _, scale, _ in met} == {0.3}
    assert all(np.array_equal(np.rint(out / step) * step, out) for _, _, out in met)
    assert abs(noise.std() / 0.3 - 1) < 0.05
    assert len(met) == 6


def test_projections_are_functions_of_the_base_model_alone():
    """Trained weights and documents change neither; both have directions of unit size, scaled."""
    one, other = adapted_model(seed=3), adapted_model(seed=3)
    with one.attach():
        sum_clipped_gradients(one, TextRecords(some_documents(9), LENGTH), np.arange(9), 1.0)
    again = AdaptedModel(one.model, 2, language_losses)
    for first, second, third in zip(one.adapters, other.adapters, again.adapters, strict=True):
        assert torch.equal(first.down, second.down)
        assert torch.equal(first.down, third.down)
        assert torch.equal(first.left, third.left)
        assert torch.allclose(first.down @ first.down.T, torch.eye(2), atol=1e-5)
        gram = first.left.T @ first.left
        assert torch.allclose(gram / gram[0, 0], torch.eye(2), atol=1e-5)


def test_the_first_state_is_the_base_model():
    start = TrainingState.start(5)
    assert start.step == 0
    assert not start.weights.any()


# ── Models that cannot be trained ─────────────────────────────────────────────────────────────────


class Mixing:
    """Hooks that make a layer depend on the other documents of a batch."""

    @staticmethod
    def mean(_module, _inputs, output):
        return output + output.mean(0, keepdim=True)

    @staticmethod
    def place(_module, _inputs, output):
        return output * (1 + torch.arange(len(output)))[:, None, None]

    @staticmethod
    def random(_module, _inputs, output):
        return output + 0.1 * torch.randn_like(output)


@pytest.mark.parametrize("name", ["mean", "place", "random"])
def test_models_that_mix_documents_are_refused(name):
    model = gpt2()
    model.transformer.h[0].mlp.register_forward_hook(getattr(Mixing, name))
    with pytest.raises(InputError, match="every document by itself"):
        check_model(AdaptedModel(model, 2, language_losses), LENGTH)


def test_models_that_remember_are_refused():
    model = gpt2()
    model.register_buffer("seen", torch.zeros(1))
    model.transformer.h[0].mlp.register_forward_hook(lambda *_: model.seen.add_(1) and None)
    with pytest.raises(InputError, match="remember"):
        check_model(AdaptedModel(model, 2, language_losses), LENGTH)


def test_batch_normalisation_is_refused():
    model = gpt2()
    model.transformer.h[0].extra = torch.nn.BatchNorm1d(8)
    with pytest.raises(InputError, match="batch normalisation"):
        check_model(AdaptedModel(model, 2, language_losses), LENGTH)


def test_a_weight_that_two_layers_share_is_refused():
    model = gpt2()
    first, second = (block.mlp.c_fc for block in model.transformer.h)
    second.weight = first.weight
    with pytest.raises(InputError, match="a weight of its own"):
        check_model(AdaptedModel(model, 2, language_losses), LENGTH)


@pytest.mark.parametrize("make", [gpt2, llama])
def test_models_that_treat_documents_alone_are_accepted(make):
    adapted = AdaptedModel(make(), 2, language_losses)
    check_model(adapted, LENGTH)
    assert not adapted.weights.any()
