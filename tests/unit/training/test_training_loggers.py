"""Figures for TensorBoard, as its own format has them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from krill.config import load_config
from krill.errors import MissingExtra
from krill.training import metrics


def _points(file: Path) -> list[tuple[int, str, float]]:
    """Step, name and value of all points; a record is a length, data, and a checksum after each."""
    from tensorboardX.proto.event_pb2 import Event  # which imports PyTorch

    data, at, found = file.read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        event = Event.FromString(data[at + 12 : at + 12 + size])
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
        at += size + 16
    return found


def test_every_figure_is_a_point_in_its_curve(tmp_path: Path) -> None:
    config = load_config({"train": {"output_dir": str(tmp_path), "loggers": ["tensorboard"]}})
    metrics.check_loggers(config.train.loggers)
    (logger,) = metrics.open_loggers(config.train.loggers, config)
    logger.log(10, {"train/loss": 2.5, "train/tokens": 640})
    logger.log(20, {"train/loss": 2.0})
    logger.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert _points(file) == [(10, "train/loss", 2.5), (10, "train/tokens", 640.0), (20, "train/loss", 2.0)]


def test_a_logger_that_is_not_installed_is_refused_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as refused:
        metrics.check_loggers(["wandb"])
    assert "krill-lm[wandb]" in str(refused.value.hint)
