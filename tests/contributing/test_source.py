"""A kind of source from outside the package: subtitles, `srt://DIRECTORY`. One class, and a row in `SOURCES`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bertcore.corpus import sources
from bertcore.corpus.build import build_corpus
from bertcore.corpus.config import CorpusConfig, SourceEntry
from bertcore.corpus.documents import Document, corpus_shards
from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.source import Keep, Source
from bertcore.errors import ConfigError
from tasks.links import NamedSource, link

NO_LINES = "no_lines"


class SubtitleSource(Source):
    """Films by their subtitles: a document for each `.srt` file, without its numbers and times."""

    @property
    def files(self) -> Sequence[Path]:
        directory = Path(self.uri.removeprefix("srt://"))
        if not (found := sorted(directory.glob("*.srt"))):
            raise ConfigError(f"{self.uri}: found no .srt file, expected some; correct the path")
        return found

    def documents(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[Document]:
        for file in files or self.files:
            lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
            spoken = [line for line in lines if line and not line.isdecimal() and "-->" not in line]
            if spoken:
                yield Document(file.name, "\n".join(spoken), self.uri)
            else:
                dropped[NO_LINES] += 1


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sources.SOURCES, "srt://", SubtitleSource)
    films = tmp_path / "films"
    films.mkdir()
    for number in range(20):
        first = f"1\n00:00:01,000 --> 00:00:04,000\nThis is what film {number} says.\n"
        (films / f"{number:02}.srt").write_text(f"{first}\n2\n00:00:05,000 --> 00:00:06,000\nAnd no more.\n")
    (films / "silent.srt").write_text("1\n00:00:01,000 --> 00:00:04,000\n\n")
    return f"srt://{films}"


def test_its_documents_become_a_corpus(uri: str, tmp_path: Path) -> None:
    place = tmp_path / "inputs" / "0"
    link(NamedSource("corpus.sources[0]", uri, place), place)  # as stage `inputs` does: DVC sees changes
    config = CorpusConfig(sources=[SourceEntry(uri=uri)], min_words=3, heldout_fraction=0.3)
    (tmp_path / "out").mkdir()
    found = build_corpus(config, tmp_path / "inputs", tmp_path / "out").as_metrics()
    assert found["documents_read"] == {uri: 20} and found["dropped"] == {NO_LINES: 1}
    assert found["train"]["documents"] + found["heldout"]["documents"] == 20
    (first, *_) = pq.read_table(corpus_shards(tmp_path / "out", "train")[0]).to_pylist()
    number = int(first["id"].removesuffix(".srt"))
    assert first["sentences"] == [f"This is what film {number} says.", "And no more."]


def test_a_wrong_place_is_one_line_before_anything_runs(uri: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^srt://.*nowhere: found no \.srt file"):
        _ = source_of(f"srt://{tmp_path}/nowhere").files
