"""The audit passes every sound kind of instances, and names each thing that can be wrong with them."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertcore import audit
from bertcore.audit import Audit, unigram_baseline
from bertcore.errors import ArtifactError, InputError
from bertcore.instances.arrays import Instances
from bertcore.instances.config import MaskConfig
from bertcore.instances.masking import Words
from bertcore.instances.sources import DrawnInstances
from bertcore.ragged import offsets_of
from bertcore.shards.store import TokenShard
from tests.samples import every_row, token_shard, vocabulary

CONFIG = MaskConfig(sequence_length=48, max_predictions_per_seq=8)


def drawn(tmp_path: Path, config: MaskConfig = CONFIG) -> DrawnInstances:
    return DrawnInstances.of(token_shard(tmp_path, 400), "shard", 0, config, vocabulary())


OPTIONS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"rounding": "roberta", "random_ids": "no_special", "max_predictions_per_seq": None},
    "electra": {"mask_share": 0.85, "random_share": 0.0},
    "word": {"replace_unit": "word"},
    "spanbert": {"replace_unit": "span", "span_lengths": "geometric", "max_ngram": 10},
}


@pytest.mark.parametrize("packing", ["pairs", "sentence_order", "full_sentences", "doc_sentences"])
@pytest.mark.parametrize(
    ("masking", "options"),
    [
        (masking, options)
        for masking in ("token", "whole_word", "span")
        for options in OPTIONS
        if masking != "token" or "replace_unit" not in OPTIONS[options]
    ],
)
def test_sound_instances_pass(tmp_path: Path, packing: Any, masking: Any, options: str) -> None:
    config = replace(CONFIG, packing=packing, masking=masking, **OPTIONS[options])
    source, audit = drawn(tmp_path, config), Audit(config, vocabulary())
    instances = audit.add_drawn(source)
    audit.check()
    report = audit.report()
    assert report["sequences"] == len(instances) == len(source)
    assert report["predicted_tokens"] == len(instances.masked_positions)
    assert report["padding_share_if_padded"] == 1 - len(instances.tokens) / (48 * len(instances))
    assert sum(report["length_histogram"].values()) == len(instances)
    assert report["truncated_tokens"] == source.packed.truncated_tokens
    assert min(value for name, value in report.items() if name.endswith("p_value")) > 1e-6
    assert ("random_next_share" in report, "swapped_share" in report) == (
        packing == "pairs",
        packing == "sentence_order",
    )


@pytest.mark.parametrize(
    ("masking", "share", "passes"), [("span", 0.02, True), ("span", 0.2, False), ("whole_word", 0.02, False)]
)
def test_of_spans_a_few_percent_are_no_defect(tmp_path: Path, masking: Any, share: float, passes: bool) -> None:
    """Their neighbours' lengths decide, too; a million of them tell any difference from chance. At the ends there are
    few, which chance moves further."""
    config = replace(CONFIG, packing="full_sentences", masking=masking)
    audit = Audit(config, vocabulary())
    audit.add_drawn(drawn(tmp_path, config))
    audit.places = np.array([[88, *8 * [1e6], 2], [100, *8 * [1e6], 3]])
    audit.places[0, 3:5] += [1e6 * share, -1e6 * share]
    if passes:
        audit.check()
    else:
        with pytest.raises(ArtifactError, match="not uniform over positions"):
            audit.check()


def with_predictions(instances: Instances, chosen: np.ndarray, found: np.ndarray | None = None) -> Instances:
    """The same sequences with other predictions, `chosen` (T,), and what stands there ([MASK])."""
    tokens = instances.tokens.copy()
    tokens[instances.masked_positions] = instances.masked_labels
    positions = np.flatnonzero(chosen)
    labels = tokens[positions]
    tokens[positions] = vocabulary().mask if found is None else found
    return replace(
        instances,
        tokens=tokens,
        masked_positions=positions,
        masked_labels=labels,
        masked_offsets=offsets_of(np.add.reduceat(chosen, instances.offsets[:-1], dtype=np.int64)),
    )


def chosen_in(instances: Instances) -> np.ndarray:
    chosen = np.zeros(len(instances.tokens), bool)
    chosen[instances.masked_positions] = True
    return chosen


def special_predicted(sound: Instances) -> Instances:
    chosen = chosen_in(sound)
    chosen[sound.offsets[3]] = True
    return with_predictions(sound, chosen)


def one_too_few(sound: Instances) -> Instances:
    chosen = chosen_in(sound)
    chosen[sound.masked_positions[5]] = False
    return with_predictions(sound, chosen)


def one_too_many(sound: Instances) -> Instances:
    chosen = chosen_in(sound)
    row = int(np.flatnonzero(sound.lengths == 48)[0])
    free = sound.offsets[row] + np.flatnonzero(~chosen[sound.offsets[row] : sound.offsets[row + 1]])
    chosen[[place for place in free if not vocabulary().special[sound.tokens[place]]][:1]] = True
    return with_predictions(sound, chosen)


def first_places(sound: Instances) -> Instances:
    rows = np.repeat(np.arange(len(sound)), sound.lengths)
    maskable = ~vocabulary().special
    maskable[vocabulary().unk] = True
    tokens = sound.tokens.copy()
    tokens[sound.masked_positions] = sound.masked_labels
    rank = np.cumsum(maskable[tokens]) - 1
    rank -= rank[sound.offsets[:-1]][rows] + 1
    return with_predictions(sound, maskable[tokens] & (rank < np.diff(sound.masked_offsets)[rows]))


def always_mask(sound: Instances) -> Instances:
    return with_predictions(sound, chosen_in(sound))


def random_ids_from_the_first_half(sound: Instances) -> Instances:
    found = sound.tokens[sound.masked_positions].copy()
    is_random = (found != vocabulary().mask) & (found != sound.masked_labels)
    found[is_random] = 5 + found[is_random] // 2
    return with_predictions(sound, chosen_in(sound), found)


def labels_all_random(sound: Instances) -> Instances:
    return replace(sound, next_sentence_labels=np.ones(len(sound), np.int8))


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (special_predicted, "special tokens are predicted"),
        (one_too_few, "another number of predictions"),
        (one_too_many, "another number of predictions"),
        (first_places, "not uniform over positions"),
        (always_mask, "differ from 80/10 %"),
        (random_ids_from_the_first_half, "random ids are not uniform"),
        (labels_all_random, "labels of pairs are not balanced"),
    ],
)
def test_each_defect_is_named(tmp_path: Path, spoil: Any, problem: str) -> None:
    source, audit = drawn(tmp_path), Audit(CONFIG, vocabulary())
    audit.add(spoil(every_row(source)), source.free)
    with pytest.raises(ArtifactError, match=problem):
        audit.check()


def test_a_word_predicted_in_part_is_named(tmp_path: Path) -> None:
    config = replace(CONFIG, masking="whole_word")
    sound = every_row(drawn(tmp_path, config))
    original = sound.tokens.copy()
    original[sound.masked_positions] = sound.masked_labels
    words = Words.find(original, sound.offsets, True, vocabulary())
    long = words.starts[words.lengths > 1]
    chosen = chosen_in(sound)
    chosen[long[chosen[long]][0]] = False
    audit = Audit(config, vocabulary())
    audit.add(with_predictions(sound, chosen))
    with pytest.raises(ArtifactError, match="words are predicted in part"):
        audit.check()


def test_a_special_token_as_random_id_is_named_where_the_rule_excludes_it(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    audit = Audit(replace(CONFIG, random_ids="no_special"), vocabulary())
    audit.add(every_row(source), source.free)
    with pytest.raises(ArtifactError, match="drawn from outside the rule's"):
        audit.check()


def test_instances_of_one_unit_fail_the_audit_of_another(tmp_path: Path) -> None:
    for made, asked in (("token", "whole_word"), ("token", "span")):
        source = drawn(tmp_path, replace(CONFIG, masking=made))
        audit = Audit(replace(CONFIG, masking=asked), vocabulary())
        audit.add(every_row(source), source.free)
        with pytest.raises(ArtifactError, match="words are predicted in part"):
            audit.check()


def test_pieces_replaced_each_for_itself_fail_the_audit_of_words_replaced_together(tmp_path: Path) -> None:
    config = replace(CONFIG, masking="whole_word")
    source, audit = drawn(tmp_path, config), Audit(replace(config, replace_unit="word"), vocabulary())
    audit.add(every_row(source), source.free)
    with pytest.raises(ArtifactError, match="differ from 80/10 %"):
        audit.check()


def test_pairs_that_had_to_be_random_are_expected(tmp_path: Path) -> None:
    source, audit = drawn(tmp_path), Audit(CONFIG, vocabulary())
    instances = audit.add_drawn(source)
    forced = instances.next_sentence_labels[~source.free].sum()
    assert audit.report()["random_next_share_expected"] == (forced + source.free.sum() / 2) / len(instances)


def counted(labels_by_length: dict[int, tuple[int, int]], config: MaskConfig = CONFIG) -> Audit:
    """An audit of sequences with these numbers of labels 0 and 1: length -> (zeros, ones)."""
    audit = Audit(config, vocabulary())
    for length, numbers in labels_by_length.items():
        audit.labels_by_length[:, length] = numbers
        audit.labels_by_segments[:, length // 2, length - length // 2] = numbers
    return audit


def test_the_label_baselines_know_the_training_labels_alone() -> None:
    train = counted({20: (8, 2), 30: (1, 9), 40: (5, 5)})  # 16 ones, 14 zeros
    heldout = counted({20: (30, 10), 30: (20, 0), 40: (3, 7), 48: (10, 20)})
    found = heldout.label_baselines(train)
    assert found == {"majority_accuracy": 37 / 100, "by_length_alone_accuracy": (30 + 0 + 7 + 20) / 100}
    unpaired = replace(CONFIG, packing="full_sentences")
    assert counted({20: (9, 0)}, unpaired).label_baselines(counted({20: (9, 0)}, unpaired)) == {}


def test_labels_that_lengths_do_not_tell_give_the_length_baseline_nothing() -> None:
    def shuffled(seed: int, sequences: int) -> Audit:
        ones = np.random.default_rng(seed).binomial(sequences, 0.5, 40)
        return counted({8 + place: (sequences - int(one), int(one)) for place, one in enumerate(ones)})

    train, heldout = shuffled(1, 200), shuffled(2, 30)
    in_sample = heldout.labels_by_length.max(axis=0).sum() / heldout.labels_by_length.sum()
    found = heldout.label_baselines(train)["by_length_alone_accuracy"]
    assert abs(found - 0.5) < 0.04 < in_sample - 0.5


def test_the_length_baseline_sees_the_lengths_of_both_segments() -> None:
    """All pairs are of 40 tokens; A is the longer segment in those of label 1."""
    audit = Audit(CONFIG, vocabulary())
    labels = np.arange(200) % 2
    nothing = np.zeros(0, np.int64)
    instances = Instances(
        tokens=np.full(200 * 40, 50, np.uint16),
        offsets=np.arange(201) * 40,
        segment_a_lengths=np.where(labels, 30, 10).astype(np.int32),
        next_sentence_labels=labels.astype(np.int8),
        masked_positions=nothing,
        masked_labels=nothing.astype(np.uint16),
        masked_offsets=np.zeros(201, np.int64),
    )
    audit._count_labels(instances, None)
    assert audit.label_baselines(audit) == {"majority_accuracy": 0.5, "by_length_alone_accuracy": 1.0}


def shard_of(documents: list[list[int]]) -> TokenShard:
    """Documents of sentences of these lengths."""
    lengths = np.array([length for document in documents for length in document])
    text = np.arange(lengths.sum()) % 50 + 20
    bounds = offsets_of(lengths), offsets_of(np.array([len(document) for document in documents]))
    return TokenShard(text.astype(np.uint16), *(offsets.astype(np.int32) for offsets in bounds))


@pytest.mark.parametrize("masking", ["token", "whole_word", "span"])
@pytest.mark.parametrize("packing", ["pairs", "sentence_order"])
def test_a_shard_without_a_sequence_counts_nothing_and_a_split_of_them_is_an_error(
    tmp_path: Path, packing: Any, masking: Any
) -> None:
    config = replace(CONFIG, packing=packing, masking=masking)
    audit = Audit(config, vocabulary())
    empty = DrawnInstances.of(shard_of([[5]]), "heldout-00007.arrow", 0, config, vocabulary())
    instances = audit.add_drawn(empty)
    assert len(instances) == len(empty) == 0
    instances.write(tmp_path / "x.arrow")
    assert len(Instances.read(tmp_path / "x.arrow")) == 0
    with pytest.raises(InputError, match=r"heldout-00007.arrow: found no sequence .*mask.packing: full_sentences"):
        audit.check()
    audit.add_drawn(drawn(tmp_path, config))
    audit.check()


def warnings_of(shard: TokenShard, caplog: pytest.LogCaptureFixture, name: str = "train", **options: Any) -> list[str]:
    config = replace(CONFIG, **options)
    audit = Audit(config, vocabulary())
    audit.add_drawn(DrawnInstances.of(shard, name, 0, config, vocabulary()))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        audit.check()
    return [record.getMessage() for record in caplog.records]


def test_pairs_without_a_choice_are_named_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    one_document, one_sentence = shard_of([[9] * 90]), shard_of([[9]] * 90)
    for shard, share in ((one_document, "0.0 %"), (one_sentence, "100.0 %")):
        (line,) = warnings_of(shard, caplog)
        assert line.startswith(f"{share} of the pairs are random ones") and "blank line" in line
    assert warnings_of(one_sentence, caplog, name="heldout-00000.arrow") == []
    assert warnings_of(shard_of([[9] * 9] * 90), caplog) == []
    assert warnings_of(one_document, caplog, packing="full_sentences") == []


def test_too_few_predictions_for_the_length_are_named_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    shard = shard_of([[9] * 60] * 20)
    (line,) = warnings_of(shard, caplog, sequence_length=200)
    assert "predicted, not 15 %: max_predictions_per_seq 8 is too few at sequence_length 200; set it to 30" in line
    for enough in ({"max_predictions_per_seq": 30}, {"max_predictions_per_seq": None}):
        assert warnings_of(shard, caplog, sequence_length=200, **enough) == []
    assert warnings_of(shard_of([[3] * 3] * 200), caplog, sequence_length=200) == []  # short documents


def test_the_unigram_baseline_is_the_cross_entropy_of_the_smoothed_frequencies() -> None:
    counts = np.array([7, 0, 1])
    found = unigram_baseline(counts, np.array([1, 0, 1]))
    assert found["accuracy"] == 0.5
    assert found["loss"] == pytest.approx(-(np.log(8 / 11) + np.log(2 / 11)) / 2)


def test_counts_that_are_hardly_expected_do_not_fail_a_sound_audit() -> None:
    draws = np.random.default_rng(0).multinomial(6_000, [0.99995, 0.00005], size=20_000)
    found = [audit._p_value(np.array([[24_000, *drawn], [24_000, 5999.7, 0.3]])) for drawn in draws]
    assert 0 <= sum(p < 1e-3 for p in found) < 50
    assert audit._p_value(np.array([[24_000, 5_985, 15], [24_000, 5999.7, 0.3]])) < 1e-6
    assert audit._p_value(np.array([[24_600, 5_400, 0], [24_000, 5999.7, 0.3]])) < 1e-6
    assert audit._p_value(np.array([[50, 4, 6], [50, 5, 5]])) > 0.1
    assert audit._p_value(np.array([[24_000, 5_999, 1], [24_000, 6_000, 0]])) == 0, "what cannot occur"
