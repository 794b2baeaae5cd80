"""docs/config.md says what the schema says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from krill.config import KrillConfig, load_config

ROOT = Path(__file__).parents[3]


def render() -> str:
    command = [sys.executable, "docs/config_page.py"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_page_in_docs_is_up_to_date() -> None:
    written = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    assert written == render(), "run: python docs/config_page.py > docs/config.md"


def test_every_key_stands_in_the_reference_with_default_and_meaning() -> None:
    page = render()
    assert "| `sequence_len` | `2048` | Tokens in a row. |" in page
    assert "| `max_document_bytes` | `4MB` |" in page
    assert "| `path` | required |" in page
    assert "| `dataset_prepared_min_length` | `preprocess.min_length` |" in page
    for name in KrillConfig.model_fields:
        assert f"| `{name}` |" in page


def test_the_example_of_the_reference_is_enough_to_preprocess() -> None:
    example = re.search(r"```yaml\n(.*?)```", render(), re.DOTALL)
    assert example is not None
    load_config(yaml.safe_load(example[1]), environ={}).require_for_preprocess()


def test_importing_the_config_loads_nothing_heavy() -> None:
    heavy = "pyarrow, numpy, tokenizers, datasets, duckdb, rich, cyclopts"
    probe = f"import sys, krill.config; print([m for m in {heavy.split(', ')!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
