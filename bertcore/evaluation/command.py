"""The shape that the commands share: their result as JSON, or one line that says what is wrong."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from bertcore.errors import BAD_INPUT, BertcoreError


def print_result(compute: Callable[[], Mapping[str, Any]]) -> int:
    """Print what `compute` gives and return 0; print its error, or that of the file system, to the standard error and
    return 2."""
    try:
        result = compute()
    except (BertcoreError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    print(json.dumps(result, indent=2))
    return 0
