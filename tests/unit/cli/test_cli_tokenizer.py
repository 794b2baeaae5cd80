"""What the verbs on tokenizers make of their options, before any room is entered."""

from __future__ import annotations

import shlex
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import krill
from krill.cli.commands import app
from krill.cli.options import OutputOptions
from krill.cli.progress import ProgressLines
from krill.cli.run import _held_out, _steps, run_step
from krill.cli.screen import print_result
from krill.cli.tokenizer_compare import print_comparison, print_trial
from krill.cli.tokenizer_train import output_folder, training_rows
from krill.config import load_config
from krill.errors import ConfigError, InputError
from krill.tokenizer.compare import Comparison, Trial
from krill.tokenizer.options import TrainOptions

DATASETS = [{"path": "a.jsonl"}]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What training was asked for, instead of training."""
    found: dict[str, Any] = {}

    def take(sources: Any, options: TrainOptions, display: OutputOptions, **more: Any) -> None:
        found.update(more, **asdict(options), sources=sources, display=display)

    monkeypatch.setattr("krill.cli.tokenizer_train.run_and_print", take)
    return found


def call(line: str) -> None:
    """A command line without its `krill`."""
    app(shlex.split(line), exit_on_error=False, print_error=False)


def test_a_training_as_the_seed_types_it(asked: dict[str, Any]) -> None:
    call(
        "tokenizer train --input a.txt --vocab-size 32000 --processes 6 "
        '--special-tokens "<|endoftext|>" "<|startoftext|>" --output-prefix production_model'
    )
    assert [source.path for source in asked["sources"]] == ["a.txt"]
    assert asked["special_tokens"] == ("<|endoftext|>", "<|startoftext|>")
    assert (asked["vocab_size"], asked["threads"], asked["tie_break"]) == (32000, 6, "greatest")
    assert asked["output"] == asked["prefix"] == Path("trainings/production_model")


def test_defaults_are_those_of_the_python_api(asked: dict[str, Any]) -> None:
    call("tokenizer train --input a.txt b/*.jsonl --output out")
    assert [(source.path, source.text_column) for source in asked["sources"]] == [
        ("a.txt", "text"),
        ("b/*.jsonl", "text"),
    ]
    assert (asked["output"], asked["prefix"], asked["push"]) == (Path("out"), None, None)
    options = {
        "vocab_size": 32000,
        "pattern": "gpt2",
        "special_tokens": ("<|endoftext|>",),
        "min_frequency": 0,
        "max_token_length": None,
        "initial_alphabet": "bytes",
        "limit_alphabet": None,
        "tie_break": "huggingface",
        "boundaries": "documents",
        "tiktoken": False,
        "overwrite": False,
        "memory": "auto",
    }
    assert {name: asked[name] for name in options} == options


def test_a_tie_break_that_is_named_holds_with_a_prefix_too(asked: dict[str, Any]) -> None:
    call("tokenizer train --input a --output-prefix runs/x --tie-break huggingface --output out")
    assert (asked["tie_break"], asked["prefix"], asked["output"]) == (
        "huggingface",
        Path("runs/x"),
        Path("out"),
    )


def test_the_chat_preset_adds_its_tokens_before_ones_own(asked: dict[str, Any]) -> None:
    call("tokenizer train --input a --output out --preset chat --special-tokens '<|mine|>'")
    tokens = asked["special_tokens"]
    assert tokens[0] == "<|endoftext|>"
    assert {"<|im_start|>", "<|im_end|>", "<tool_call>"} < set(tokens)
    assert tokens[-1] == "<|mine|>"
    assert asked["chat"] is True


def test_special_tokens_can_be_none(asked: dict[str, Any]) -> None:
    call("tokenizer train --input a --output out --no-special-tokens")
    assert asked["special_tokens"] == ()


@pytest.mark.parametrize(
    ("words", "fact", "remedy"),
    [
        ("train --input a", "no place to go", "--output artifacts/tokenizer"),
        ("train --input a --output o --threads none", "`threads` is `none`", "from 1 to 1024"),
        ("train --input a --output o --processes 0", "`threads` is `0`", "from 1 to 1024"),
        ("encode --tokenizer t --output o.bin", "--output needs --input", "name the files"),
        ("encode words --tokenizer t --input a", "either texts or --input", "leave one of them out"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_a_remedy(
    asked: dict[str, Any], words: str, fact: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        call(f"tokenizer {words}")
    assert fact in caught.value.message
    assert remedy in str(caught.value.hint)


def test_ids_that_are_none_are_refused() -> None:
    from krill.cli.tokenizer_decode import _numbers

    assert _numbers(["1,2", "3"]).tolist() == [1, 2, 3]
    for word in ("x", "-1", "1.5", "4294967296"):
        with pytest.raises(InputError, match=f"`{word}` is not a token id"):
            _numbers([word])


def test_a_config_names_what_is_trained_and_where(asked: dict[str, Any], tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "memory: 256MB\ndatasets: [{path: a.jsonl, text_column: body}, {path: b.txt, separator: '==='}]\n"
        "tokenizer: {path: out/tokenizer.json, vocab_size: 500, pattern: cl100k, boundaries: lines}\n"
    )
    call(f"train-tokenizer {config} --threads 2 --set tokenizer.min_frequency=2")
    first, second = asked["sources"]
    assert (first.path, first.text_column) == ("a.jsonl", "body")
    assert (second.path, second.separator) == ("b.txt", "===")
    assert asked["output"] == Path("out")
    assert (asked["memory"], asked["threads"]) == (256_000_000, 2)
    assert (asked["vocab_size"], asked["pattern"], asked["boundaries"]) == (500, "cl100k", "lines")
    assert (asked["min_frequency"], asked["tie_break"], asked["push"]) == (2, "huggingface", None)


def test_a_hub_id_is_pushed_to_only_when_asked(asked: dict[str, Any], tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("hub_tokenizer_id: org/name\nvocab_size: 500\ndatasets: [{path: a.jsonl}]\n")
    call(f"train-tokenizer {config}")
    assert (asked["output"], asked["push"]) == (Path("artifacts/tokenizer"), None)
    call(f"train-tokenizer {config} --push")
    assert asked["push"] == "org/name"
    call(f"train-tokenizer {config} --push --set tokenizer.path=./here")
    assert (asked["output"], asked["push"]) == (Path("here"), "org/name")


def test_a_hub_id_that_is_a_folder_is_trained_into_and_not_pushed_to(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("hub_tokenizer_id: ./tok\ndatasets: [{path: a.jsonl}]\n")
    call(f"train-tokenizer {config}")
    assert (asked["output"], asked["push"]) == (Path("tok"), None)
    with pytest.raises(ConfigError, match=r"the config has the folder `\./tok` in its place"):
        call(f"train-tokenizer {config} --push")


@pytest.mark.parametrize(
    ("tree", "fact"),
    [
        ({"datasets": DATASETS, "tokenizer": {"builtin": "bytes"}}, "it needs no training"),
        ({"tokenizer": {"path": "t"}}, "`datasets` is missing"),
        ({"datasets": DATASETS}, "`tokenizer.path` is missing"),
        ({"datasets": DATASETS, "tokenizer": {"path": "t/vocab.json"}}, "trained into a folder"),
    ],
)
def test_a_config_with_nothing_to_train_says_which_key(tree: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigError, match=fact):
        output_folder(load_config(tree, environ={}))


def steps(**tree: Any) -> list[str]:
    """What `krill run` does for a config."""
    return _steps(load_config({"datasets": DATASETS, **tree}, environ={}))


def test_run_trains_a_tokenizer_only_where_it_is_its_own_work(tmp_path: Path) -> None:
    missing = {"path": str(tmp_path / "missing")}
    assert steps(tokenizer=missing) == ["train-tokenizer", "preprocess"]
    assert steps(tokenizer={"path": str(tmp_path / "missing" / "tokenizer.json")})[0] == "train-tokenizer"
    assert steps(tokenizer=missing, preprocess={"output": "text"}) == ["preprocess"]
    assert steps(tokenizer={"builtin": "bytes"}) == ["preprocess"]
    assert steps(tokenizer={"hub_id": "org/name"}) == ["preprocess"]
    assert steps(tokenizer={"hub_id": str(tmp_path / "missing")}) == ["train-tokenizer", "preprocess"]
    given = tmp_path / "given"
    given.mkdir()
    (given / "tokenizer.json").write_text("{}")
    assert steps(tokenizer={"path": str(given)}) == ["preprocess"]
    (given / "krill-run.json").write_text("{}")
    assert steps(tokenizer={"path": str(given)}) == ["train-tokenizer", "preprocess"]


def test_run_trains_where_the_config_has_more_to_say_of_training_than_a_place() -> None:
    data = {"tokenizer": {"builtin": "bytes"}}
    assert steps(**data, train={"max_steps": 5}) == ["preprocess", "train", "evaluate"]
    assert steps(**data, train={"max_steps": 5, "streaming": True}) == ["train"]
    assert steps(**data, train={"output_dir": "model", "hub_model_id": "me/model"}) == ["preprocess"]
    assert steps(**data, train={"max_steps": 5}, preprocess={"output": "text"}) == ["preprocess"]


def test_run_holds_documents_out_for_validation_unless_the_config_has_its_own_split() -> None:
    def held_out(**tree: Any) -> list[str]:
        return _held_out(load_config({"datasets": DATASETS, **tree}, environ={}))

    assert held_out(train={"max_steps": 5}) == ["preprocess.split.validation=0.01"]
    assert held_out() == []
    assert held_out(train={"max_steps": 5, "streaming": True}) == []
    assert held_out(train={"max_steps": 5}, preprocess={"split": {"validation": 0.0}}) == []


def test_a_step_leaves_interrupts_as_they_were_for_the_next_one() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    assert run_step("--version", [], capture=True).decode() == f"{krill.__version__}\n"
    assert [signal.getsignal(number) for number in numbers] == before


# What is shown.

FACTS: dict[str, Any] = {
    "status": "done",
    "output": "artifacts/tokenizer",
    "vocab_size": 32000,
    "merges": 31743,
    "input_bytes": 480_000_000,
    "unique_words": 1_600_000,
    "words": 90_000_000,
    "seconds": 8.0,
    "stages": [{"name": "count", "seconds": 6.0, "bytes": 480_000_000}, {"name": "merge", "seconds": 2.0}],
    "bytes_per_token": 4.125,
    "longest_tokens": ["-" * 60, "\n\n"],
    "budget": {"limit": 10**9, "predicted_peak": 3 * 10**8, "measured_peak": 2 * 10**8},
}


def test_the_end_of_a_training_is_printed_in_figures(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {**FACTS, "files": ["trainings/x_merges.txt"]}
    print_result(facts, OutputOptions(), lambda: training_rows(facts))
    printed = capsys.readouterr().out
    for fact in (
        "32,000 tokens, 31,743 merges",
        "1,600,000 unique of 90,000,000",
        "4.12 bytes per token on a sample",
        "8.0 s, 60.0 MB/s over 480 MB",
        "200 MB peak measured, 300 MB predicted, 1.00 GB given: promise kept",
        f"`{'-' * 24}`... (60 characters), `\\n\\n`",
        "trainings/x_merges.txt",
    ):
        assert fact in printed


def test_trainers_are_printed_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    ours = Trial("krill", "0.1.0", 2.0, 10**8, (b"ab",))
    peer = Trial("tokenizers", "0.23", 30.0, 10**9, (b"ab",))
    absent = Trial("rustbpe", fault="not installed", remedy="pip install rustbpe")
    for each in (ours, peer, absent):
        print_trial(each)
    print_comparison(Comparison(Path("a.txt"), 60_000_000, 32000, 2, (ours, peer, absent)))
    printed = capsys.readouterr().out
    assert "not installed: pip install rustbpe" in printed
    table = [" ".join(line.split()) for line in printed.splitlines()]
    assert "tokenizers 0.23 30.0 2.0 1.00 GB 15.00x 10.00x the same merges" in table


def test_merges_are_counted_as_merges() -> None:
    from io import StringIO

    from krill.budget import MemoryMonitor

    stream = StringIO()
    lines = ProgressLines(stream, 10**9, MemoryMonitor(stream))
    lines.begin("merge", 1000)
    lines.advance(1000)
    lines.end("merge")
    assert "merge: 1,000 merges in " in stream.getvalue()
