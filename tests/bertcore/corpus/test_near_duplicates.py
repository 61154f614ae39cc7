"""Near duplicates: found at the similarity that the threshold says, the same ones every time."""

import subprocess
import sys

import numpy as np
import pytest

from bertcore.config import parse
from bertcore.corpus.near_duplicates import HASHES, NearDuplicates, NearDuplicatesConfig, bands, signature
from bertcore.errors import ConfigError


def pair(similarity: float, seed: int, words: int = 800) -> tuple[str, str]:
    """Two texts of which about that share of single words is common to both."""
    own = round(words * (1 - similarity) / (1 + similarity))
    numbers = np.random.default_rng(seed).permutation(10**6)[: words + own]
    names = [f"w{number}" for number in numbers]
    return " ".join(names[:words]), " ".join(names[own:])


def found(similarity: float, config: NearDuplicatesConfig, tries: int = 60) -> float:
    hits = 0
    for seed in range(tries):
        first, second = pair(similarity, seed)
        seen = NearDuplicates(config)
        assert not seen.repeats(signature(first, 1))
        hits += seen.repeats(signature(second, 1))
    return hits / tries


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_the_threshold_parts_alike_from_unlike(threshold: float) -> None:
    config = NearDuplicatesConfig(threshold=threshold, ngram=1)
    assert found(threshold - 0.15, config) <= 0.05
    assert found(threshold + 0.12, config) >= 0.95


def test_case_and_punctuation_make_no_difference_and_order_does() -> None:
    seen = NearDuplicates(NearDuplicatesConfig(ngram=3))
    texts = (
        "The reader closes the file, and the cache keeps its first line.",
        "the reader closes the FILE and the cache keeps its first line",
        "line first its keeps cache the and file the closes reader the",
    )
    assert [seen.repeats(signature(text, 3)) for text in texts] == [False, True, False]


def test_short_texts_are_compared_as_a_whole() -> None:
    seen = NearDuplicates(NearDuplicatesConfig(ngram=5))
    assert [seen.repeats(signature(text, 5)) for text in ("one two", "one three", "One, two.", "", "!")] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_every_process_drops_the_same() -> None:
    code = (
        "from bertcore.corpus.near_duplicates import *\nfrom tests.bertcore.corpus.test_near_duplicates import pair\n"
        "seen = NearDuplicates(NearDuplicatesConfig(ngram=1))\n"
        "print([seen.repeats(signature(text, 1)) for seed in range(40) for text in pair(0.8, seed, 200)])"
    )
    answers = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    (answer,) = answers
    assert b"True" in answer and b"False, False" in answer


def test_bands_lie_below_the_threshold() -> None:
    for threshold in np.arange(0.3, 1.0, 0.05):
        count = bands(threshold)
        assert HASHES % count == 0 and (1 / count) ** (count / HASHES) < threshold


def test_values_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match=r"n.threshold: found 0.1, expected a share between 0.3 and 1"):
        parse(NearDuplicatesConfig, {"threshold": 0.1}, "n")
    with pytest.raises(ConfigError, match=r"n.ngram: found 0, expected at least 1 word"):
        parse(NearDuplicatesConfig, {"ngram": 0}, "n")
