"""What is added is fine-tuned with the same small tokenizer, encoder and example sets as the families' own tests."""

import pytest

from tests.bertcore.finetune.conftest import config, make_examples, make_task, one_thread, tokenizer

__all__ = ["config", "make_examples", "make_task", "one_thread", "tokenizer"]


@pytest.fixture(autouse=True)
def own_accelerator(no_accelerator: None) -> None:
    """Also after tests that set another precision."""
