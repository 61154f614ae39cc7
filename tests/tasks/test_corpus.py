"""Stage corpus: what it notes beside the corpus."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bertcore import hub
from bertcore.corpus.statistics import CorpusStatistics, SourceStatistics
from tasks import corpus


class Run:
    """In place of the stage's MLflow run."""

    def log_metrics(self, values: dict[str, Any]) -> None:
        assert values["train"] == {"documents": 3, "bytes": 70}


def test_the_commits_of_the_hubs_sets_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("corpus: {sources: [pydoc, 'hf://org/text?column=body']}\n")
    statistics = CorpusStatistics({"pydoc": SourceStatistics(read=5, dropped=Counter({"too_few_words": 2}))})
    statistics.sources["pydoc"].kept["train"].update(documents=3, bytes=70)
    statistics.sources["pydoc"].different["train"] = 2
    monkeypatch.setattr(corpus, "build_corpus", lambda config, inputs, output: statistics)
    monkeypatch.setattr(hub, "commit_of", lambda location: f"commit of {location.repository}")
    corpus.run(Run())  # type: ignore[arg-type]
    noted = json.loads(Path("metrics/corpus.json").read_text())
    assert noted["revisions"] == {"hf://org/text?column=body": "commit of org/text"}
    assert noted["thresholds"] == {"too_few_letters": 0.5, "too_few_words": 8}
    assert noted["train"] == {"documents": 3, "bytes": 70}
    assert noted["dropped_by_source"] == {"pydoc": {"too_few_words": 2}}
    (text,) = json.loads(Path("metrics/sources.json").read_text())["sources"]
    assert text["uri"] == "pydoc" and text["documents"] == 2 and text["train_share"] == 1.0
    assert text["train"] == {"documents": 3, "sentences": 0, "words": 0, "bytes": 70}
