"""Instances: the layout of a pair, static copies against drawn ones, the order of training."""

from pathlib import Path

import numpy as np
import pytest

from bertcore.data.audit import Audit, unigram_baseline
from bertcore.data.instances import DrawnInstances, Instances, MaskConfig
from bertcore.data.loader import Loader
from bertcore.errors import ArtifactError, InputError
from tests.samples import token_shard, tokenizer, vocabulary

CONFIG = MaskConfig(sequence_length=48, max_predictions_per_seq=8)
FIELDS = (
    "tokens",
    "offsets",
    "segment_a_lengths",
    "next_sentence_labels",
    "masked_positions",
    "masked_labels",
    "masked_offsets",
)


def drawn(tmp_path: Path, epoch: int = 0, seed: int = 0) -> DrawnInstances:
    return DrawnInstances.of(token_shard(tmp_path, seed=seed), f"shard-{seed}", epoch, CONFIG, vocabulary())


def assert_equal(first: Instances, second: Instances) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


def test_a_row_is_cls_a_sep_b_sep_with_the_original_tokens_behind_the_masks(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    instances, words = source.all(), vocabulary()
    original = instances.tokens.copy()
    original[instances.masked_positions] = instances.masked_labels
    for row in range(len(instances)):
        tokens = original[instances.offsets[row] : instances.offsets[row + 1]]
        middle = instances.segment_a_lengths[row]
        pairs, text = source.pairs, source.shard.tokens
        segment_a, segment_b = text[pairs.a_start[row] : pairs.a_end[row]], text[pairs.b_start[row] : pairs.b_end[row]]
        np.testing.assert_array_equal(tokens, [words.cls, *segment_a, words.sep, *segment_b, words.sep])
        assert middle == len(segment_a) + 2


def test_a_true_pair_reads_on_in_its_document(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    row = int(np.flatnonzero(source.pairs.next_sentence_labels == 0)[0])
    start, end = int(source.pairs.a_start[row]), int(source.pairs.b_end[row])
    assert "." in tokenizer().decode(source.shard.tokens[start:end].tolist())


def test_static_copies_equal_drawn_instances(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    source.all().write(tmp_path / "static.arrow")
    static = Instances.read(tmp_path / "static.arrow")
    rows = np.random.default_rng(0).permutation(len(source))[:17]
    assert_equal(static.take(rows), source.take(rows))
    assert_equal(source.all(block=7), source.all())


def test_epochs_differ_and_repeat_exactly(tmp_path: Path) -> None:
    first, again, other = drawn(tmp_path).all(), drawn(tmp_path).all(), drawn(tmp_path, epoch=1).all()
    assert_equal(first, again)
    assert len(first.tokens) != len(other.tokens) or (first.tokens != other.tokens).any()


def test_the_global_batch_is_the_same_for_any_number_of_ranks_and_from_any_start(tmp_path: Path) -> None:
    sources = [drawn(tmp_path, seed=seed) for seed in (0, 1)]

    def loader() -> Loader:
        return Loader(lambda epoch: list(sources), batch_size=12, seed=3)

    one = loader()
    steps = one.steps_per_epoch + 2
    batches = [one.batch(step) for step in range(steps)]
    for step in (0, steps - 1, one.steps_per_epoch - 1):
        assert_equal(loader().batch(step), batches[step])
        ranks = [loader().batch(step, rank, 4) for rank in range(4)]
        interleaved = Instances.concatenate(ranks).take(np.arange(12).reshape(4, 3).T.ravel())
        assert_equal(interleaved, batches[step])


def test_an_epoch_shows_every_sequence_at_most_once(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    loader = Loader(lambda epoch: [source], batch_size=5, seed=0)
    rows = np.concatenate([loader._order[5 * step : 5 * step + 5] for step in range(loader.steps_per_epoch)])
    assert len(set(rows.tolist())) == len(rows) == loader.steps_per_epoch * 5


def test_a_batch_larger_than_an_epoch_is_refused(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    with pytest.raises(InputError, match=r"pretrain.batch_size: found 100000, but an epoch has only \d+ sequences"):
        Loader(lambda epoch: [source], batch_size=100_000, seed=0)


def test_the_audit_passes_sound_instances_and_names_what_is_off(tmp_path: Path) -> None:
    sound = drawn(tmp_path).all()
    audit = Audit(CONFIG, vocabulary())
    audit.add(sound)
    audit.check()
    report = audit.report()
    assert report["sequences"] == len(sound) and report["predicted_tokens"] == len(sound.masked_positions)

    tokens = sound.tokens.copy()
    tokens[sound.masked_positions] = vocabulary().mask
    spoilt = Audit(CONFIG, vocabulary())
    spoilt.add(Instances(tokens, *(getattr(sound, name) for name in FIELDS[1:])))
    with pytest.raises(ArtifactError, match="80/10/10"):
        spoilt.check()


def test_the_unigram_baseline_is_the_cross_entropy_of_the_smoothed_frequencies() -> None:
    counts = np.array([7, 0, 1])
    found = unigram_baseline(counts, np.array([0, 2]))
    assert found["accuracy"] == 0.5
    assert found["loss"] == pytest.approx(-(np.log(8 / 11) + np.log(2 / 11)) / 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sequence_length": 4}, "sequence_length: found 4"),
        ({"duplicates": -1}, "duplicates: found -1"),
        ({"masked_lm_prob": 1.5}, "masked_lm_prob: found 1.5"),
    ],
)
def test_impossible_parameters_are_named(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskConfig(**values)
