"""Near duplicates: found at the similarity that the threshold says, the same ones every time."""

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rensa import RMinHash, RMinHashDeduplicator

from bertcore.config import parse
from bertcore.corpus import near_duplicates
from bertcore.corpus.near_duplicates import HASHES, SEED, NearDuplicates, NearDuplicatesConfig, _keys, bands, signature
from bertcore.corpus.ngrams import ngram_texts
from bertcore.errors import ConfigError


def pair(similarity: float, seed: int, words: int = 800) -> tuple[str, str]:
    """Two texts of which about that share of single words is common to both."""
    own = round(words * (1 - similarity) / (1 + similarity))
    numbers = np.random.default_rng(seed).choice(10**6, words + own, replace=False)
    names = [f"w{number}" for number in numbers]
    return " ".join(names[:words]), " ".join(names[own:])


def found(similarity: float, config: NearDuplicatesConfig, directory: Path, tries: int = 60) -> float:
    hits = 0
    for seed in range(tries):
        first, second = pair(similarity, seed)
        kept = NearDuplicates(config, directory).add([signature(first, 1), signature(second, 1)])
        assert kept[0]
        hits += not kept[1]
    return hits / tries


def kept(texts: Sequence[str], ngram: int, directory: Path) -> list[bool]:
    return NearDuplicates(NearDuplicatesConfig(ngram=ngram), directory).add([signature(text, ngram) for text in texts])


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_the_threshold_parts_alike_from_unlike(tmp_path: Path, threshold: float) -> None:
    config = NearDuplicatesConfig(threshold=threshold, ngram=1)
    assert found(threshold - 0.15, config, tmp_path) <= 0.05
    assert found(threshold + 0.12, config, tmp_path) >= 0.95


@pytest.mark.parametrize(("threshold", "count"), [(0.4, 64), (0.8, 16)])  # the library's divide the hashes
@pytest.mark.parametrize("most", [1, 300, 10**6])
def test_on_disk_or_in_memory_they_are_those_of_the_library(
    tmp_path: Path, threshold: float, count: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_duplicates, "bands", lambda _: count)
    rng, config = random.Random(most), NearDuplicatesConfig(threshold=threshold)
    library = RMinHashDeduplicator(threshold=threshold, num_perm=HASHES, use_lsh=True, num_bands=count, seed=SEED)
    ours = NearDuplicates(config, tmp_path, most)
    texts = [text for seed in range(120) for text in pair(rng.uniform(threshold - 0.3, 1), seed, 100)]
    rng.shuffle(texts)
    answers = []
    while texts:
        batch = [texts.pop() for _ in range(min(rng.randrange(1, 12), len(texts)))]
        expected = [bool(library.add(f"{len(answers)}.{n}", of_library(each))) for n, each in enumerate(batch)]
        answers += ours.add([signature(each, 1) for each in batch])
        assert answers[-len(batch) :] == expected
    assert 20 < answers.count(False) < 120
    assert not list(tmp_path.iterdir())


def test_case_and_punctuation_make_no_difference_and_order_does(tmp_path: Path) -> None:
    texts = (
        "The reader closes the file, and the cache keeps its first line.",
        "the reader closes the FILE and the cache keeps its first line",
        "line first its keeps cache the and file the closes reader the",
    )
    assert kept(texts, 3, tmp_path) == [True, False, True]


def test_short_texts_are_compared_as_a_whole(tmp_path: Path) -> None:
    assert kept(("one two", "one three", "One, two."), 5, tmp_path) == [True, True, False]


def test_texts_without_a_word_are_like_no_other(tmp_path: Path) -> None:
    assert kept(("", "!", "\U0001f602 \U0001f389", "!"), 5, tmp_path) == [True] * 4


@pytest.mark.parametrize("most", [10**6, 1000])
def test_what_shares_a_template_is_compared_with_the_latest_alone(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory and on disk; copies are found all the same."""
    compared: list[int] = []
    repeats = NearDuplicates._repeats

    def counted(seen: NearDuplicates, value: Any, older: list[int], newer: set[int]) -> bool:
        compared.append(len(older) + len(newer))
        return repeats(seen, value, older, newer)

    monkeypatch.setattr(NearDuplicates, "_repeats", counted)
    monkeypatch.setattr(near_duplicates, "_COMPARED", 5)
    template = " ".join(f"word{index}" for index in range(60))
    texts = [f"{template} " + " ".join(f"own{number}of{index}" for index in range(30)) for number in range(200)]
    seen = NearDuplicates(NearDuplicatesConfig(), tmp_path, most)
    answers = [seen.add([signature(text, 5)])[0] for text in [*texts, *texts[-20:]]]
    assert answers == [True] * 200 + [False] * 20
    assert 5 <= max(compared) <= 4 * 5 * bands(0.8), "of those in memory and of each of three files"


def test_every_process_drops_the_same(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.bertcore.corpus.test_near_duplicates import kept, pair\n"
        "print(kept([text for seed in range(40) for text in pair(0.8, seed, 200)], 1, Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, tmp_path]
    answers = {subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2)}
    (answer,) = answers
    assert b"False" in answer and b"True, True" in answer


HELD = """
import random, re, sys
from pathlib import Path
import numpy as np
from bertcore.corpus import sorted_files
from bertcore.corpus.near_duplicates import HASHES, NearDuplicates, NearDuplicatesConfig
sorted_files._AT_ONCE = 2**14  # or what merging holds at once, a bounded part, would hide what grows
drawn = np.random.default_rng(1)
seen = NearDuplicates(NearDuplicatesConfig(), Path(sys.argv[1]), most=20_000)
for _ in range(int(sys.argv[2]) // 100):
    assert all(seen.add(drawn.integers(2**32, size=(100, HASHES), dtype=np.uint32)))
print(re.search(r"RssAnon:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def of_library(text: str) -> RMinHash:
    found = RMinHash(num_perm=HASHES, seed=SEED)
    found.update(list(ngram_texts(text, 1)))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells a process's memory on Linux only")
def test_ten_times_the_documents_take_no_more_memory(tmp_path: Path) -> None:
    held = []
    for count in (2_000, 20_000):  # of each one, the library's index holds about 1 KB: 18 MB more
        command = [sys.executable, "-c", HELD, tmp_path, str(count)]
        held.append(int(subprocess.run(command, capture_output=True, check=True).stdout) / 1024)
    assert held[1] - held[0] < 8  # MiB


def missed(similarity: float, count: int) -> float:
    """The share of pairs of which no band is equal, each of its hashes being so with the probability `similarity`."""
    return float((1 - similarity ** (HASHES // count)) ** count)


def test_bands_are_the_fewest_that_miss_three_in_a_hundred() -> None:
    for threshold in np.arange(0.3, 1.001, 0.01):
        count = bands(threshold)
        assert missed(threshold, count) <= 0.03
        assert all(missed(threshold, fewer) > 0.03 for fewer in range(1, count))
    assert [bands(threshold) for threshold in (0.3, 0.47, 0.5, 0.8, 1.0)] == [43, 33, 33, 17, 1]


@pytest.mark.parametrize("threshold", [0.3, 0.47, 0.5, 0.8])
def test_as_many_pairs_share_no_band_as_the_formula_says(threshold: float) -> None:
    """Of signatures that are equal in each hash with the threshold's probability, and of those of real texts."""
    drawn, count, pairs = np.random.default_rng(1), bands(threshold), 2000
    first, other = drawn.integers(2**32, size=(2, pairs, HASHES), dtype=np.uint32)
    second = np.where(drawn.random((pairs, HASHES)) < threshold, first, other)
    texts = [pair(threshold, seed, 200) for seed in range(250)]
    real = [[signature(text, 1) for text in both] for both in texts]
    expected = missed(threshold, count)
    for some in (list(zip(first, second, strict=True)), real):
        found = np.mean([set(_keys(one, count)).isdisjoint(_keys(two, count)) for one, two in some])
        assert abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / len(some))


def test_values_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match=r"n.threshold: found 0.1, expected a share between 0.3 and 1"):
        parse(NearDuplicatesConfig, {"threshold": 0.1}, "n")
    with pytest.raises(ConfigError, match=r"n.ngram: found 0, expected at least 1 word"):
        parse(NearDuplicatesConfig, {"ngram": 0}, "n")
