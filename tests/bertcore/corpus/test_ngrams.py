"""What two texts share is found in ten scripts, however each is encoded, and nothing else is."""

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.corpus.contamination import EvaluationNgrams
from bertcore.corpus.near_duplicates import NearDuplicates, NearDuplicatesConfig, signature
from bertcore.corpus.ngrams import comparable, ngram_hashes, ngram_texts

TEXTS = {
    "Latin": "Über die Brücke führt ein schmaler Weg, der größte Teil der Gäste aber fährt früh mit dem Schiff zurück.",
    "Greek": "Το πρωί ο καπετάνιος ανοίγει τον χάρτη και εξηγεί "
    "στους νέους ναύτες πώς μετριέται η απόσταση ως το νησί.",
    "Cyrillic": "Каждый вечер старый учитель ещё раз читает письма, "
    "которые ему присылают ученики из своих далёких деревень.",
    "Arabic": "يقرأ الطالب الكتاب الجديد في المكتبة كل صباح ثم يكتب ما فهمه في دفتر صغير قبل أن يعود إلى بيته مساء",
    "Hebrew": "בכל בוקר פותח הגנן את השער הישן ומשקה את העצים הגבוהים שנטע סבו לפני שנים רבות ליד הנחל הקטן",
    "Devanagari": "हर सुबह बूढ़ा किसान अपने खेत में जाता है और देखता है कि रात की बारिश से कितनी फ़सल बची हुई है और कितनी नहीं",
    "Thai": "ทุกเช้าคุณครูเดินผ่านตลาดเล็กริมแม่น้ำเพื่อซื้อผลไม้สดให้นักเรียนที่มาถึงโรงเรียนก่อนเวลาเรียน",
    "Han": "每天早晨老船长都会打开那张旧地图仔细计算从港口到小岛的距离然后告诉年轻的水手应该怎样航行才安全",
    "Kana": "まいあさおばあさんはにわのちいさなはたけでやさいをそだ"
    "て、ゆうがたになるとまごたちといっしょにそれをたべます。",
    "Hangul": "매일 아침 늙은 선장은 오래된 지도를 펴고 항구에서 작은 "
    "섬까지 거리를 재어 본 다음 젊은 선원들에게 길을 알려 준다",
}
"""Made up for this test."""


def with_soft_hyphens(text: str) -> str:
    return "\u00ad".join(text)


def with_joiners(text: str) -> str:
    return "".join(f"{sign}\u200b" if sign.isalpha() else sign for sign in text)


def on_lines_with_other_punctuation(text: str) -> str:
    return "\n  ".join(text.upper().split()).replace(",", " — ").replace(".", " …")


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


DISGUISES: list[Callable[[str], str]] = [
    decomposed,
    with_soft_hyphens,
    with_joiners,
    on_lines_with_other_punctuation,
    lambda text: decomposed(with_soft_hyphens(text)),
]


@pytest.mark.parametrize("script", TEXTS)
def test_a_disguised_text_is_found_in_a_document_and_no_other_is(script: str) -> None:
    ngrams = EvaluationNgrams([TEXTS[script]])
    assert ngrams.long_enough.all()
    others = [text for name, text in TEXTS.items() if name != script]
    backwards = " ".join(reversed(TEXTS[script].split())) if " " in TEXTS[script] else TEXTS[script][::-1]
    assert not ngrams.meet([*others, backwards]).any()
    for disguise in DISGUISES:
        document = f"{others[0]} {disguise(TEXTS[script])} {others[1]}"
        assert ngrams.meet([document]).all(), disguise


@pytest.mark.parametrize("script", TEXTS)
def test_a_disguised_text_is_a_near_duplicate_and_no_other_is(tmp_path: Path, script: str) -> None:
    seen = NearDuplicates(NearDuplicatesConfig(threshold=0.8, ngram=3), tmp_path)
    assert all(seen.add([signature(text, 3) for text in TEXTS.values()]))
    assert not any(seen.add([signature(disguise(TEXTS[script]), 3) for disguise in DISGUISES]))


def test_points_and_full_width_forms_are_the_same_text() -> None:
    texts = ["كِتَابٌ", "ﾊﾝｶｸ", "Ｗｉｄｅ ﬁsh", "שָׁלוֹם", "\ufb2aלום"]
    assert comparable(texts).to_pylist() == ["كتاب", "ハ ン カ ク", "wide fish", "שלום", "שלום"]


def test_a_character_of_a_script_without_blanks_counts_half_a_word() -> None:
    assert list(ngram_texts("one two 三四五 six", 2)) == ["one two", "two 三 四", "三 四 五 six", "四 五 six"]
    assert list(ngram_texts("三四", 2)) == ["三 四"]


def plain_ngrams(text: str, ngram: int) -> list[str]:
    units = comparable([text])[0].as_py().split(" ")
    found = []
    for start in range(len(units)):
        weight = 0
        for stop in range(start, len(units)):
            weight += 1 if units[stop] in "三四五" and units[stop] else 2
            if weight >= 2 * ngram:
                found.append(" ".join(units[start : stop + 1]))
                break
    return found


@given(st.lists(st.text("ab é三四 ,", max_size=30), max_size=6), st.integers(1, 4))
def test_hashes_are_equal_where_ngrams_are(texts: list[str], ngram: int) -> None:
    hashes, owner = ngram_hashes(texts, ngram)
    expected = [(index, each) for index, text in enumerate(texts) for each in plain_ngrams(text, ngram)]
    assert owner.tolist() == [index for index, _ in expected]
    ngrams = [each for _, each in expected]
    assert dict(zip(hashes.tolist(), ngrams, strict=True)) == {
        value: ngrams[hashes.tolist().index(value)] for value in hashes.tolist()
    }
    assert len(set(hashes.tolist())) == len(set(ngrams))
    for text in texts:
        whole = comparable([text])[0].as_py()
        assert list(ngram_texts(text, ngram)) == ((plain_ngrams(text, ngram) or [whole]) if whole else [])
