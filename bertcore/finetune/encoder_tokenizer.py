"""The tokenizer in an encoder's own directory, of which older checkpoints keep the vocabulary alone."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertcore.compressed import read_json
from bertcore.errors import ArtifactError
from bertcore.tokens.wordpiece import (
    SETTINGS_FILE,
    TOKENIZER_FILE,
    VOCABULARY_FILE,
    load_vocabulary,
    make_tokenizer,
    save_tokenizer,
)

_FIXED = {"strip_accents": None, "tokenize_chinese_chars": True}
"""What `make_tokenizer` does, as BERT's published tokenizers do: key of tokenizer_config.json -> its only value."""


@contextmanager
def tokenizer_directory(encoder: Path) -> Iterator[Path]:
    """A directory with all files of the tokenizer of `encoder`, a Hugging Face BERT directory, until the block ends:
    `encoder` itself, or what its vocab.txt gives, where it has no tokenizer.json.

    tokenizer_config.json, where there is one, says whether texts are lower-cased; if it does not, they are, as in
    `transformers`. `ArtifactError` where there is no tokenizer, or one of another kind than BERT's.
    """
    if (encoder / TOKENIZER_FILE).is_file():
        yield encoder
        return
    path = encoder / VOCABULARY_FILE
    if not path.is_file():
        raise ArtifactError(
            f"{encoder}: found neither {TOKENIZER_FILE} nor {VOCABULARY_FILE}, expected the encoder's tokenizer in one "
            "of them; copy it there from where the encoder is from"
        )
    settings = _settings(encoder / SETTINGS_FILE)
    vocabulary = load_vocabulary(path)
    lowercase, longest = settings["do_lower_case"], settings.get("model_max_length")
    with tempfile.TemporaryDirectory(prefix="bertcore-tokenizer-") as folder:
        made = Path(folder)
        # Without a limit of its own, transformers writes a number of 30 digits.
        limit = longest if isinstance(longest, int) and longest < 10**9 else None
        save_tokenizer(make_tokenizer(vocabulary, lowercase), made, lowercase, limit)
        yield made


def _settings(path: Path) -> dict[str, Any]:
    """tokenizer_config.json, with `do_lower_case` filled in."""
    found = read_json(path) if path.is_file() else {}
    if not isinstance(found, dict) or not isinstance(found.get("do_lower_case", True), bool):
        raise ArtifactError(f"{path}: found {str(found)[:80]}, expected an object with do_lower_case true or false")
    for key, expected in _FIXED.items():
        if found.get(key, expected) != expected:
            raise ArtifactError(
                f"{path}: {key}: found {found[key]!r}, expected {expected!r}, as BERT has it; give the directory a "
                f"{TOKENIZER_FILE}, which transformers writes (AutoTokenizer … save_pretrained)"
            )
    return {"do_lower_case": True, **found}
