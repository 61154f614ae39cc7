"""WordPiece vocabularies: deterministic training, BERT's text normalisation, the Hugging Face tokenizer layout."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from bertcore.compressed import read_text
from bertcore.errors import InputError
from bertcore.tokens import words
from bertcore.tokens.kind import (
    SpecialTokens,
    TokenizerKind,
    VocabularyConfig,
    ordered_entries,
    require_size,
    save_files,
)

SPECIAL = SpecialTokens(pad="[PAD]", unk="[UNK]", cls="[CLS]", sep="[SEP]", mask="[MASK]")
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = SPECIAL.names
CONTINUATION = "##"
VOCABULARY_FILE = "vocab.txt"


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


def cutter(config: VocabularyConfig) -> Tokenizer:
    """What cuts texts into words as BERT's tokenizer does."""
    lowercase = config.lowercase is not False
    return words.cutter(normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer())


def train_vocabulary(config: VocabularyConfig, counts: Mapping[str, int]) -> dict[str, int]:
    """A vocabulary of exactly `config.vocab_size` entries (`auto`: of `config.most_entries` at most); the same counts
    of words give the same entries with the same ids.

    The library's trainer numbers the continuation characters in the order of a hash map, which changes from run to run
    and decides ties between merges. So the alphabet is counted first, and its continuations are handed over as reserved
    tokens in sorted order: every id is then fixed before merging starts. Raises `InputError` where the text does not
    support that many entries.
    """
    alphabet = _alphabet(counts, config.alphabet_size)
    special = [*SPECIAL_TOKENS, *(f"[unused{index}]" for index in range(config.unused_tokens))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.most_entries,
        min_frequency=config.min_frequency,
        special_tokens=special + [CONTINUATION + character for character in alphabet],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNK))
    words.train(tokenizer, trainer, counts)
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    require_size(vocabulary, config, len(alphabet))
    return vocabulary


def _alphabet(counts: Mapping[str, int], limit: int) -> list[str]:
    """The most frequent characters of the words, sorted."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    kept = sorted(characters.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return sorted(character for character, _ in kept)


def first_entries(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """The tokenizer of the first `size` entries of a trained one."""
    entries = ordered_entries(tokenizer)[:size]
    return make_tokenizer({entry: index for index, entry in enumerate(entries)}, tokenizer.normalizer.lowercase)


def load_vocabulary(path: Path, where: str | None = None) -> dict[str, int]:
    """`read_vocabulary` of a file, plain or packed, which errors call `where`, or by its path."""
    return read_vocabulary(read_text(path).rstrip("\r\n").split("\n"), where or str(path))


def read_vocabulary(lines: Iterable[str], where: str) -> dict[str, int]:
    """The entries of a vocab.txt, one a line; `InputError` for a repeated entry or a missing special token."""
    vocabulary: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        token = line.rstrip("\r\n")
        if token in vocabulary:
            first = vocabulary[token] + 1
            raise InputError(
                f"{where}:{number}: the entry {token!r} stands already in line {first}; put another text, such as "
                f"[unused_{first}], in line {first}, so that all ids stay: transformers takes the last line of an entry"
            )
        vocabulary[token] = number - 1
    if missing := [token for token in SPECIAL_TOKENS if token not in vocabulary]:
        raise InputError(
            f"{where}: {', '.join(missing)} not found, expected BERT's special tokens; give a WordPiece vocabulary, an "
            "entry a line, that has them, or put them in the place of entries that nothing uses"
        )
    return vocabulary


def read_tokenizer(files: Sequence[Path], lowercase: bool | None, where: str) -> Tokenizer:
    """Of a vocab.txt, plain or packed, which errors call `where`; without `lowercase` it lower-cases, as
    `transformers` does."""
    return make_tokenizer(load_vocabulary(files[0], where), lowercase is not False)


def save_tokenizer(tokenizer: Tokenizer, directory: Path, lowercase: bool, max_length: int | None = None) -> None:
    """Write the files that `AutoTokenizer.from_pretrained` reads; the same tokenizer gives the same bytes."""
    lines = (f"{token}\n" for token in ordered_entries(tokenizer))
    (directory / VOCABULARY_FILE).write_text("".join(lines), encoding="utf-8")
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lowercase,
        **WORDPIECE.settings,
    }
    save_files(tokenizer, directory, settings, SPECIAL.settings, max_length)


def _check(config: VocabularyConfig) -> None:
    least = len(SPECIAL_TOKENS) + config.unused_tokens + 1
    if config.vocab_file is None and config.most_entries <= least:
        raise ValueError(
            f"vocab_size: found {config.vocab_size}, expected more than {least}: {least - 1} special and unused "
            "tokens, and characters"
        )
    if config.merges_file is not None:
        raise ValueError(f"merges_file: found {config.merges_file!r}, expected none with kind wordpiece; remove it")


WORDPIECE = TokenizerKind(
    name="wordpiece",
    model=models.WordPiece,
    special=SPECIAL,
    continues=lambda entry: entry.startswith(CONTINUATION),
    separators=1,
    segment_ids=True,
    vocabulary_files=(VOCABULARY_FILE,),
    classes=(
        *("BertTokenizer", "ConvBertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "LayoutLMTokenizer"),
        *("MobileBertTokenizer", "RetriBertTokenizer", "SqueezeBertTokenizer"),
    ),
    settings={"strip_accents": None, "tokenize_chinese_chars": True},
    check=_check,
    cutter=cutter,
    train=lambda config, counts: make_tokenizer(train_vocabulary(config, counts), config.lowercase is not False),
    least=lambda config, counts: (
        len(SPECIAL_TOKENS) + config.unused_tokens + 2 * len(_alphabet(counts, config.alphabet_size))
    ),
    first=first_entries,
    read=read_tokenizer,
    recognises=lambda content: not content.lstrip().startswith("{"),
    save=lambda tokenizer, directory, max_length: save_tokenizer(
        tokenizer, directory, tokenizer.normalizer.lowercase, max_length
    ),
)
