"""Losses and vocabularies that are normal: measured curves are read as they are, nothing is made up beyond them."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.errors import ArtifactError
from bertcore.vocabulary.size import ENOUGH, occurrences, vocabulary_for
from tasks.reporting.normal import CURVES, Curve, nearest_curve, read_curves
from tests.import_closure import ROOT


def curve(preset: str = "tiny", vocabulary: int = 8192) -> Curve:
    points = ((1e6, 6.0), (4e6, 5.0))
    return Curve(
        architecture="bert",
        preset=preset,
        vocabulary=vocabulary,
        parameters=10**6,
        source="page.md",
        unigram_loss=7.0,
        points=points,
    )


def test_a_loss_lies_on_the_measured_curve_and_nowhere_else() -> None:
    assert curve().loss(1e6) == 6.0 and curve().loss(4e6) == 5.0
    assert curve().loss(2e6) == pytest.approx(5.5)
    assert curve().loss(0.9e6) is None and curve().loss(4.1e6) is None


def test_the_curve_of_the_nearest_vocabulary_is_taken() -> None:
    curves = [curve(vocabulary=8192), curve(vocabulary=30522), curve(preset="mini", vocabulary=10000)]
    found = nearest_curve(curves, "bert", "tiny", 20000)
    assert found is not None and found.vocabulary == 30522
    assert nearest_curve(curves, "bert", "base", 20000) is None
    assert nearest_curve(curves, "bert", "tiny", 80000) is None, "too far to tell anything"


def test_the_measured_curves_of_the_repository_are_those_of_their_pages() -> None:
    for each in read_curves(ROOT / CURVES):
        page = (ROOT / "benchmarks/results" / each.source).read_text()
        assert f"{each.parameters:,}" in page and f"{each.unigram_loss:g}" in page
        for tokens, loss in each.points:
            assert f"{tokens:,.0f}" in page and f"{loss:g}" in page


@pytest.mark.parametrize("points", [[[1, 2]], [[2, 5.0], [1, 6.0]], "none"])
def test_a_file_without_curves_is_one_line(tmp_path: Path, points: object) -> None:
    numbers = {"vocabulary": 1, "parameters": 1, "unigram_loss": 7.0, "points": points}
    entry = {"architecture": "bert", "preset": "tiny", "source": "x", **numbers}
    (tmp_path / "curves.json").write_text(json.dumps([entry]))
    with pytest.raises(ArtifactError, match="found no curves") as error:
        read_curves(tmp_path / "curves.json")
    assert "\n" not in str(error.value)
    assert read_curves(tmp_path / "nothing.json") == []


def test_occurrences_are_those_of_a_text_after_zipf() -> None:
    entries, tokens = 2000, 1e6
    counts = [1 / rank for rank in range(1, entries + 1)]
    exact = tokens * counts[math.ceil(0.95 * entries) - 1] / sum(counts)
    assert occurrences(tokens, entries) == pytest.approx(exact, rel=1e-3)


@given(st.floats(1e6, 1e9))
def test_the_vocabulary_is_the_largest_that_the_text_carries(tokens: float) -> None:
    size = vocabulary_for(tokens)
    assert size % 64 == 0
    assert occurrences(tokens, size) >= ENOUGH or size == 512
    assert occurrences(tokens, size + 64) < ENOUGH or size + 64 > 50_000
