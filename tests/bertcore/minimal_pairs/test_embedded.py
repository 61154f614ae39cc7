"""The pairs that a corpus gives of itself: what they are, that they are balanced, and the same every time."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bertcore.minimal_pairs import embedded
from bertcore.minimal_pairs.embedded import _is_usable, make_pairs
from bertcore.minimal_pairs.pairs import Pair
from bertcore.minimal_pairs.results import outcomes
from tests.samples import write_corpus

ADJECTIVES = ["old", "new", "large", "odd", "empty", "small", "early", "short", "open", "late"]
NOUNS = ["file", "table", "entry", "index", "parser", "reader", "object", "array", "image", "stream"]
PLACES = ["here", "there", "again", "today", "twice", "alone"]


def sentences(number: int, seed: int) -> list[str]:
    """Of a grammar in which a neighbour sometimes misleads: `near the readers is`, and adverbs in any order."""
    rng = np.random.default_rng(seed)
    found = []
    for draw in rng.integers(0, 60, (number, 7)):
        adjective, noun, place = ADJECTIVES[draw[0] % 10], NOUNS[draw[1] % 10], PLACES[draw[2] % 6]
        other = [each for each in PLACES if each != place][draw[3] % 5]
        article = "an" if adjective[0] in "aeiou" else "a"
        subject, verb, distractor = ("reader", "is", "readers") if draw[4] % 2 else ("readers", "are", "reader")
        near = f"near the {distractor} " if draw[5] % 4 == 0 else ""
        found.append(
            f"The {adjective} {subject} {near}{verb} {place} {other} with {article} {adjective} {noun} {draw[6]}."
        )
    return found


def write(directory: Path, split: str, texts: list[str]) -> None:
    write_corpus(directory, split, [texts[start : start + 50] for start in range(0, len(texts), 50)])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    write(directory, "train", sentences(3000, seed=1))
    write(directory, "heldout", sentences(1500, seed=2) + ["too short.", "no capital letter stands at the start."])
    return directory


@pytest.fixture(scope="module")
def pairs(corpus: Path) -> list[Pair]:
    return make_pairs(corpus, "en")


def test_there_are_pairs_of_every_kind_the_text_has(pairs: list[Pair]) -> None:
    assert {pair.phenomenon for pair in pairs} == {
        "word order",
        "word in context",
        "indefinite article",
        "number agreement",
    }
    assert {pair.paradigm for pair in pairs if pair.phenomenon == "number agreement"} == {"number agreement: is/are"}


def test_the_good_sentence_is_held_out_unseen_and_used_once(pairs: list[Pair]) -> None:
    good = [pair.good for pair in pairs]
    assert len(set(good)) == len(good)
    assert set(good) <= set(sentences(1500, seed=2)) - set(sentences(3000, seed=1))


def test_the_change_is_what_the_paradigm_says(pairs: list[Pair]) -> None:
    for pair in pairs:
        good, bad = pair.good.split(), pair.bad.split()
        changed = [place for place in range(len(good)) if good[place] != bad[place]]
        before, after = [good[place] for place in changed], [bad[place] for place in changed]
        if pair.phenomenon == "word order":
            assert changed[1] == changed[0] + 1 and before == after[::-1]
        else:
            assert len(changed) == 1
        if ":" in pair.paradigm:
            assert sorted(before + after) == sorted(pair.paradigm.split(": ")[1].split("/"))


def test_lengths_and_directions_are_balanced(pairs: list[Pair]) -> None:
    assert all(len(pair.good.split()) == len(pair.bad.split()) for pair in pairs)
    for paradigm, words in (("indefinite article: a/an", ("a", "an")), ("number agreement: is/are", ("is", "are"))):
        own = [pair for pair in pairs if pair.paradigm == paradigm]
        kept = Counter(next(word for word in words if word in pair.good.split()) for pair in own)
        assert kept[words[0]] == kept[words[1]] > 10
    counts = Counter(word.strip(".") for text in sentences(3000, seed=1) for word in text.lower().split())
    steps = []
    for pair in (pair for pair in pairs if pair.phenomenon == "word in context"):
        words = zip(pair.good.split(), pair.bad.split(), strict=True)
        ((one, other),) = ((before, after) for before, after in words if before != after)
        steps.append(np.sign(counts[one] - counts[other]))
        assert max(counts[one], counts[other]) <= embedded.MOST_DIFFERENT * min(counts[one], counts[other])
    assert sum(steps) == 0 and 0 not in steps


def test_neighbours_alone_are_right_half_of_the_time(pairs: list[Pair], corpus: Path) -> None:
    """Counted here word by word, with the same interpolation."""
    train = [f"# {text[:-1].lower()} . #".split() for text in sentences(3000, seed=1)]
    singles = Counter(word for text in train for word in text[1:])
    doubles = Counter(pair for text in train for pair in zip(text, text[1:], strict=False))
    befores = Counter(word for text in train for word in text[:-1])
    words = {word for pair in pairs for text in (pair.good, pair.bad) for word in text[:-1].lower().split()} | {"."}
    size, total = len(words) + 2, sum(singles.values())

    def likelihood(text: str) -> float:
        line = f"# {text[:-1].lower()} . #".split()
        single = {word: (singles[word] + 0.5) / (total + 0.5 * size) for word in line}
        return sum(
            np.log((doubles[one, two] + 300 * single[two]) / (befores[one] + 300))
            for one, two in zip(line, line[1:], strict=False)
        )

    scores = np.array([[likelihood(pair.good), likelihood(pair.bad)] for pair in pairs])
    right = outcomes(np.round(scores, 9))
    for phenomenon in ("word order", "word in context", "number agreement"):
        assert right[[pair.phenomenon == phenomenon for pair in pairs]].mean() == pytest.approx(0.5, abs=0.02)


def test_the_same_text_gives_the_same_pairs(pairs: list[Pair], corpus: Path) -> None:
    assert make_pairs(corpus, "en") == pairs


def test_of_much_text_some_sentences_are_changed(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "SENTENCES", 500)
    some = make_pairs(corpus, "en")
    assert 0 < len(some) <= 500 and make_pairs(corpus, "en") == some


def test_contrasts_of_english_are_asked_of_english_alone(corpus: Path) -> None:
    """Its words are words elsewhere, too: `is` is ice in Danish, `do` an article in Portuguese."""
    assert {pair.phenomenon for pair in make_pairs(corpus, "da")} == {"word order", "word in context"}


def test_a_sentence_of_few_words_that_may_have_too_many_tokens_is_not_used() -> None:
    words = "The page that tells of it is"
    assert _is_usable(f"{words} long.") and not _is_usable(f"{words} https://example.org/{'a-' * 150}.")


def test_too_little_text_gives_none(tmp_path: Path) -> None:
    for split in ("train", "heldout"):
        write(tmp_path, split, ["One single sentence stands in this text."])
    assert make_pairs(tmp_path, "en") == []
