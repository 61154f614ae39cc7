"""WordPiece vocabularies: deterministic training, BERT's text normalisation, the Hugging Face tokenizer layout."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from bertcore.compressed import read_text
from bertcore.errors import InputError
from bertcore.files import write_json
from bertcore.tokens.kind import Kind, SpecialTokens

SPECIAL = SpecialTokens(pad="[PAD]", unk="[UNK]", cls="[CLS]", sep="[SEP]", mask="[MASK]")
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = SPECIAL.names
CONTINUATION = "##"
TOKENIZER_FILE, VOCABULARY_FILE, SETTINGS_FILE = "tokenizer.json", "vocab.txt", "tokenizer_config.json"

Texts = Iterable[list[str]]


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """Section `tokenizer` of params.yaml."""

    vocab_size: int = 8192
    """Entries of the vocabulary, special and `[unused]` tokens included."""
    lowercase: bool = True
    """Lower-case and strip accents (BERT's uncased); False keeps both (cased)."""
    min_frequency: int = 2
    """Occurrences that a word piece needs in the training text."""
    alphabet_size: int = 1000
    """Most frequent characters that become entries; rarer ones are unknown."""
    unused_tokens: int = 0
    """Slots `[unused0]` … kept free for a team's own tokens."""
    vocab_file: str | None = None
    """An existing vocab.txt (plain, .gz or .zst) to use instead of training one; the other fields but `lowercase` are
    unused."""

    def __post_init__(self) -> None:
        least = len(SPECIAL_TOKENS) + self.unused_tokens + 1
        if self.vocab_file is None and self.vocab_size <= least:
            raise ValueError(f"vocab_size: found {self.vocab_size}, expected more than the {least} special tokens")
        for name in ("min_frequency", "alphabet_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        if self.unused_tokens < 0:
            raise ValueError(f"unused_tokens: found {self.unused_tokens}, expected 0 or more")


def make_tokenizer(vocabulary: dict[str, int], lowercase: bool) -> Tokenizer:
    """BERT's tokenizer over `vocabulary`; encodes exactly as `transformers.BertTokenizerFast` with the same
    vocab.txt."""
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNK, max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    tokenizer.add_special_tokens([token for token in SPECIAL_TOKENS if token in vocabulary])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(token, vocabulary[token]) for token in (CLS, SEP)],
    )
    return tokenizer


def train_vocabulary(config: TokenizerConfig, texts: Callable[[], Texts]) -> dict[str, int]:
    """A vocabulary of exactly `config.vocab_size` entries; the same texts give the same entries with the same ids.

    `texts()` gives batches of texts and is called twice. The library's trainer numbers the continuation characters in
    the order of a hash map, which changes from run to run and decides ties between merges. So the alphabet is counted
    first, and its continuations are handed over as reserved tokens in sorted order: every id is then fixed before
    merging starts. Raises `InputError` where the text does not support that many entries.

    The trainer holds every distinct word of the text, about 1.3 KB each: a million of them take 1.3 GB.
    """
    normalizer = normalizers.BertNormalizer(lowercase=config.lowercase)
    alphabet = _alphabet(normalizer, texts(), config.alphabet_size)
    special = [*SPECIAL_TOKENS, *(f"[unused{index}]" for index in range(config.unused_tokens))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        special_tokens=special + [CONTINUATION + character for character in alphabet],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNK))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts(), trainer)
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    if len(vocabulary) != config.vocab_size:
        raise InputError(
            f"params.yaml: tokenizer.vocab_size: found {config.vocab_size}, but the corpus supports "
            f"{len(vocabulary)} entries "
            f"at min_frequency {config.min_frequency} and an alphabet of {len(alphabet)}; set vocab_size to "
            f"{len(vocabulary)} if that is smaller, lower alphabet_size if it is larger, or give more text"
        )
    return vocabulary


def _alphabet(normalizer: normalizers.BertNormalizer, texts: Texts, limit: int) -> list[str]:
    """The most frequent characters of the normalised texts, sorted. BERT's normaliser makes of a character what it
    makes of it alone, so each one is normalised once."""
    occurrences = np.zeros(0x110000, np.int64)
    for batch in texts:
        codes = np.frombuffer("".join(batch).encode("utf-32-le"), np.uint32)
        occurrences += np.bincount(codes, minlength=len(occurrences))
    counts: Counter[str] = Counter()
    for code in np.flatnonzero(occurrences).tolist():
        for character in normalizer.normalize_str(chr(code)):
            counts[character] += int(occurrences[code])
    visible = (item for item in counts.items() if not item[0].isspace())
    kept = sorted(visible, key=lambda item: (-item[1], item[0]))[:limit]
    return sorted(character for character, _ in kept)


def load_vocabulary(path: Path, where: str | None = None) -> dict[str, int]:
    """`read_vocabulary` of a file, plain or packed, which errors call `where`, or by its path."""
    return read_vocabulary(read_text(path).rstrip("\n").split("\n"), where or str(path))


def read_vocabulary(lines: Iterable[str], where: str) -> dict[str, int]:
    """The entries of a vocab.txt, one a line; `InputError` for a repeated entry or a missing special token."""
    vocabulary: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        token = line.rstrip("\r\n")
        if token in vocabulary:
            raise InputError(
                f"{where}:{number}: the entry {token!r} stands already in line {vocabulary[token] + 1}; remove one"
            )
        vocabulary[token] = number - 1
    if missing := [token for token in SPECIAL_TOKENS if token not in vocabulary]:
        raise InputError(
            f"{where}: {', '.join(missing)} not found, expected BERT's special tokens; add them to the vocabulary"
        )
    return vocabulary


def save_tokenizer(tokenizer: Tokenizer, directory: Path, lowercase: bool, max_length: int | None = None) -> None:
    """Write the files that `AutoTokenizer.from_pretrained` reads; the same tokenizer gives the same bytes."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    (directory / VOCABULARY_FILE).write_text("".join(f"{token}\n" for token in ordered), encoding="utf-8")
    (directory / TOKENIZER_FILE).write_text(tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")
    special = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_TOKENS, strict=True))
    configuration = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        **({"model_max_length": max_length} if max_length else {}),
        **special,
    }
    write_json(directory / SETTINGS_FILE, dict(sorted(configuration.items())))
    write_json(directory / "special_tokens_map.json", dict(sorted(special.items())))


WORDPIECE = Kind(
    name="wordpiece",
    model=models.WordPiece,
    special=SPECIAL,
    continues=lambda entry: entry.startswith(CONTINUATION),
    separators=1,
    segment_ids=True,
)
