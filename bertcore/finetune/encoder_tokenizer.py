"""The tokenizer in an encoder's own directory, of which older checkpoints keep the vocabulary alone."""

import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bertcore.compressed import json_object, read_json
from bertcore.errors import ArtifactError
from bertcore.model.encoder_config import EncoderConfig
from bertcore.tokens.kind import SETTINGS_FILE, TOKENIZER_FILE, TokenizerKind, max_length_of
from bertcore.tokens.tokenizer import KINDS, Vocabulary, ids_of, load_tokenizer, size_of, tokenizer_kind

SAMPLE = ("Text goes in at the top.", "What comes out?")
"""Two texts by which layouts are told apart."""


@contextmanager
def tokenizer_directory(encoder: Path) -> Iterator[Path]:
    """A directory with all files of the tokenizer of `encoder`, a Hugging Face directory, until the block ends:
    `encoder` itself, or what the files of its vocabulary give (vocab.txt, or vocab.json and merges.txt), where it has
    no tokenizer.json.

    tokenizer_config.json, where there is one, says whether texts are lower-cased; if it does not, they are or are not,
    as in `transformers`. `ArtifactError` where there is no tokenizer, or one that lays out or cuts texts otherwise than
    a tokenizer of its files alone.
    """
    if (encoder / TOKENIZER_FILE).is_file():
        yield encoder
        return
    kinds = [kind for kind in KINDS.values() if kind.vocabulary_files]
    for kind in kinds:
        files = [encoder / name for name in kind.vocabulary_files]
        if all(file.is_file() for file in files):
            break
    else:
        known = ", ".join(" with ".join(kind.vocabulary_files) for kind in kinds)
        raise ArtifactError(
            f"{encoder}: found neither {TOKENIZER_FILE} nor {known}, expected the encoder's tokenizer in one "
            "of them; copy it there from where the encoder is from"
        )
    settings = _settings(encoder, kind)
    tokenizer = kind.read(files, settings.get("do_lower_case"), str(files[0]))
    _check_added(encoder, tokenizer)
    with tempfile.TemporaryDirectory(prefix="bertcore-tokenizer-") as folder:
        made = Path(folder)
        kind.save(tokenizer, made, max_length_of(settings))
        yield made


def tokenizer_for(encoder: Path, config: EncoderConfig) -> Tokenizer:
    """The tokenizer of `encoder`, a Hugging Face directory of a model of `config`; `ArtifactError` as of
    `tokenizer_directory` and `check_size`."""
    with tokenizer_directory(encoder) as directory:
        tokenizer = load_tokenizer(directory)
    check_size(tokenizer, config, str(encoder))
    return tokenizer


def readable_tokenizer(encoder: Path) -> Tokenizer:
    """The tokenizer of `encoder`, a Hugging Face directory; `ArtifactError` where it has none, one of a kind that no
    stage reads texts with, or one with which no model can be saved (`check_files`)."""
    with tokenizer_directory(encoder) as directory:
        tokenizer = load_tokenizer(directory)
        try:
            vocabulary = Vocabulary.of(tokenizer)
        except ArtifactError as error:
            raise ArtifactError(f"{encoder}/{error}; give a model with such a tokenizer") from None
        check_files(directory, tokenizer, vocabulary)
    return tokenizer


def check_files(directory: Path, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
    """`ArtifactError` unless `tokenizer`, which was read from `directory` and has the `vocabulary`, lays texts out as
    its kind does, and has the entries of the vocab.txt or vocab.json there, if there is one.

    Tokens that were added to a trained tokenizer may be missing in that file, as `transformers` leaves them out.
    """
    path = directory / TOKENIZER_FILE
    beside = directory / tokenizer_kind(tokenizer).entries_file
    if beside.exists():
        entries = tokenizer.get_vocab(with_added_tokens=True)
        added = entries.keys() - tokenizer.get_vocab(with_added_tokens=False).keys()
        same_entries(beside, ids_of(beside), path, entries, may_lack=added)
    _check_layout(path, tokenizer, vocabulary)


def same_entries(
    path: Path, found: Mapping[str, int], other: Path, expected: Mapping[str, int], may_lack: Collection[str] = ()
) -> None:
    """`ArtifactError` unless the entries at `path` have the ids that those at `other` have; it `may_lack` some."""
    differing = sorted(
        token
        for token in found.keys() | expected.keys()
        if found.get(token) != expected.get(token) and not (token in may_lack and token not in found)
    )
    if differing:
        token = differing[0]
        raise ArtifactError(
            f"{path}: {len(differing)} entries are not those of {other}: found {token!r} as {found.get(token)}, "
            f"expected {expected.get(token)}; save the tokenizer that the model was trained with"
        )


def _check_layout(path: Path, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
    texts = [tokenizer.encode(text, add_special_tokens=False).ids for text in SAMPLE]
    for count, encoding in enumerate((tokenizer.encode(SAMPLE[0]), tokenizer.encode(*SAMPLE)), 1):
        ids, types = (each.tolist() for each in vocabulary.sequence(*texts[:count]))
        if encoding.ids != ids or encoding.type_ids != types:
            tokens = [tokenizer.id_to_token(index) or "" for index in ids]
            raise ArtifactError(
                f"{path}: found the tokens {' '.join(encoding.tokens)} of types {encoding.type_ids}, expected "
                f"{' '.join(tokens)} of types {types}; save the tokenizer with its kind's "
                "post-processor"
            )


def check_size(tokenizer: Tokenizer, config: EncoderConfig, where: str) -> None:
    """`ArtifactError` unless the encoder `config`, which is `where`, has an embedding for each of the entries."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    if (size := size_of(ids)) > config.vocab_size:
        highest = "" if size == len(ids) else f", whose ids go up to {size - 1}"
        raise ArtifactError(
            f"{where}: vocab_size: found {config.vocab_size}, expected at least the {len(ids)} entries of the "
            f"tokenizer{highest}; use the encoder's own tokenizer"
        )


def _settings(encoder: Path, kind: TokenizerKind) -> dict[str, Any]:
    """The content of tokenizer_config.json."""
    path = encoder / SETTINGS_FILE
    found = read_json(path) if path.is_file() else {}
    if not isinstance(found, dict) or not isinstance(found.get("do_lower_case", True), bool):
        raise ArtifactError(f"{path}: found {str(found)[:80]}, expected an object with do_lower_case true or false")
    for file, values in ((path, found), (encoder / "config.json", json_object(encoder / "config.json"))):
        if (name := values.get("tokenizer_class")) is not None:
            _check_class(file, str(name), kind)
            break
    for key, expected in {**kind.settings, **_CUTTING}.items():
        if found.get(key, expected) != expected:
            raise ArtifactError(
                f"{path}: {key}: found {found[key]!r}, expected {expected!r}, as the published tokenizers of the kind "
                f"{kind.name} have it; give the directory a {TOKENIZER_FILE}, which transformers writes (AutoTokenizer "
                "… save_pretrained)"
            )
    return found


_CUTTING = {"do_basic_tokenize": True, "word_tokenizer_type": "basic", "subword_tokenizer_type": "wordpiece"}
"""Keys of tokenizer_config.json by which classes of older `transformers` cut texts into other words and pieces, with
what stands for BERT's way."""
_ANY_CLASS = ("PreTrainedTokenizer", "TokenizersBackend")
"""Classes that say nothing of how texts are cut."""


def _check_class(file: Path, name: str, kind: TokenizerKind) -> None:
    if name.removesuffix("Fast") not in (*kind.classes, *_ANY_CLASS):
        raise ArtifactError(
            f"{file}: tokenizer_class: found {name!r}, expected {kind.classes[0]} or another that cuts texts as it "
            f"does by {' and '.join(kind.files)} alone; give another model, or the directory a {TOKENIZER_FILE} that "
            "cuts so"
        )


def _check_added(encoder: Path, tokenizer: Tokenizer) -> None:
    path, ids = encoder / "added_tokens.json", tokenizer.get_vocab(with_added_tokens=True)
    if others := [token for token, index in json_object(path).items() if ids.get(token) != index]:
        raise ArtifactError(
            f"{path}: found {len(others)} tokens ({others[0]!r}, …) beside a vocabulary alone, expected them in a "
            f"{TOKENIZER_FILE}, which says how they are read; have transformers write it: "
            f"AutoTokenizer.from_pretrained({str(encoder)!r}).save_pretrained({str(encoder)!r})"
        )
