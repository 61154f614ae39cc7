"""How many stages run at once."""

import pytest

from flows.devices import cuda_devices, stages_at_once


def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTCORE_STAGES_AT_ONCE", "3")
    assert stages_at_once() == 3
    monkeypatch.setenv("BERTCORE_STAGES_AT_ONCE", "many")
    with pytest.raises(ValueError, match="BERTCORE_STAGES_AT_ONCE: found 'many', expected a positive integer"):
        stages_at_once()


def test_otherwise_one_for_each_visible_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTCORE_STAGES_AT_ONCE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0, GPU-5a,3")
    assert cuda_devices() == ["0", "GPU-5a", "3"]
    assert stages_at_once() == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert stages_at_once() == 1
