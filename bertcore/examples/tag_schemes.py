"""The schemes that mark entities by the tags of their words, and one reading of them all.

IOB1: entities are I, the first word B only where the entity touches one of the same type before it (Ramshaw & Marcus
1995, as in CoNLL-2003's files). IOB2: the first word B, the others I. BIOES: as IOB2, but the last word E, and S an
entity of one word. BILOU is BIOES with other letters, L for E and U for S.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

Entity: TypeAlias = tuple[str, int, int]
"""Type, position of the first word, position after the last one."""

_TYPED = re.compile(r"[BIES]-.+")
_BARE = {"O", "B", "I", "E", "S"}
_TAG = re.compile(r"O|[BIES](-.*)?")
_MISSPELT = re.compile(r"[BIESLU][_-].+", re.IGNORECASE)
_PREFIXES = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, in order, as `conlleval` reads them.

    A tag continues the entity before it where it is I or E, the tag before it is B or I, and both have the same type;
    any other tag but O begins an entity. Tags that follow a scheme are read as it means them.
    """
    found: list[Entity] = []
    before, type_before = "O", ""
    for position, tag in enumerate(tags):
        prefix, _, type_ = tag.partition("-")
        if prefix in ("I", "E") and before in ("B", "I") and type_ == type_before:
            found[-1] = (type_, found[-1][1], position + 1)
        elif prefix != "O":
            found.append((type_, position, position + 1))
        before, type_before = prefix, type_
    return found


def is_entity_tag(tag: str) -> bool:
    """Whether `tag` is O or one of B, I, E, S, alone or with a type."""
    return _TAG.fullmatch(tag) is not None


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Tags of the same entities in IOB2."""
    result = ["O"] * len(tags)
    for type_, begin, end in entities(tags):
        result[begin:end] = [_tag("B", type_), *[_tag("I", type_)] * (end - begin - 1)]
    return result


def iob2_labels(types: Iterable[str]) -> list[str]:
    """The tags that entities of `types` have in IOB2."""
    return ["O", *(_tag(prefix, type_) for type_ in types for prefix in "BI")]


def detect(sentences: Iterable[Sequence[str]]) -> str | None:
    """The scheme that the fewest tags of `sentences` break; None for tags that mark no entities, such as parts of
    speech."""
    tagged = list(sentences)
    found = {tag for tags in tagged for tag in tags}
    if not any(map(_TYPED.fullmatch, found)) and not ({"B", "I"} & found and found <= _BARE):
        return None
    return min(("iob2", "iob1", "bioes"), key=lambda scheme: sum(len(violations(tags, scheme)) for tags in tagged))


def is_bilou(sentences: Iterable[Sequence[str]]) -> bool:
    """Whether entities end with L, and those of one word are U, where BIOES has E and S."""
    found = {tag for tags in sentences for tag in tags} - {"O"}
    return all(map(_BILOU.fullmatch, found)) and any(tag[0] in "LU" for tag in found)


def to_bioes(tags: Sequence[str]) -> list[str]:
    """Tags of BILOU in the letters of BIOES."""
    return [_OF_BILOU.get(tag[:2], tag[:2]) + tag[2:] for tag in tags]


_BILOU = re.compile(r"[BILU]-.+")
_OF_BILOU = {"L-": "E-", "U-": "S-"}


def misspelt(sentences: Iterable[Sequence[str]]) -> str | None:
    """A tag that marks an entity in another spelling, such as `B_PER` or `b-PER`, of tags in which no scheme was found;
    None where there is none."""
    return next((tag for tags in sentences for tag in tags if _MISSPELT.fullmatch(tag)), None)


def is_mostly_outside(sentences: Iterable[Sequence[str]]) -> bool:
    """Whether O is the most frequent of several tags, as where they mark entities by their types alone."""
    found = Counter(tag for tags in sentences for tag in tags)
    return len(found) > 1 and found.most_common(1)[0][0] == "O"


def violations(tags: Sequence[str], scheme: str) -> list[tuple[int, str]]:
    """Positions of the tags that break `scheme`, each with what would fit there; empty for a sound sentence."""
    found = []
    before, type_before = "O", ""
    for position, tag in enumerate([*tags, "O"]):  # the end of a sentence closes its last entity as O does
        prefix, _, type_ = tag.partition("-")
        if tag != "O" and (prefix not in _PREFIXES[scheme] or not is_entity_tag(tag)):
            found.append((position, f"O or one of {', '.join(_PREFIXES[scheme])} with a type, such as B-PER"))
        elif expected := _EXPECTED[scheme](prefix, type_, before, type_before):
            found.append((min(position, len(tags) - 1), expected))
        before, type_before = prefix, type_
    return found


def _expected_in_iob1(prefix: str, type_: str, before: str, type_before: str) -> str | None:
    """What should stand in the place of a tag, after the tag before; None where it may stand there."""
    touches = before in ("B", "I") and type_before == type_
    return f"{_tag('I', type_)}, as no entity of that type ends just before" if prefix == "B" and not touches else None


def _expected_in_iob2(prefix: str, type_: str, before: str, type_before: str) -> str | None:
    goes_on = before in ("B", "I") and type_before == type_
    return f"{_tag('B', type_)}, as an entity begins here" if prefix == "I" and not goes_on else None


def _expected_in_bioes(prefix: str, type_: str, before: str, type_before: str) -> str | None:
    if before in ("B", "I") and (prefix not in ("I", "E") or type_before != type_):
        return f"{_tag('I', type_before)} or {_tag('E', type_before)} next, as the entity has not ended"
    if before not in ("B", "I") and prefix in ("I", "E"):
        return f"{_tag('B', type_)} or {_tag('S', type_)}, as an entity begins here"
    return None


def _tag(prefix: str, type_: str) -> str:
    return f"{prefix}-{type_}" if type_ else prefix


_EXPECTED: dict[str, Callable[[str, str, str, str], str | None]] = {
    "iob1": _expected_in_iob1,
    "iob2": _expected_in_iob2,
    "bioes": _expected_in_bioes,
}


def cells(line: str, separator: str) -> list[str]:
    """The columns of a line, between tabs (`tab`) or blanks and tabs."""
    # Not str.split(), which would cut words at a no-break space.
    return line.split("\t") if separator == "tab" else re.split(r"[ \t]+", line.strip(" \t"))
