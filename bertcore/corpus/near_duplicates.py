"""Documents that nearly repeat an earlier one, found by MinHash signatures in bands (locality-sensitive hashing)."""

from dataclasses import dataclass

from rensa import RMinHash, RMinHashDeduplicator

from bertcore.corpus.ngrams import ngram_texts

HASHES = 128
"""Of a signature, 4 bytes each. The similarity they say is off by 0.035 where two texts are alike by 0.8."""
SEED = 1


@dataclass(frozen=True, kw_only=True)
class NearDuplicatesConfig:
    """Section `corpus.near_duplicates` of params.yaml."""

    threshold: float = 0.8
    """Share of two documents' n-grams that both have (Jaccard's index), from which the later one is dropped."""
    ngram: int = 5
    """Words of an n-gram, in the form of `ngrams`; in scripts without blanks, two characters are a word."""

    def __post_init__(self) -> None:
        if not 0.3 <= self.threshold <= 1:
            raise ValueError(f"threshold: found {self.threshold}, expected a share between 0.3 and 1")
        if self.ngram < 1:
            raise ValueError(f"ngram: found {self.ngram}, expected at least 1 word")


class NearDuplicates:
    """Remembers the documents it was shown, in less than 1 KB each (at a threshold of 0.75 and more)."""

    def __init__(self, config: NearDuplicatesConfig):
        self._kept = 0
        self._index = RMinHashDeduplicator(
            threshold=config.threshold, num_perm=HASHES, use_lsh=True, num_bands=bands(config.threshold), seed=SEED
        )

    def repeats(self, signature: RMinHash) -> bool:
        """Whether a text that was kept before is as similar as the threshold says to that of this signature (which has
        n-grams of the same length); if none is, it is kept."""
        self._kept += 1
        return not self._index.add(str(self._kept), signature)


def signature(text: str, ngram: int) -> RMinHash:
    """What is compared of a text: the least hashes of its n-grams."""
    found = RMinHash(num_perm=HASHES, seed=SEED)
    found.update(ngram_texts(text, ngram))
    return found


def bands(threshold: float) -> int:
    """The fewest bands that miss hardly any pair of the threshold's similarity: two documents share a band with even
    odds at (1 / bands) ** (bands / hashes), which shall lie a tenth below the threshold."""
    return next(count for count in (2, 4, 8, 16, 32, 64, 128) if (1 / count) ** (count / HASHES) <= 0.9 * threshold)
