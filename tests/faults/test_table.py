"""docs/faults.md says how its trainings are set up today, and counts what was done, not what was asked for."""

from tests.faults.table import TABLE, Row, head, page


def test_the_document_describes_the_trainings_as_they_are() -> None:
    assert TABLE.read_text(encoding="utf-8").startswith(head()), "run `make faults`"


def test_kills_and_damages_are_those_of_the_rows() -> None:
    rows = [
        Row("SIGKILL of the process; static masks", 7, "same bits", [7, 1200]),
        Row("SIGKILL of stage `corpus`", 2, "same bytes"),
        Row("The end cut off a file of the last checkpoint", 3, "same bits", [7, 7, 7]),
        Row("SIGTERM to the stage (1 process)", 1, "exit status 75", seconds=[2.0, 1.0]),
    ]
    lines = page(rows, "Seed 1.").splitlines()
    assert lines[-1] == "9 processes killed, 3 checkpoints damaged. Seed 1."
    assert "| SIGKILL of the process; static masks | 7 | same bits | 2 times, from steps 7 to 1,200 |  |" in lines
    assert "| The end cut off a file of the last checkpoint | 3 | same bits | 3 times, from step 7 |  |" in lines
    assert "| SIGTERM to the stage (1 process) | 1 | exit status 75 |  | 2.0 s |" in lines
