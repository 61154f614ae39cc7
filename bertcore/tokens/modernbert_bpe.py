"""Byte-level BPE with BERT's special tokens, as ModernBERT has it (Warner et al. 2024), and Ettin with it: texts in
Unicode's composed form (NFC), one [SEP] between the two of a pair, no token types.

Words are cut and written as in `byte_bpe`. The published tokenizers have further entries that are matched before
anything else, as runs of blanks, and are read with all of them.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bertcore.errors import InputError
from bertcore.tokens import words
from bertcore.tokens.byte_bpe import (
    BLANK,
    LEAST,
    Merge,
    check_fields,
    entries_of_tokenizer,
    first_merges,
    has_berts_special_tokens,
    read_object,
    require_entries,
    train_merges,
)
from bertcore.tokens.kind import TOKENIZER_FILE, TokenizerKind, VocabularyConfig, is_whole, save_files
from bertcore.tokens.wordpiece import SPECIAL


def make_tokenizer(vocabulary: dict[str, int], merges: Sequence[Merge]) -> Tokenizer:
    """ModernBERT's tokenizer, without entries of its own beside these."""
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges)))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # [MASK] takes the blank before it: in its place stands a word, blank and all.
    tokenizer.add_special_tokens([AddedToken(each, lstrip=each == SPECIAL.mask) for each in SPECIAL.names])
    lay_out(tokenizer)
    return tokenizer


def lay_out(tokenizer: Tokenizer) -> None:
    """Give it `[CLS] text [SEP]` and `[CLS] text [SEP] text [SEP]`, of type 0, and offsets without the blanks before
    words, whatever it had."""
    cls, sep = SPECIAL.cls, SPECIAL.sep
    template = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:0 {sep}:0",
        special_tokens=[(each, tokenizer.token_to_id(each)) for each in (cls, sep)],
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])


def cutter(_: VocabularyConfig | None = None) -> Tokenizer:
    """What cuts texts into words as ModernBERT's tokenizer does, written as visible characters."""
    return words.cutter(normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False))


def train_tokenizer(config: VocabularyConfig, counts: Mapping[str, int]) -> Tokenizer:
    """A tokenizer of exactly `config.vocab_size` entries (`auto`: of `config.most_entries` at most); the same counts of
    words give the same bytes."""
    return make_tokenizer(*train_merges(config, counts, SPECIAL.names))


def read_tokenizer(files: Sequence[Path], lowercase: bool | None, where: str) -> Tokenizer:  # noqa: ARG001 (never)
    """Of a tokenizer.json, plain or packed, with all entries that it has; errors call it `where`.

    `InputError` for a file that is none, that lacks a special token, a byte or a part of a merge, or that encodes
    otherwise than ModernBERT's.
    """
    content = read_object(files[0], where)
    if not is_whole(content):
        raise InputError(f"{where}: found entries alone, expected a whole tokenizer; give the model's {TOKENIZER_FILE}")
    vocabulary, merges = entries_of_tokenizer(content, "ModernBERT", where, "NFC")
    require_entries(vocabulary, merges, SPECIAL, "ModernBERT", where)
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lay_out(tokenizer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, directory: Path, max_length: int | None = None) -> None:
    """Write the files that `AutoTokenizer.from_pretrained` reads; the same tokenizer gives the same bytes."""
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
    }
    save_files(tokenizer, directory, settings, SPECIAL.settings, max_length)


def _check(config: VocabularyConfig) -> None:
    check_fields(config, MODERNBERT_BPE.name)
    if config.merges_file is not None:
        raise ValueError(
            f"merges_file: found {config.merges_file!r}, expected none with kind {MODERNBERT_BPE.name}, whose "
            f"{TOKENIZER_FILE} has its own merges; remove it"
        )


MODERNBERT_BPE = TokenizerKind(
    name="modernbert_bpe",
    model=models.BPE,
    special=SPECIAL,
    continues=lambda entry: not entry.startswith((BLANK, " ")),
    separators=1,
    segment_ids=False,
    blank=" ",
    vocabulary_files=(),
    lay_out=lay_out,
    check=_check,
    cutter=cutter,
    train=train_tokenizer,
    least=lambda *_: LEAST,
    first=lambda tokenizer, size: make_tokenizer(*first_merges(tokenizer, size)),
    read=read_tokenizer,
    recognises=has_berts_special_tokens,
    save=save_tokenizer,
)
