"""Preparing conversations holds its budget: ten times the input takes hardly more, and long rows fit."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from chat_jobs import conversation, write_tokenizer

MB = 10**6
BUDGET = 300 * MB
# As chatml, without markers: turns are found by their places.
PLAIN = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
PLAIN += "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def write_config(folder: Path, source: Path, template: str, **preprocess: Any) -> Path:
    write_tokenizer(folder / "model")
    (folder / "plain.jinja").write_text(PLAIN)
    config = {
        "datasets": [{"path": str(source), "type": "chat_template"}],
        "tokenizer": {"path": str(folder / "model")},
        "chat_template": "chatml" if template == "chatml" else str(folder / "plain.jinja"),
        "preprocess": {"prepared_path": str(folder / "out"), "sequence_len": 4096, **preprocess},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Conversations of 4 and of 40 MB."""
    folder, chance = tmp_path_factory.mktemp("chats"), random.Random(5)
    lines = [
        json.dumps({"messages": conversation(chance, chance.choice((2, 8, 30)))}, ensure_ascii=False) + "\n"
        for _ in range(2000)
    ]
    made = []
    for size in (4, 40):
        path = folder / f"{size}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            while file.tell() < size * MB:
                file.writelines(lines)
        made.append(path)
    return made


@pytest.mark.parametrize("template", ["chatml", "plain"])
def test_ten_times_the_conversations_take_hardly_more(
    fresh_krill: Any, chats: list[Path], tmp_path: Path, template: str
) -> None:
    peaks = []
    for number, source in enumerate(chats):
        folder = tmp_path / str(number)
        config = write_config(folder, source, template, dedup="none")
        outcome = fresh_krill("preprocess", config, "--memory", "300MB", "--threads", 2, "--json", "--quiet")
        assert outcome.code == 0, outcome.err
        assert outcome.peak <= BUDGET
        assert abs(outcome.result["budget"]["measured_peak"] - outcome.peak) <= 2 * MB
        peaks.append(outcome.peak)
    assert peaks[1] <= 1.3 * peaks[0]
    assert 0.7 <= peaks[1] / outcome.result["budget"]["predicted_peak"] <= 1.0


@pytest.mark.parametrize("template", ["chatml", "plain"])
@pytest.mark.parametrize(("turns", "words"), [(1, 100_000), (8000, 5)])
def test_rows_of_the_largest_size_fit_the_least_budget(
    fresh_krill: Any, tmp_path: Path, template: str, turns: int, words: int
) -> None:
    """What the plan asks for at the least is enough, whatever the rows are like."""
    chance = random.Random(1)
    source = tmp_path / "rows.jsonl"

    def text() -> str:
        return " ".join(chance.choices(("krill", "🦐", "sea"), k=words // 2))

    with source.open("w", encoding="utf-8") as file:
        for _ in range(8):
            roles = ("user", "assistant") * turns
            messages = [{"role": role, "content": text()} for role in roles]
            file.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")
    assert 300_000 < source.stat().st_size / 8 < MB
    more = {"sequence_len": 10**6, "max_untrained": 1, "on_error": "skip"}
    config = write_config(tmp_path, source, template, **more)
    refused = fresh_krill("preprocess", config, "--memory", "100MB", "--threads", 2)
    assert refused.code == 4
    least = int(refused.err.split("--memory ")[1].split("MB")[0])
    assert least < 300
    outcome = fresh_krill("preprocess", config, "--memory", f"{least}MB", "--threads", 2, "--quiet")
    assert outcome.code in (0, 3), outcome.err  # 3: too many turns to be told apart, and nothing is left
    assert outcome.peak <= least * MB
