"""What the card of a pre-trained encoder says of the text that it was made from."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bertcore.model.config import ModelConfig, build_pretraining
from tasks import cards
from tasks.paths import PRETRAINED, TEXT, TEXT_OF_SOURCES
from tests.import_closure import ROOT
from tests.small import FIELDS

HELD = [
    {"uri": "texts/law/", "documents": 40, "train": {"words": 9000, "bytes": 3_000_000}, "train_share": 0.75},
    {"uri": "pydoc", "documents": 30, "train": {"words": 2000, "bytes": 1_000_000}, "train_share": 0.25},
]
LAW = {"uri": "texts/law/", "weight": 2.5, "name": "German law", "license": "CC0-1.0"}


def card(sources: list[Any]) -> str:
    TEXT.parent.mkdir(parents=True, exist_ok=True)
    TEXT.write_text(json.dumps({"language": "en", "sources": sources}))
    TEXT_OF_SOURCES.parent.mkdir(exist_ok=True)
    TEXT_OF_SOURCES.write_text(json.dumps({"sources": HELD}))
    model = build_pretraining(ModelConfig(architecture="bert", fields=FIELDS).build(64))
    metrics = {"tokens": 10, "steps": 2, "loss": 3.5, "heldout_sequences": 4}
    return cards.of_pretrained(model, {"train": 12_000, "heldout": 300}, metrics, PRETRAINED)


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    Path("params.yaml").write_text("mask: {seed: 1}\n")


def test_the_text_is_accounted_for_by_source() -> None:
    said = card([LAW, "pydoc"])
    assert "| German law, `texts/law/` | CC0-1.0 | 2.5 | 40 | 9,000 | 3.0 | 75.0 % |" in said
    assert "| `pydoc` | not given | 1 | 30 | 2,000 | 1.0 | 25.0 % |" in said
    assert "12,000 tokens to learn from, 300 held out" in said


def test_the_note_on_the_licence_says_what_the_sources_say() -> None:
    assert "Its text stands under CC0-1.0; of 1 of its 2 sources none is given. The licence" in card([LAW, "pydoc"])
    both = card([LAW, {"uri": "pydoc", "license": "PSF-2.0"}])
    assert "Its text stands under CC0-1.0, PSF-2.0. The licence" in both
    assert "No licence is given of its text. The licence" in card(["texts/law/", "pydoc"])
