"""The small tokenizer and the small encoder of the fine-tuning tests."""

from tests.bertcore.finetune.conftest import config, one_thread, tokenizer

__all__ = ["config", "one_thread", "tokenizer"]
