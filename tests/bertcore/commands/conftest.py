"""What the commands use was fine-tuned: the same small tokenizer, encoder and example sets."""

from tests.bertcore.finetune.conftest import config, make_examples, make_task, one_thread, tokenizer

__all__ = ["config", "make_examples", "make_task", "one_thread", "tokenizer"]
