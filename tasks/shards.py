"""Stage `shards`: corpus and tokenizer -> memory-mapped Arrow shards of token ids, with a manifest."""

import sys

from bertcore.data.documents import SPLITS, corpus_shards, read_sentences
from bertcore.data.shards import Manifest, ShardsConfig, checksum, write_split
from bertcore.data.wordpiece import load_tokenizer
from bertcore.files import replace_directory
from tasks import params
from tasks.paths import CORPUS, SHARDS, TOKENIZER
from tasks.stage import main
from tasks.tracking import StageRun


def run(stage_run: StageRun) -> None:
    config = params.section("shards", ShardsConfig)
    tokenizer = load_tokenizer(TOKENIZER)
    with replace_directory(SHARDS) as beside:
        entries = [
            entry
            for split in SPLITS
            for entry in write_split(read_sentences(corpus_shards(CORPUS, split)), split, beside, tokenizer, config)
        ]
        manifest = Manifest(tokenizer.get_vocab_size(), checksum(TOKENIZER / "tokenizer.json"), entries)
        manifest.write(beside)
    stage_run.log_metrics({f"{split}_tokens": manifest.tokens(split) for split in SPLITS} | {"shards": len(entries)})


if __name__ == "__main__":
    sys.exit(main("shards", run))
