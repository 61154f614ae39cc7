"""Every error that bertcore raises for a user's input. One line each: what, where, found, expected, remedy."""

import re

UNAVAILABLE, BAD_INPUT, STOPPED, INTERRUPTED = 1, 2, 75, 130
"""Exit statuses of stages and of their processes: worth another attempt, which the flow makes; the input cannot be
used; stopped, and goes on when started again (EX_TEMPFAIL of sysexits.h); interrupted."""


class BertcoreError(Exception):
    """Base of all errors whose message is meant for the user; the stages print it without a traceback."""


class ConfigError(BertcoreError):
    """A parameter is unknown, of the wrong type, out of range, or contradicts another one."""


class InputError(BertcoreError):
    """A file, a data set, a row or a text that was given cannot be used."""


class TextError(InputError):
    """One of several texts cannot be used."""

    def __init__(self, place: int, message: str) -> None:
        """`place`: which one it is, counted from 0."""
        super().__init__(message)
        self.place = place


class UnavailableError(BertcoreError):
    """A network or a server does not answer now; the same attempt may succeed later."""


class ArtifactError(BertcoreError):
    """Something an earlier stage wrote (tokenizer, shard, model, checkpoint) is missing, damaged or does not fit."""


class TrainingError(BertcoreError):
    """Training cannot go on: a loss that is not finite, ranks that disagree, a batch that does not fit."""


class StoppedError(BertcoreError):
    """Not an error of anybody's: the work was asked to stop, and goes on from here when it is started again."""


def status_of(error: BertcoreError) -> int:
    """The exit status of a program that ends with `error`."""
    return UNAVAILABLE if isinstance(error, UnavailableError) else BAD_INPUT


def may_pass(status: int) -> bool:
    """Whether a server that answers with this HTTP status may answer otherwise later."""
    return status >= 500 or status in (408, 425, 429)


def without_password(text: str) -> str:
    """`text` without the users and passwords of its addresses."""
    return re.sub(r"//[^/\s]*@", "//", text)
