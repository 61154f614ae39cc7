"""Stage `mask` on small real shards: what it writes is what the training opens, and the audit stops it."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from ruamel.yaml import YAML

from bertcore import cores
from bertcore.errors import ArtifactError
from bertcore.files import checksum
from bertcore.instances import sources as instances
from bertcore.instances.arrays import Instances
from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances, InstanceSource
from bertcore.instances.store import open_sources
from bertcore.masks import write_phase
from bertcore.shards.store import Manifest, ShardEntry
from bertcore.tokens.wordpiece import save_tokenizer
from tasks import mask, params
from tasks.paths import INSTANCES, SHARDS, TOKENIZER
from tasks.tracking.runs import StageRun
from tests.samples import token_shard, tokenizer, vocabulary
from tests.tasks.recorder import Recorder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two training shards and a held-out one, with their tokenizer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cores, "available", lambda: 1)  # this process, in which tests replace functions
    SHARDS.mkdir(parents=True)
    TOKENIZER.mkdir(parents=True)
    save_tokenizer(tokenizer(), TOKENIZER, lowercase=True)
    entries = []
    for seed, (split, number) in enumerate([("train", 0), ("train", 1), ("heldout", 0)]):
        path = SHARDS / f"{split}-{number:05d}.arrow"
        shard = token_shard(tmp_path, 150, seed)
        shard.write(path)
        entries.append(ShardEntry(path.name, split, *shard.counts, checksum(path)))
    Manifest(vocabulary().size, "", entries).write(SHARDS)
    return tmp_path


def run(**section: Any) -> tuple[dict[str, Any], MaskConfig]:
    values = {"sequence_length": 48, "max_predictions_per_seq": 8, **section}
    with Path("params.yaml").open("w") as file:
        YAML().dump({"mask": values}, file)
    mask.run(cast(StageRun, recorder := Recorder()))
    assert recorder.metrics == json.loads(Path("metrics/mask.json").read_text())
    return recorder.metrics, params.section("mask", MaskConfig)


def opened(config: MaskConfig, epoch: int = 0) -> list[InstanceSource]:
    return open_sources(INSTANCES, SHARDS, config, vocabulary(), "train", epoch)


@pytest.mark.parametrize("packing", ["pairs", "sentence_order", "full_sentences", "doc_sentences"])
def test_static_copies_are_what_the_training_would_draw(project: Path, packing: Any) -> None:
    metrics, static = run(packing=packing, duplicates=2)
    copies = [[source.take(np.arange(len(source))) for source in opened(static, epoch)] for epoch in (0, 1, 2)]
    assert metrics["train"]["sequences"] == 2 * sum(map(len, copies[0]))
    again, drawing = run(packing=packing, duplicates=0)
    assert again["heldout"] == metrics["heldout"] and len(list(INSTANCES.rglob("*.arrow"))) == 1
    for epoch in (0, 1):
        for static_copy, source in zip(copies[epoch], opened(drawing, epoch), strict=True):
            assert isinstance(source, DrawnInstances)
            own = source.take(np.arange(len(source)))
            for name in Instances.__dataclass_fields__:
                np.testing.assert_array_equal(getattr(static_copy, name), getattr(own, name), err_msg=name)
    np.testing.assert_array_equal(copies[2][0].tokens, copies[0][0].tokens)  # two copies: the third epoch is the first


def test_the_baselines_of_heldout_labels_are_learned_from_the_training_split(project: Path) -> None:
    metrics, config = run()
    train, heldout = (
        [source.take(np.arange(len(source))) for source in open_sources(INSTANCES, SHARDS, config, vocabulary(), of, 0)]
        for of in ("train", "heldout")
    )
    known = np.concatenate([part.next_sentence_labels for part in train])
    asked = np.concatenate([part.next_sentence_labels for part in heldout])
    known_lengths, asked_lengths = (  # of A and of both; at 48 tokens a bin is one token
        [pair for part in parts for pair in zip(part.segment_a_lengths.tolist(), part.lengths.tolist(), strict=True)]
        for parts in (train, heldout)
    )
    baselines = metrics["heldout_label_baselines"]
    majority = known.mean() > 0.5
    assert baselines["majority_accuracy"] == (asked == majority).mean()
    of_lengths: dict[tuple[int, int], list[int]] = {}
    for lengths, label in zip(known_lengths, known.tolist(), strict=True):
        of_lengths.setdefault(lengths, []).append(label)
    shares = [np.mean(of_lengths.get(lengths, [0, 1])) for lengths in asked_lengths]
    guesses = [majority if share == 0.5 else share > 0.5 for share in shares]
    assert baselines["by_length_alone_accuracy"] == (asked == guesses).mean()


def test_each_phase_has_its_own_instances(project: Path) -> None:
    metrics, config = run(second_phase={"sequence_length": 96, "max_predictions_per_seq": 15})
    assert metrics["second_phase"]["train"]["sequences"] < metrics["train"]["sequences"]
    for phase in config.phases:
        longest = [source.take(np.arange(len(source))).lengths.max() for source in opened(phase)]
        assert max(longest) == phase.sequence_length


@pytest.mark.parametrize("packing", ["pairs", "full_sentences"])
def test_the_bytes_and_the_audit_do_not_depend_on_the_number_of_workers(project: Path, packing: Any) -> None:
    config, found = MaskConfig(sequence_length=48, max_predictions_per_seq=8, packing=packing, duplicates=2), []
    for count in (1, 2):
        (output := project / str(count)).mkdir()
        metrics = write_phase(config, Manifest.read(SHARDS), vocabulary(), SHARDS, output, count)
        files = {path.name: path.read_bytes() for path in sorted(output.rglob("*")) if path.is_file()}
        found.append((metrics, files))
    assert found[0] == found[1] and len(found[0][1]) == 6  # two copies of two shards, the held-out one, the counts


def test_a_failed_audit_leaves_nothing_behind(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = instances.mask

    def spoilt(tokens: np.ndarray, *arguments: Any) -> Any:
        masked = sound(tokens, *arguments)
        masked.tokens[masked.positions] = masked.labels
        return masked

    monkeypatch.setattr(instances, "mask", spoilt)
    with pytest.raises(ArtifactError, match="the audit failed: .*differ from 80/10 %"):
        run()
    assert not INSTANCES.exists() and not Path("metrics").exists()


def test_held_out_masks_are_the_same_for_every_rule_of_the_training(project: Path) -> None:
    """So that the losses of recipes can be compared."""
    files = []
    metrics, _ = run()
    for section in ({}, {"masking": "span", "masked_lm_prob": 0.4, "mask_share": 1.0, "random_share": 0.0}):
        again, _ = run(**section)
        assert again["heldout"] == metrics["heldout"] and "words_predicted_in_part" not in again["heldout"]
        files.append([path.read_bytes() for path in sorted(INSTANCES.rglob("heldout*.arrow"))])
    assert (
        files[0] == files[1] and again["train"]["mask_share"] == 1.0 and again["train"]["words_predicted_in_part"] == 0
    )
