"""Signs of trouble in fabricated metrics: each is found where it is, and none where nothing is off."""

import csv
import io
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from bertcore.vocabulary.size import CHOSEN
from tasks.reporting import signs
from tasks.reporting.document import Paragraph, Table
from tasks.reporting.measurements import Measurements
from tasks.reporting.normal import CURVES
from tasks.reporting.summary import summarize
from tasks.reporting.text_tables import pretraining
from tests.tasks.test_report import FILES, write

STEPS = range(20, 6020, 20)


def curve(split: str, losses: dict[int, float]) -> str:
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerows([("step", f"{split}/loss", f"{split}/mlm_loss"), *((step, x, x) for step, x in losses.items())])
    return file.getvalue()


def falling(step: int) -> float:
    """From 10 to 4, at first fast."""
    return 4.0 + 6.0 * math.exp(-step / 500)


def learned() -> dict[int, float]:
    """A training's curve, as noisy as one of small batches."""
    noise = random.Random(1)
    return {step: falling(step) + noise.gauss(0.0, 0.07) for step in STEPS}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(project: Path, given_vocabulary: bool = False, **changes: Any) -> list[signs.Sign]:
    """In the metrics of a training that was normal, but for `changes`: files by name, or parts of them."""
    files = json.loads(json.dumps(FILES))
    files["curves/pretrain_train.csv"] = curve("train", learned())
    files["curves/pretrain_eval.csv"] = curve("eval", {step: falling(step) + 0.05 for step in STEPS[::30]})
    files["pretrain.json"] |= {"mlm_loss": 4.05, "tokens": 3_000_000, "architecture": "modernbert"}
    files["mask.json"] |= {"train_count_of_the_rarest_but_5_percent": 60, "train_text_tokens": 10_000}
    for name, change in changes.items():
        (name,) = [file for file in files if file.startswith(name.replace("__", "/"))]
        files[name] = {**files[name], **change} if isinstance(change, dict) else change
    write(project, files)
    measurements = Measurements.read(project / "metrics", [])
    return signs.signs(measurements, summarize(measurements, []), given_vocabulary)


def shown_beside(project: Path) -> list[list[str]]:
    """The rows of the report's table of the training that name another encoder."""
    measurements = Measurements.read(project / "metrics", [])
    summary = summarize(measurements, [])
    rows = pretraining(measurements, summary, signs.expected(measurements, summary)).rows
    return [list(row) for row in rows if "an encoder of this size" in row[0]]


def test_a_normal_training_has_none(project: Path) -> None:
    assert found(project) == []
    for compared in (True, False):
        said = signs.part([], compared)
        assert isinstance(said, Paragraph) and ("an encoder of its size" in said.text) is compared


def test_spikes_are_counted_where_they_begin(project: Path) -> None:
    losses = learned()
    for spike, height in ((2000, 3.0), (4000, 1.0)):
        losses |= {spike + 20 * n: falling(spike) + height * 0.7**n for n in range(8)}
    (sign,) = found(project, curves__pretrain_train=curve("train", losses))
    assert sign.found == "the training loss spiked 2 times, the most by 3.0 before step 2,000"
    table = signs.part([sign], True)
    assert isinstance(table, Table) and list(table.rows) == [["spikes", sign.found, sign.remedy]]


def test_a_loss_that_was_lower_before(project: Path) -> None:
    losses = {1000: 5.0, 2000: 3.8, 3000: 4.05}
    (sign,) = found(project, curves__pretrain_eval=curve("eval", losses))
    assert sign.name == "lost again" and sign.found.endswith("was lower by 0.25 at step 2,000")


def test_the_plateau_is_the_neighbourhood_of_the_unigrams(project: Path) -> None:
    (sign,) = found(project, pretrain={"mlm_loss": 6.0, "tokens": 9000})
    assert sign.found.startswith("after 0.01 M tokens the loss is 0.50 below that of the unigrams")


def test_the_plateau_of_a_discriminator_is_the_neighbourhood_of_no_token_is_replaced(project: Path) -> None:
    terms = {"replaced_tokens_loss": 0.39, "replaced_tokens_majority": 0.866}
    (sign,) = found(project, pretrain=terms | {"replaced_tokens_accuracy": 0.867})
    assert sign.name == "plateau" and sign.found.startswith("86.7 % of the tokens") and "86.6 %" in sign.found
    assert found(project, pretrain=terms | {"replaced_tokens_accuracy": 0.9}) == []


@pytest.mark.parametrize(
    ("changes", "behind"),
    [
        ({"mlm_loss": 5.0}, True),  # 1.5 below the unigrams, in place of 2.0
        ({"mlm_loss": 4.8}, False),
        ({"mlm_loss": 5.0, "parameters": 2_000_000}, False),
        ({"mlm_loss": 5.0, "architecture": "bert"}, False),
        ({"mlm_loss": 5.0, "vocab_size": 700}, False),
        ({"mlm_loss": 5.0, "tokens": 5_000_000}, False),
    ],
)
def test_like_encoders_are_compared_by_what_they_gained(project: Path, changes: dict[str, Any], behind: bool) -> None:
    entry = {"architecture": "modernbert", "preset": "tiny", "vocabulary": 512, "source": "a.md"}
    numbers = {"parameters": 1_600_000, "unigram_loss": 7.0, "points": [[1e6, 6.0], [3e6, 5.0], [4e6, 4.0]]}
    (project / CURVES).parent.mkdir(parents=True)
    (project / CURVES).write_text(json.dumps([entry | numbers]))
    tokenizer = {"vocab_size": changes.pop("vocab_size")} if "vocab_size" in changes else {}
    shown = found(project, tokenizer=tokenizer, pretrain={"parameters": 1_500_000, **changes})
    assert [sign.found for sign in shown if sign.name == "behind"] == (
        [
            "the loss is 1.50 below that of the unigrams; that of an encoder of this size was 2.00 after as many "
            "tokens (benchmarks/results/a.md)"
        ]
        if behind
        else []
    )
    beside = [["held-out loss of an encoder of this size after as many tokens (`a.md`, unigrams 7)", "5.000"]]
    assert shown_beside(project) == ([] if tokenizer or changes.keys() - {"mlm_loss"} else beside)


def test_overfitting_is_told_only_where_it_was_read_again(project: Path) -> None:
    (sign,) = found(project, pretrain={"mlm_loss": 4.6})
    assert sign.name == "overfitting" and "0.58 below" in sign.found
    assert found(project, pretrain={"mlm_loss": 4.6, "tokens": 9_000}) == []


def test_a_vocabulary_is_too_large_where_the_text_carries_less(project: Path) -> None:
    rare = {"tokenizer": {"vocab_size": 30_000}, "mask": {"train_count_of_the_rarest_but_5_percent": 2}}
    (sign,) = found(project, **rare)
    assert sign.found.startswith("5 % of its 30,000 entries occur at most 2 times")
    assert found(project, given_vocabulary=True, **rare) == [], "whose size nothing here decides"
    chosen = rare | {"tokenizer": {"vocab_size": 30_000, CHOSEN: "…"}}
    (sign,) = found(project, **chosen)
    assert sign.found.startswith("the text is too little for the 30,000") and sign.remedy == "give more text"
    chosen["mask"] = chosen["mask"] | {"train_text_tokens": 20_000_000}
    assert found(project, **chosen) == [], "by Zipf's law the rarest entry but 5 % occurs often enough"
    assert (
        found(
            project,
            mask={
                "train_count_of_the_rarest_but_5_percent": 49,
                "train_text_tokens": 10**9,
            },
        )
        == []
    )
