"""Files, environment, overrides and arguments become one config, and each fault is told with its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from krill.config import KrillConfig, load_config
from krill.errors import ConfigError


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write config.yaml into the working directory and return its name, as a user would type it."""
    monkeypatch.chdir(tmp_path)

    def write_text(text: str | bytes) -> str:
        Path("config.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        return "config.yaml"

    return write_text


def fault_of(source: object, **options: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(source, **{"environ": {}, **options})  # type: ignore[arg-type]
    return caught.value


def test_a_file_is_loaded_with_sizes_in_bytes(write) -> None:
    config = load_config(
        write(
            "memory: 512MB\npreprocess: {sequence_len: 128, shard_size: 2GiB}\ndatasets:\n  - path: a.jsonl\n"
        ),
        environ={},
    )
    assert config.memory == 512_000_000
    assert config.preprocess.sequence_len == 128
    assert config.preprocess.shard_size == 2 * 2**30
    assert config.datasets[0].path == "a.jsonl"
    assert config.notices == []


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "\ufeff# a byte order mark\n", "preprocess:\ndatasets:\n"]
)
def test_an_empty_file_and_empty_sections_mean_the_defaults(write, text: str) -> None:
    assert load_config(write(text), environ={}) == KrillConfig()


def test_later_layers_win_over_earlier_ones(write) -> None:
    path = write("memory: 1GB\nthreads: 1\nseed: 1\npreprocess: {min_chars: 1}\n")
    config = load_config(
        path,
        environ={"KRILL_THREADS": "2", "KRILL_SEED": "2", "KRILL_PREPROCESS__MIN_CHARS": "2", "HOME": "/"},
        overrides=["seed=3", "preprocess.min_chars=3", "preprocess.min_chars=4"],
        memory="4GB",
        threads=None,
    )
    assert (config.memory, config.threads, config.seed) == (4_000_000_000, 2, 3)
    assert config.preprocess.min_chars == 4


def test_the_process_environment_is_read_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KRILL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KRILL_MEMORY", "300MB")
    assert load_config({}).memory == 300_000_000
    assert load_config({}, environ={}).memory == "auto"


def test_a_finished_config_does_not_read_the_environment_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRILL_MEMORY", "300MB")
    finished = load_config({"preprocess_memory_efficient": True}, overrides=["memory=1GB"])
    again = load_config(finished, threads=2)
    assert (again.memory, again.threads) == (1_000_000_000, 2)
    assert again.notices == finished.notices != []
    assert load_config(finished, environ={"KRILL_MEMORY": "2GB"}).memory == 2_000_000_000


def test_entries_of_a_list_are_named_by_index() -> None:
    config = load_config(
        {"datasets": [{"path": "a.jsonl", "split": "test"}]},
        environ={"KRILL_DATASETS__0__TEXT_COLUMN": "body"},
        overrides=["datasets.0.path=*.jsonl", "datasets.1.path=[ab]*.txt", "datasets.1.columns=[url, date]"],
    )
    first, second = config.datasets
    assert (first.path, first.split, first.text_column) == ("*.jsonl", "test", "body")
    assert (second.path, second.columns) == ("[ab]*.txt", ("url", "date"))


def test_a_section_given_at_once_is_merged_and_a_list_given_at_once_replaces() -> None:
    config = load_config(
        {"preprocess": {"min_chars": 5, "min_length": 6}, "datasets": [{"path": "a"}, {"path": "b"}]},
        environ={},
        overrides=["preprocess={min_chars: 7}", "datasets=[{path: c}]"],
        tokenizer={"builtin": "bytes"},
    )
    assert (config.preprocess.min_chars, config.preprocess.min_length) == (7, 6)
    assert [dataset.path for dataset in config.datasets] == ["c"]
    assert config.tokenizer.builtin == "bytes"


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ('"\\n\\n"', "\n\n"),
        ("<|endoftext|>", "<|endoftext|>"),
        ("", None),
        ("null", None),
        ('""', ""),
        ("a: b", "a: b"),
    ],
)
def test_override_values_are_yaml_scalars(text: str, separator: str | None) -> None:
    config = load_config({}, environ={}, overrides=["datasets.0.path=x", f"datasets.0.separator={text}"])
    assert config.datasets[0].separator == separator


def test_paths_stay_as_typed_except_for_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    config = load_config(
        {
            "dataset_prepared_path": "./out/../out",
            "spill_dir": "~/spill",
            "train": {"output_dir": Path("models/a")},
        },
        environ={},
    )
    assert config.preprocess.prepared_path == "./out/../out"
    assert config.spill_dir == "/home/someone/spill"
    assert config.train.output_dir == "models/a"


def test_an_unknown_variable_is_refused_unless_it_is_known_not_to_be_a_key() -> None:
    fault = fault_of({}, environ={"KRILL_PREPROCESS__SEQUENCE_LENGTH": "5"})
    assert fault.message == "unknown key `KRILL_PREPROCESS__SEQUENCE_LENGTH` in the environment"
    assert fault.hint == "did you mean `KRILL_PREPROCESS__SEQUENCE_LEN`?"
    assert load_config({}, environ={"KRILL_NO_PROGRESS": "1", "KRILLED": "x"}) == KrillConfig()


@pytest.mark.parametrize("override", ["preprocess.sequence_len", "=5", ""])
def test_an_override_without_key_or_value_is_refused(override: str) -> None:
    fault = fault_of({}, overrides=[override])
    assert fault.message == f"override `{override}` is not of the form `key=value`"


def test_an_index_beyond_the_next_entry_is_refused() -> None:
    fault = fault_of({"datasets": [{"path": "a"}]}, overrides=["datasets.2.path=b"])
    assert fault.message == "`datasets` has 1 entries, so there is no `datasets.2`"
    assert fault.hint == "the next is 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory: 1GB\nseed: [1\n", "config.yaml:3:1: while parsing a flow sequence, expected ',' or ']'"),
        ("memory: 1GB\nseed: 1\nmemory: 2GB\n", "config.yaml:3:1: the key `memory` appears twice"),
        ("a: 1\n---\nb: 2\n", "config.yaml:2:1: expected a single document in the stream"),
        ("seed: !!python/object/apply:os.getcwd []", "config.yaml:1:7: could not determine a constructor"),
        ("seed: !!bool maybe", "config.yaml:1:7: `maybe` can't be read as `bool`"),
        ('seed: !!int ""', "config.yaml:1:7: `` can't be read as `int`"),
        ("seed: !!timestamp now", "config.yaml:1:7: `now` can't be read as `timestamp`"),
        ("seed: 0x" + "f" * 5000, f"config.yaml:1:7: `0x{'f' * 75}...` can't be read as `int`"),
        ("seed: " + "1:" * 3000 + "1.5", f"config.yaml:1:7: `{'1:' * 38}1...` can't be read as `float`"),
        ("memory: *missing", "config.yaml:1:9: found undefined alias 'missing'"),
        ("memory: \0", "config.yaml is not YAML: unacceptable character #x0000"),
        (b"memory: \xff\xfe", "config `config.yaml` is not UTF-8 text: byte 8 can't be read"),
        ("[" * 5000, "config.yaml is nested too deeply"),
        ("- memory\n", "config.yaml holds a list, not a config"),
        ("memory", "config.yaml holds a str, not a config"),
        ("datasets: &knot [*knot]", "`datasets.0` is `[[...]]`: must be a section of keys (config.yaml:1)"),
        ("datasets: data.jsonl", "`datasets` is `data.jsonl`: must be a list (config.yaml:1)"),
        ("datasets: [data.jsonl]", "`datasets.0` is `data.jsonl`: must be a section of keys (config.yaml:1)"),
        ("seed: 1\npreprocess: 5", "`preprocess` is `5`: must be a section of keys (config.yaml:2)"),
    ],
)
def test_a_file_that_is_no_config_is_told_with_its_place(write, text: str | bytes, message: str) -> None:
    assert fault_of(write(text)).message.startswith(message)


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    assert fault_of(tmp_path / "no.yaml").message == f"config `{tmp_path / 'no.yaml'}` does not exist"
    assert fault_of(tmp_path).message == f"config `{tmp_path}` can't be read: is a directory"
    assert fault_of("a\0b").exit_code == 2


def test_merge_keys_and_dates_load_as_written(write) -> None:
    config = load_config(
        write("datasets:\n  - &base {path: 2024-01-31, split: test}\n  - {<<: *base, path: 2024-99-99}\n"),
        environ={},
    )
    assert [(dataset.path, dataset.split) for dataset in config.datasets] == [
        ("2024-01-31", "test"),
        ("2024-99-99", "test"),
    ]


def test_all_bad_values_are_told_together_with_key_value_rule_and_line(write) -> None:
    path = write("memory: lots\nsequence_len: true\npreprocess:\n  output: paper\ndatasets:\n  - split: 3\n")
    fault = fault_of(path, environ={"KRILL_THREADS": "0"}, overrides=["train.resume=maybe"], disk="-1")
    assert fault.message.splitlines() == [
        "8 values of the config can't be used:",
        "  `memory` is `lots`: must be a size such as `512MB`, `2GiB` or a number of bytes, or `auto` "
        "(config.yaml:1)",
        "  `threads` is `0`: must be a whole number from 1 to 1024, or `auto` "
        "(`KRILL_THREADS` in the environment)",
        "  `disk` is `-1`: must be a size such as `512MB`, `2GiB` or a number of bytes, or `null` "
        "(the arguments)",
        "  `datasets.0.path` is required (config.yaml:6)",
        "  `datasets.0.split` is `3`: must be text; put it in quotes (config.yaml:6)",
        "  `preprocess.output` is `paper`: must be `tokens`, `text` or `both` (config.yaml:4)",
        "  `preprocess.sequence_len` is `true`: must be a whole number from 1 to 2147483647 "
        "(`sequence_len` in config.yaml:2)",
        "  `train.resume` is `maybe`: must be `auto`, `true` or `false` (--set)",
    ]
    assert fault.exit_code == 2


def test_keys_of_a_section_given_at_once_are_told_by_their_own_names() -> None:
    fault = fault_of({}, overrides=["preprocess={sequence_length: 5}"])
    assert fault.message == "unknown key `preprocess.sequence_length` in --set"
    assert fault_of({}, preprocess={"strip": "maybe"}).message.endswith(
        "must be `true` or `false` (the arguments)"
    )


def test_bytes_that_are_not_utf8_are_refused_in_a_printable_message() -> None:
    not_utf8 = os.fsdecode(b"caf\xe9")
    fault = fault_of({}, overrides=[f"datasets.0.path={not_utf8}"])
    assert fault.message == "`datasets.0.path` is `caf\\udce9`: must be text that UTF-8 can hold (--set)"
    assert fault_of({}, overrides=[f"{not_utf8}=1"]).message == "unknown key `caf\\udce9` in --set"
    assert fault_of({not_utf8: 1}).message == "unknown key `caf\\udce9` in the config"
