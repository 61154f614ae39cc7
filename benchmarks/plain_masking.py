"""The yardstick of pairing and masking: the procedure that BERT published, in plain Python, a token at a time.

Written anew from its description (Devlin et al. 2018, appendix A) and its published rules; on ids instead of strings
and without the writing of records, which makes it faster than the published program.
"""

from dataclasses import dataclass
from functools import cached_property
from random import Random

from bertcore.shards.store import TokenShard
from bertcore.tokens.tokenizer import Vocabulary

Document = list[list[int]]


@dataclass(slots=True)
class Instance:
    """One masked pair."""

    tokens: list[int]
    segment_ids: list[int]
    masked_positions: list[int]
    masked_labels: list[int]


@dataclass(frozen=True)
class Plain:
    """The options of the procedure."""

    vocabulary: Vocabulary
    sequence_length: int
    max_predictions: int
    whole_words: bool
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1

    def instances(self, documents: list[Document], rng: Random) -> list[Instance]:
        """One pass over all documents."""
        found: list[Instance] = []
        for index in range(len(documents)):
            self._add_document(documents, index, rng, found)
        rng.shuffle(found)
        return found

    def _add_document(self, documents: list[Document], index: int, rng: Random, found: list[Instance]) -> None:
        document, budget = documents[index], self.sequence_length - 3
        target = rng.randint(2, budget) if rng.random() < self.short_seq_prob else budget
        chunk: Document = []
        length = position = 0
        while position < len(document):
            chunk.append(document[position])
            length += len(document[position])
            if position == len(document) - 1 or length >= target:
                a_end = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
                a = [token for sentence in chunk[:a_end] for token in sentence]
                if len(chunk) == 1 or rng.random() < 0.5:
                    b = self._random_text(documents, index, target - len(a), rng)
                    position -= len(chunk) - a_end
                else:
                    b = [token for sentence in chunk[a_end:] for token in sentence]
                self._truncate(a, b, rng)
                found.append(self._instance(a, b, rng))
                chunk, length = [], 0
            position += 1

    def _random_text(self, documents: list[Document], index: int, wanted: int, rng: Random) -> list[int]:
        other = index
        for _ in range(10):
            other = rng.randint(0, len(documents) - 1)
            if other != index:
                break
        text: list[int] = []
        for sentence in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
            text.extend(sentence)
            if len(text) >= wanted:
                break
        return text

    def _truncate(self, a: list[int], b: list[int], rng: Random) -> None:
        while len(a) + len(b) > self.sequence_length - 3:
            longer = a if len(a) > len(b) else b
            if rng.random() < 0.5:
                del longer[0]
            else:
                longer.pop()

    def _instance(self, a: list[int], b: list[int], rng: Random) -> Instance:
        cls, sep = self.vocabulary.cls, self.vocabulary.sep
        tokens = [cls, *a, sep, *b, sep]
        segment_ids = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        positions, labels = self._mask(tokens, rng)
        return Instance(tokens, segment_ids, positions, labels)

    def _mask(self, tokens: list[int], rng: Random) -> tuple[list[int], list[int]]:
        cls, sep, continues = self.vocabulary.cls, self.vocabulary.sep, self._continues
        words: list[list[int]] = []
        for position, token in enumerate(tokens):
            if token in (cls, sep):
                continue
            if self.whole_words and words and continues[token]:
                words[-1].append(position)
            else:
                words.append([position])
        rng.shuffle(words)
        wanted = min(self.max_predictions, max(1, round(len(tokens) * self.masked_lm_prob)))
        chosen: list[tuple[int, int]] = []
        for word in words:
            if len(chosen) >= wanted:
                break
            if len(chosen) + len(word) > wanted:
                continue
            for position in word:
                chosen.append((position, tokens[position]))
                draw = rng.random()
                if draw < 0.8:
                    tokens[position] = self.vocabulary.mask
                elif draw < 0.9:
                    tokens[position] = rng.randint(0, self.vocabulary.size - 1)
        chosen.sort()
        return [position for position, _ in chosen], [label for _, label in chosen]

    @cached_property
    def _continues(self) -> bytes:
        return self.vocabulary.continues.tobytes()


def documents_of(shard: TokenShard) -> list[Document]:
    """The shard's documents as lists of sentences of ids."""
    tokens, offsets = shard.tokens.tolist(), shard.sentence_offsets.tolist()
    sentences = [tokens[start:end] for start, end in zip(offsets[:-1], offsets[1:], strict=True)]
    bounds = shard.document_offsets.tolist()
    return [sentences[start:end] for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
