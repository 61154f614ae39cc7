"""Stage `corpus`: sources -> cleaned, de-duplicated documents in sentences, train and held out."""

import sys

import pyarrow as pa

from bertcore.corpus.build import build_corpus
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.sources import source_of
from bertcore.files import disk_errors, replace_directory, write_json
from tasks import params
from tasks.paths import CORPUS, INPUTS, METRICS, TEXT_OF_SOURCES
from tasks.stage import main
from tasks.tracking.runs import StageRun


def run(stage_run: StageRun) -> None:
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own allocator keeps what is freed, by chance up to 30 MiB
    config = params.section("corpus", CorpusConfig)
    revisions = {uri: commit for each in config.uris for uri, commit in source_of(each).revisions().items()}
    with disk_errors(CORPUS), replace_directory(CORPUS) as beside:
        statistics = build_corpus(config, INPUTS / "corpus", beside)
    metrics = statistics.as_metrics()
    notes = {"dropped_by_source": statistics.dropped_by_source(), "thresholds": config.thresholds}
    write_json(METRICS / "corpus.json", {**metrics, **notes, "revisions": revisions})
    write_json(TEXT_OF_SOURCES, {"sources": statistics.text_by_source()})
    stage_run.log_metrics(metrics)


if __name__ == "__main__":
    sys.exit(main("corpus", run, configs={"corpus": CorpusConfig}))
