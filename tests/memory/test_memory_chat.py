"""Preparing conversations holds its budget: ten times the input takes hardly more, and long rows fit."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from chat_jobs import conversation, write_tokenizer
from conftest import KRILL
from krill.budget.meter import tree_pss_bytes

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
    """Conversations of 2 and of 20 MB."""
    folder, chance = tmp_path_factory.mktemp("chats"), random.Random(5)
    lines = [
        json.dumps({"messages": conversation(chance, chance.choice((2, 8, 30)))}, ensure_ascii=False) + "\n"
        for _ in range(1000)
    ]
    made = []
    for size in (2, 20):
        path = folder / f"{size}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            while file.tell() < size * MB:
                file.writelines(lines)
        made.append(path)
    return made


def run_watched(config: Path, *arguments: str) -> tuple[dict[str, Any], int]:
    """What `krill preprocess` says, and the most that its processes held together, as seen from outside."""
    command = [str(KRILL), "preprocess", str(config), "--memory", "300MB", "--json", "--quiet", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    most = 0
    while process.poll() is None:
        most = max(most, tree_pss_bytes(process.pid) or 0)
        time.sleep(0.2)
    assert process.stdout is not None and process.returncode == 0
    with process.stdout:
        return dict(json.load(process.stdout)), most


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("template", ["chatml", "plain"])
def test_ten_times_the_conversations_take_hardly_more(
    chats: list[Path], tmp_path: Path, template: str, threads: str
) -> None:
    """With two threads, two processes render the larger input: they are in the budget, and in the prediction,
    which counts in full what the kernel lets them share."""
    own = []
    for number, source in enumerate(chats):
        config = write_config(tmp_path / str(number), source, template, dedup="none")
        result, most = run_watched(config, "--threads", threads)
        budget = result["budget"]
        processes = budget.get("processes_peak", 0)
        assert (processes > 0) == (threads == "2" and number == 1)
        assert most <= budget["measured_peak"] + 2 * MB <= BUDGET
        assert 0.7 <= budget["measured_peak"] / budget["predicted_peak"] <= 1.0
        own.append(budget["measured_peak"] - processes)
    assert own[1] <= 1.3 * own[0]


@pytest.mark.parametrize("turns", [8, 30])
def test_a_text_for_each_turn_holds_what_is_predicted(fresh_krill: Any, tmp_path: Path, turns: int) -> None:
    """Such a row makes several texts, also in the sample of the input."""
    chance, source = random.Random(7), tmp_path / "rows.jsonl"

    def text(words: int) -> str:
        return " ".join("".join(chance.choices("abcdefgh", k=chance.randint(2, 9))) for _ in range(words))

    with source.open("w") as file:
        while file.tell() < 230_000:
            asked = [{"role": "user", "content": text(30)} for _ in range(turns)]
            said = [{"role": "assistant", "content": f"{text(60)}</think>{text(60)}"} for _ in range(turns)]
            messages = [message for pair in zip(asked, said, strict=True) for message in pair]
            file.write(json.dumps({"messages": messages}) + "\n")
    config = write_config(tmp_path, source, "plain", rewritten_turns="unroll", sequence_len=65_536)
    template = tmp_path / "plain.jinja"
    shortened = "(m.content if loop.last else m.content.split('</think>')[-1])"
    template.write_text(PLAIN.replace("m.content", shortened))
    outcome = fresh_krill("preprocess", config, "--memory", "500MB", "--threads", "2", "--json", "--quiet")
    assert outcome.code == 0, outcome.err
    assert outcome.result["documents"]["kept"] == turns * len(source.read_bytes().splitlines())
    assert 0.8 <= outcome.peak / outcome.result["budget"]["predicted_peak"] <= 1.0


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_very_many_messages_hold_no_more_than_is_predicted(
    fresh_krill: Any, tmp_path: Path, threads: int
) -> None:
    """As Python's objects, a message of a word takes many times its bytes."""
    messages = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}] * 50_000
    source = tmp_path / "rows.jsonl"
    source.write_text((json.dumps({"messages": messages}) + "\n") * 2)
    more = {"max_document_bytes": "16MB", "sequence_len": 4_000_000, "dedup": "none"}
    config = write_config(tmp_path, source, "chatml", **more)
    outcome = fresh_krill(
        "preprocess", config, "--memory", "1200MB", "--threads", threads, "--json", "--quiet"
    )
    assert outcome.code == 0, outcome.err
    assert 0.8 <= outcome.peak / outcome.result["budget"]["predicted_peak"] <= 1.0


@pytest.mark.parametrize("template", ["chatml", "plain"])
def test_an_estimate_is_what_the_run_then_takes(
    fresh_krill: Any, chats: list[Path], tmp_path: Path, template: str
) -> None:
    config = write_config(tmp_path, chats[0], template)
    more = ("--memory", "300MB", "--threads", "1", "--json", "--quiet")
    estimated = fresh_krill("estimate", config, *more).result
    outcome = fresh_krill("preprocess", config, *more)
    assert outcome.code == 0, outcome.err
    manifest, budget = outcome.result, outcome.result["budget"]
    assert 0.85 <= outcome.peak / estimated["budget"]["predicted_peak"] <= 1.0
    assert abs(estimated["budget"]["predicted_peak"] - budget["predicted_peak"]) <= 3 * MB
    assert abs(budget["measured_peak"] - outcome.peak) <= 2 * MB
    # Half of the rows are copies, which an estimate does not know.
    assert estimated["documents"] == pytest.approx(manifest["documents"]["read"], rel=0.05)
    kept = manifest["documents"]["kept"] / manifest["documents"]["read"]
    assert estimated["tokens"] * kept == pytest.approx(manifest["tokens"]["kept"], rel=0.1)
    spilled = manifest["spilled_bytes"]
    assert spilled <= estimated["spill_bytes"] * 1.05
    written = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*.arrow"))
    assert estimated["output_bytes"] * kept == pytest.approx(written, rel=0.1)


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
