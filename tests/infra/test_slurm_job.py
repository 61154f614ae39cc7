"""What a Slurm job makes of what Slurm says; on a real one: test_slurm.py."""

from pathlib import Path

import pytest

from infra.slurm import job


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("RunTime=07:57:10 TimeLimit=08:00:00 TimeMin=N/A", True),
        ("RunTime=00:57:10 TimeLimit=08:00:00 TimeMin=N/A", False),
        ("RunTime=1-23:59:00 TimeLimit=2-00:00:00 TimeMin=N/A", True),
        ("RunTime=23:59:00 TimeLimit=1-12:00:00 TimeMin=N/A", False),
        ("RunTime=1-23:59:00 TimeLimit=UNLIMITED TimeMin=N/A", False),
        ("", False),
    ],
)
def test_a_job_at_its_limit_is_told_from_one_that_makes_room(shown: str, expected: bool) -> None:
    assert job.at_limit(shown) == expected


def test_a_lock_is_nothing_that_a_job_has_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "ROOT", tmp_path)
    monkeypatch.setenv("BERTCORE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "room").mkdir(parents=True)
    before = job.kept()
    (tmp_path / "cache" / "mlflow-0.lock").touch()
    (tmp_path / "cache" / "room" / "slot-0").touch()
    assert job.kept() == before
    (tmp_path / "cache" / "room" / "corpus.txt.part").write_text("half")
    assert job.kept() != before
