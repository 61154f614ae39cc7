"""Small real parts for the tests: texts, a trained tokenizer, token shards, an empty store of MLflow, a free port."""

import atexit
import shutil
import socket
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from bertcore.corpus.documents import CORPUS_SCHEMA
from bertcore.corpus.writing import ShardPlans, write_part, write_shard
from bertcore.instances.arrays import Instances
from bertcore.instances.sources import DrawnInstances
from bertcore.shards.build import encode_documents
from bertcore.shards.encoding import encoder_of
from bertcore.shards.store import TokenShard
from bertcore.tokens import byte_bpe, modernbert_bpe, wordpiece
from bertcore.tokens.kind import VocabularyConfig
from bertcore.tokens.tokenizer import Vocabulary
from bertcore.tokens.wordpiece import make_tokenizer, train_vocabulary
from bertcore.tokens.words import count_texts

SUBJECTS = [
    "the parser",
    "a reader",
    "every worker",
    "the scheduler",
    "one process",
    "the cache",
    "this stream",
    "an index",
]
VERBS = ["reads", "writes", "closes", "returns", "checks", "keeps", "drops", "copies", "compresses", "verifies"]
OBJECTS = ["the file", "a large buffer", "its first line", "both tokens", "the unfinished table", "every checksum"]
LETTER_PAIRS = ["".join(letters) for letters in product(ascii_lowercase, repeat=2)]
"""676 words: every merge makes one of them one piece, and so each of its occurrences a piece less."""


def every_row(source: DrawnInstances) -> Instances:
    return Instances.concatenate(list(source.blocks()))


def sentences(count: int, seed: int) -> list[str]:
    """`count` sentences of a small grammar."""
    generator = np.random.default_rng(seed)
    draw = generator.integers(0, 10**6, (count, 3))
    return [
        f"{SUBJECTS[a % len(SUBJECTS)]} {VERBS[b % len(VERBS)]} "
        f"{OBJECTS[c % len(OBJECTS)]}{' again and again' * (a % 3)}."
        for a, b, c in draw.tolist()
    ]


def documents(count: int, seed: int = 0) -> list[list[str]]:
    """`count` documents of 1 to 30 sentences."""
    lengths = np.random.default_rng(seed).integers(1, 31, count)
    return [sentences(int(length), seed + 1000 * index) for index, length in enumerate(lengths)]


def write_corpus(
    directory: Path, name: str, documents: Sequence[Sequence[str]], at_once: int | None = None, **sizes: int
) -> None:
    """The shards of this name, from parts of `at_once` documents, each its sentences. `sizes`: see `ShardPlans`."""
    plans = ShardPlans(directory, **sizes)
    at_once = at_once or len(documents)
    with tempfile.TemporaryDirectory(dir=directory) as parts:
        for begin in range(0, len(documents), at_once):
            rows = [
                {"id": f"{name}:{number}", "source": "test", "sentences": each}
                for number, each in enumerate(documents[begin : begin + at_once], start=begin)
            ]
            write_part(Path(parts, str(begin)), pa.Table.from_pylist(rows, CORPUS_SCHEMA))
            characters = np.array([sum(map(len, row["sentences"])) for row in rows])
            plans.add(name, Path(parts, str(begin)), np.arange(len(rows)), characters)
        let_go = [part for plan in plans.rest() for part in write_shard(plan)]
        assert sorted(let_go) == sorted(Path(parts).iterdir())  # each part once, with the last shard that needs it


@cache
def tokenizer(vocab_size: int = 120) -> Tokenizer:
    """A WordPiece tokenizer trained on the grammar's sentences."""
    texts = sentences(2000, seed=1)
    config = VocabularyConfig(vocab_size=vocab_size, min_frequency=1)
    return make_tokenizer(train_vocabulary(config, count_texts(wordpiece.cutter(config), texts)), lowercase=True)


@cache
def byte_tokenizer(vocab_size: int = 400) -> Tokenizer:
    """A byte-level BPE trained on the same sentences."""
    counts = count_texts(byte_bpe.cutter(), _running(), " ")
    return byte_bpe.train_tokenizer(VocabularyConfig(vocab_size=vocab_size, min_frequency=1), counts)


@cache
def modernbert_tokenizer(vocab_size: int = 400) -> Tokenizer:
    """One with BERT's special tokens."""
    counts = count_texts(modernbert_bpe.cutter(), _running(), " ")
    return modernbert_bpe.train_tokenizer(VocabularyConfig(vocab_size=vocab_size, min_frequency=1), counts)


def _running() -> list[str]:
    """Sentences with the blank before all but the first of a document."""
    return [
        text for document in documents(100, seed=1) for text in (document[0], *(f" {each}" for each in document[1:]))
    ]


def vocabulary() -> Vocabulary:
    return Vocabulary.of(tokenizer())


def token_shard(directory: Path, count: int = 60, seed: int = 0, read_by: Tokenizer | None = None) -> TokenShard:
    """One shard of `count` documents, written into a folder of `directory` for its seed, and opened; in tokens of
    `tokenizer()`, or of `read_by`."""
    path = directory / f"seed-{seed}" / "train-00000.arrow"
    if not path.exists():  # a shard that another process has mapped must not be written again
        path.parent.mkdir(exist_ok=True)
        encode_documents([pa.array(documents(count, seed))], encoder_of(read_by or tokenizer())).write(path)
    return TokenShard.open(path)


@cache
def empty_store() -> Path:
    """An MLflow store to copy, one for the process: to make its tables takes longer than most tests."""
    from mlflow.tracking import MlflowClient  # here, where it is needed: it takes seconds

    path = Path(tempfile.mkdtemp()) / "mlflow.db"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
