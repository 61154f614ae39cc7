"""Byte-level BPE (Radford et al. 2019), laid out as RoBERTa has it (Liu et al. 2019): every text has tokens, none is
unknown.

A text is its UTF-8 bytes, each written as one visible character (the blank as Ġ), and words keep the blank before them:
"a cat" is `a` and `Ġcat`, while the first word of a text has no blank. A token may be a part of a character.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from bertcore.compressed import parse_json, plain_name, read_text
from bertcore.errors import InputError
from bertcore.files import write_json
from bertcore.tokens import words
from bertcore.tokens.kind import (
    TOKENIZER_FILE,
    SpecialTokens,
    TokenizerKind,
    VocabularyConfig,
    entries_of_file,
    is_whole,
    ordered_entries,
    require_size,
    save_files,
)

SPECIAL = SpecialTokens(pad="<pad>", unk="<unk>", cls="<s>", sep="</s>", mask="<mask>")
FIRST_ENTRIES = (SPECIAL.cls, SPECIAL.pad, SPECIAL.sep, SPECIAL.unk, SPECIAL.mask)
"""In the order that the published vocabularies have; their mask comes last."""
LEAST = len(FIRST_ENTRIES) + len(pre_tokenizers.ByteLevel.alphabet())
"""Entries that every vocabulary of bytes has."""
BLANK = "Ġ"
VOCABULARY_FILE, MERGES_FILE = "vocab.json", "merges.txt"
_VERSION = "#version: 0.2"
"""First line of a merges.txt."""

Merge = tuple[str, str]


def make_tokenizer(vocabulary: dict[str, int], merges: Sequence[Merge]) -> Tokenizer:
    """RoBERTa's tokenizer; encodes exactly as `transformers.RobertaTokenizerFast` with the same vocab.json and
    merges.txt."""
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges), continuing_subword_prefix="", end_of_word_suffix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # <mask> takes the blank before it: in its place stands a word, blank and all.
    tokenizer.add_special_tokens([AddedToken(each, lstrip=each == SPECIAL.mask) for each in FIRST_ENTRIES])
    separator, start = ((each, vocabulary[each]) for each in (SPECIAL.sep, SPECIAL.cls))
    tokenizer.post_processor = processors.RobertaProcessing(separator, start, trim_offsets=True, add_prefix_space=False)
    return tokenizer


def cutter(_: VocabularyConfig | None = None) -> Tokenizer:
    """What cuts texts into words as RoBERTa's tokenizer does, written as visible characters."""
    return words.cutter(None, pre_tokenizers.ByteLevel(add_prefix_space=False))


def train_tokenizer(config: VocabularyConfig, counts: Mapping[str, int]) -> Tokenizer:
    """A tokenizer of exactly `config.vocab_size` entries (`auto`: of `config.most_entries` at most); the same counts of
    words give the same bytes."""
    return make_tokenizer(*train_merges(config, counts, FIRST_ENTRIES))


def train_merges(
    config: VocabularyConfig, counts: Mapping[str, int], first: Sequence[str]
) -> tuple[dict[str, int], list[Merge]]:
    """Exactly `config.vocab_size` entries (`auto`: `config.most_entries` at most), of which the special tokens `first`
    come first, and their merges.

    The ids of the special tokens and of the 256 bytes are fixed before merging starts, and the library's trainer
    decides ties between merges by ids. Raises `InputError` where the text does not support that many entries.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=config.most_entries,
        min_frequency=config.min_frequency,
        special_tokens=list(first),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer = Tokenizer(models.BPE())
    words.train(tokenizer, trainer, counts)
    require_size(tokenizer.get_vocab(with_added_tokens=True), config, len(alphabet))
    return entries_and_merges(tokenizer)


def first_merges(tokenizer: Tokenizer, size: int) -> tuple[dict[str, int], list[Merge]]:
    """The first `size` entries of a trained tokenizer, special tokens, bytes and one or more of merges, and the merges
    that make them: training to that size ends with the one that makes the last."""
    ids, merges = entries_and_merges(tokenizer)
    made = [ids[first + second] for first, second in merges]
    entries = {entry: index for entry, index in ids.items() if index < size}
    return entries, merges[: made.index(size - 1) + 1]


def read_tokenizer(files: Sequence[Path], lowercase: bool | None, where: str) -> Tokenizer:  # noqa: ARG001 (never)
    """Of a vocab.json and its merges.txt, or of a tokenizer.json alone, plain or packed; errors call the first `where`.

    `InputError` for what is none of these, for entries that are missing (a special token, a byte, a part of a merge),
    and for a tokenizer.json that encodes otherwise than RoBERTa's.
    """
    content = read_object(files[0], where)
    if is_whole(content):
        vocabulary, merges = entries_of_tokenizer(content, "RoBERTa", where)
    elif len(files) == 1:
        raise InputError(
            f"{where}: found the entries of a byte-level BPE without its merges, expected {MERGES_FILE} beside it; set "
            f"tokenizer.merges_file to that of the same model, or tokenizer.vocab_file to its {TOKENIZER_FILE}"
        )
    else:
        vocabulary, merges = _entries(content, where), _read_merges(files[1])
    require_entries(vocabulary, merges, SPECIAL, "RoBERTa", where)
    return make_tokenizer(vocabulary, merges)


def save_tokenizer(tokenizer: Tokenizer, directory: Path, max_length: int | None = None) -> None:
    """Write the files that `AutoTokenizer.from_pretrained` reads; the same tokenizer gives the same bytes."""
    _, merges = entries_and_merges(tokenizer)
    write_json(directory / VOCABULARY_FILE, {token: index for index, token in enumerate(ordered_entries(tokenizer))})
    lines = [_VERSION, *(" ".join(merge) for merge in merges)]
    (directory / MERGES_FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    settings = {
        "tokenizer_class": "RobertaTokenizer",
        "errors": "replace",
        **BYTE_BPE.settings,
    }
    special = {**SPECIAL.settings, "bos_token": SPECIAL.cls, "eos_token": SPECIAL.sep}
    save_files(tokenizer, directory, settings, special, max_length)


def entries_and_merges(tokenizer: Tokenizer) -> tuple[dict[str, int], list[Merge]]:
    """The ids of all entries, and the merges in their order."""
    model = json.loads(tokenizer.to_str())["model"]
    return tokenizer.get_vocab(with_added_tokens=True), [_merge(each) for each in model["merges"]]


def _merge(given: str | list[str]) -> Merge:
    """Newer files have pairs, older ones a blank between the parts, which no entry holds."""
    first, second = given.split(" ") if isinstance(given, str) else given
    return first, second


def read_object(path: Path, where: str) -> dict[str, Any]:
    """The content of a vocab.json or tokenizer.json; `InputError`, which calls it `where`, for anything else."""
    try:
        content = parse_json(read_text(path))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise InputError(
            f"{where}: found no JSON object, expected the {VOCABULARY_FILE} or {TOKENIZER_FILE} of a byte-level BPE; "
            "give one of them, or set tokenizer.kind to that of the file"
        )
    return content


def _entries(content: dict[str, Any], where: str) -> dict[str, int]:
    if sorted(content.values(), key=str) != sorted(range(len(content)), key=str):
        raise InputError(f"{where}: found ids that are not 0 to {len(content) - 1}, each once; fetch the file again")
    return content


def entries_of_tokenizer(
    content: dict[str, Any], whose: str, where: str, normalizer: str | None = None
) -> tuple[dict[str, int], list[Merge]]:
    """The ids of all entries, and the merges, of a tokenizer.json.

    `InputError` where it cuts texts otherwise than that of `whose` model, which has the `normalizer`, if any.
    """
    model, cut = content["model"], content.get("pre_tokenizer") or {}
    expected = {"type": "ByteLevel", "add_prefix_space": False}
    found = {key: cut.get(key) for key in expected}
    normalized = (content.get("normalizer") or {}).get("type")
    if model.get("type", "BPE") != "BPE" or found != expected or normalized != normalizer:
        raise InputError(
            f"{where}: found a tokenizer of the model {model.get('type')!r}, the pre-tokenizer {found} and the "
            f"normalizer {content.get('normalizer')!r}, expected 'BPE', {expected} and {normalizer or 'none'}; give "
            f"{whose}'s"
        )
    return _entries(entries_of_file(content), where), [_merge(each) for each in model["merges"]]


def _read_merges(path: Path) -> list[Merge]:
    lines = read_text(path).split("\n")
    merges = []
    for number, line in enumerate(lines, 1):
        parts = line.rstrip("\r").split(" ")
        if len(parts) == 2 and not line.startswith("#version"):
            merges.append((parts[0], parts[1]))
        elif line.strip() and not line.startswith("#version"):
            raise InputError(f"{path}:{number}: found {line[:40]!r}, expected two pieces with a blank between them")
    return merges


def require_entries(
    vocabulary: dict[str, int], merges: Iterable[Merge], special: SpecialTokens, whose: str, where: str
) -> None:
    """`InputError` where a special token (of `whose` model), a byte or a part of a merge is missing."""
    if missing := [token for token in special.names if token not in vocabulary]:
        raise InputError(
            f"{where}: {', '.join(missing)} not found, expected {whose}'s special tokens; give a byte-level BPE that "
            "has them, or put them in the place of entries that nothing uses"
        )
    if missing := sorted(set(pre_tokenizers.ByteLevel.alphabet()) - vocabulary.keys()):
        raise InputError(
            f"{where}: {len(missing)} of the 256 bytes not found ({missing[0]!r}, …), expected an entry for each, so "
            "that no text is lost; give a byte-level BPE"
        )
    for first, second in merges:
        if not {first, second, first + second} <= vocabulary.keys():
            raise InputError(
                f"{where}: found the merge of {first!r} and {second!r}, expected both and {first + second!r} among the "
                "entries; give the merges of the same model"
            )


def check_fields(config: VocabularyConfig, kind: str) -> None:
    """`ValueError` for a field that no byte-level BPE, and so not the `kind`, can do."""
    if config.lowercase:
        raise ValueError(
            f"lowercase: found true, expected false or null: {kind} keeps every byte of a text; remove it, or set "
            "kind: wordpiece"
        )
    if config.new_entries:
        raise ValueError(
            f"new_entries: found {config.new_entries}, expected 0 with kind {kind}, whose entries come from merges; "
            "remove it"
        )
    if config.unused_tokens:
        raise ValueError(f"unused_tokens: found {config.unused_tokens}, expected 0 with kind {kind}; remove it")
    if config.alphabet_size != VocabularyConfig.alphabet_size:
        raise ValueError(
            f"alphabet_size: found {config.alphabet_size} with kind {kind}, whose alphabet is the bytes; remove it"
        )
    if config.vocab_file is None and config.most_entries <= LEAST:
        raise ValueError(
            f"vocab_size: found {config.vocab_size}, expected more than the {LEAST} special tokens and bytes"
        )


def _check(config: VocabularyConfig) -> None:
    check_fields(config, BYTE_BPE.name)
    if config.vocab_file is None:
        return
    needs_merges = plain_name(Path(config.vocab_file)) != TOKENIZER_FILE
    if needs_merges and config.merges_file is None:
        raise ValueError(
            f"merges_file: found nothing (null) beside vocab_file {config.vocab_file}, expected the merges that belong "
            f"to it; set it to {Path(config.vocab_file).parent / MERGES_FILE}"
        )
    if config.merges_file is not None and not needs_merges:
        raise ValueError(
            f"merges_file: found {config.merges_file!r} beside vocab_file {config.vocab_file}, which has its own "
            "merges; remove it"
        )


def _is_of_bytes(content: str) -> bool:
    return content.lstrip().startswith("{") and not re.search(r'"type":\s*"WordPiece"', content)


def has_berts_special_tokens(content: str) -> bool:
    """Whether a file that may hold a byte-level BPE has [CLS] where RoBERTa has <s>."""
    return _is_of_bytes(content) and '"[CLS]"' in content and '"<s>"' not in content


BYTE_BPE = TokenizerKind(
    name="byte_bpe",
    model=models.BPE,
    special=SPECIAL,
    continues=lambda entry: not entry.startswith(BLANK),
    separators=2,
    segment_ids=False,
    blank=" ",
    vocabulary_files=(VOCABULARY_FILE, MERGES_FILE),
    classes=("RobertaTokenizer", "BartTokenizer", "GPT2Tokenizer", "LongformerTokenizer"),
    settings={"add_prefix_space": False, "trim_offsets": True},
    check=_check,
    cutter=cutter,
    train=train_tokenizer,
    least=lambda *_: LEAST,
    first=lambda tokenizer, size: make_tokenizer(*first_merges(tokenizer, size)),
    read=read_tokenizer,
    recognises=lambda content: _is_of_bytes(content) and not has_berts_special_tokens(content),
    save=save_tokenizer,
)
