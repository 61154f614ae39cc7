"""What is added is fine-tuned with the same small tokenizer, encoder and example sets as the families' own tests."""

from tests.bertcore.finetune.conftest import config, make_examples, make_task, one_thread, tokenizer

__all__ = ["config", "make_examples", "make_task", "one_thread", "tokenizer"]
