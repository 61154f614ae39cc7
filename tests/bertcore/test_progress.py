"""Lines that a log, and the flow, can read."""

import pytest

from bertcore import progress
from bertcore.progress import Progress


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_the_last_step_is_always_said_and_only_once(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress("work", 4)
    for _ in range(6):  # a total may be an estimate
        shown.advance("note")
    shown.close()
    assert lines(capsys) == ["work 100% 4/4 note"]


def test_no_more_than_all_is_done(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS", -1.0)
    Progress("work", 2).advance(steps=3)
    assert lines(capsys) == ["work 100% 3/2"]


def test_without_a_total_the_count_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS", -1.0)
    shown = Progress("corpus", None)
    shown.advance("MB of text", steps=3)
    shown.advance("MB of text", steps=2)
    shown.close()
    assert lines(capsys) == ["corpus   ?% 3 MB of text", "corpus   ?% 5 MB of text"]
