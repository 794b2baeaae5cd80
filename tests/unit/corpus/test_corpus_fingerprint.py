"""Fingerprints: the same for the same content, and telling which file is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

from corpus_reading import corpus_of, json_lines

from krill.corpus import changed
from krill.corpus.fingerprint import WHOLE_BYTES


def _fingerprints(folder: Path) -> list[dict[str, object]]:
    found = corpus_of(folder).fingerprints()
    return json.loads(json.dumps(list(found)))


def test_fingerprints_depend_on_small_files_content_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(["one"]))
    before = _fingerprints(tmp_path)
    assert before[0]["path"] == str(path)
    assert before[0]["bytes"] == path.stat().st_size
    os.utime(path, (1, 1))
    assert changed(before, _fingerprints(tmp_path)) == []
    path.write_bytes(json_lines(["two"]))
    assert changed(before, _fingerprints(tmp_path)) == [str(path)]


def test_a_large_file_is_known_by_its_time_and_samples(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * (WHOLE_BYTES + 1))
    os.utime(path, ns=(1, 1))
    before = _fingerprints(tmp_path)
    os.utime(path, ns=(2, 2))
    assert changed(before, _fingerprints(tmp_path)) == [str(path)]
    for at in (10, WHOLE_BYTES - 5):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"y")
        os.utime(path, ns=(1, 1))
        assert changed(before, _fingerprints(tmp_path)) == [str(path)]


def test_files_that_come_and_go_are_named(tmp_path: Path) -> None:
    for name in ("a", "c"):
        (tmp_path / f"{name}.jsonl").write_bytes(json_lines([name]))
    before = _fingerprints(tmp_path)
    (tmp_path / "d.jsonl").write_bytes(json_lines(["d"]))
    assert changed(before, _fingerprints(tmp_path)) == [str(tmp_path / "d.jsonl")]
    (tmp_path / "d.jsonl").unlink()
    (tmp_path / "c.jsonl").unlink()
    assert changed(before, _fingerprints(tmp_path)) == [str(tmp_path / "c.jsonl")]
