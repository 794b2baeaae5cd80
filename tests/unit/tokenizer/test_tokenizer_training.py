"""Training from end to end: one tokenizer, whatever the budget, the threads, the format, and the stops."""

from __future__ import annotations

import gzip
import json
import os
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

import krill
from conftest import dataset_bytes
from jobs import json_lines
from krill.budget import peak_bytes
from krill.corpus import DatasetSource
from krill.errors import BudgetError, ConfigError, InputError, KrillError, StorageError
from krill.threads.progress import Silent
from krill.tokenizer.files import load_trained
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.training import run_training
from oracles.tokenizer import count_words
from oracles.tokenizer import train as train_slowly
from real_text import real_texts

END = "<|endoftext|>"
TEXTS = [text[:1500] for text in islice(real_texts(), 12)]
VOCAB_SIZE = 330


class Acts(Silent):
    """Does something when a stage has come so far."""

    def __init__(self, action, stage="count", blocks=0):
        self.action = action
        self.stage = stage
        self.left = blocks
        self.now = ""
        self.notes = []

    def begin(self, stage, total):
        self.now = stage
        assert total is None or total >= 0

    def advance(self, done):
        if self.now == self.stage:
            self.left -= 1
            if self.left == -1:
                self.action()

    def note(self, line):
        self.notes.append(line)


def interrupt():
    raise KeyboardInterrupt


def write(folder, name="documents.txt"):
    """The documents in one of the formats."""
    path = folder / name
    plain = END.join(TEXTS).encode()
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"text": TEXTS, "other": [1] * len(TEXTS)}), path)
    elif ".jsonl" in name:
        path.write_bytes(gzip.compress(json_lines(TEXTS)) if name.endswith("gz") else json_lines(TEXTS))
    else:
        path.write_bytes(gzip.compress(plain) if name.endswith("gz") else plain)
    return path


def train(*inputs, **options):
    return krill.tokenizer.train(inputs, **{"vocab_size": VOCAB_SIZE, **options})


def times(folder: Path):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in [folder, *folder.iterdir()]}


@pytest.fixture(scope="module")
def expected():
    """What the readable trainer makes of the documents."""
    return train_slowly(count_words(TEXTS, "gpt2"), TrainOptions(vocab_size=VOCAB_SIZE))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished output, beside its input."""
    folder = tmp_path_factory.mktemp("finished")
    summary = train(write(folder), output=folder / "out")
    assert summary.status == "done"
    return folder


# ---- one result


@pytest.mark.parametrize("memory", ["80MB", "200MB", "1GB"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_neither_budget_nor_threads_change_a_tokenizer(tmp_path, expected, memory, threads):
    assert train(write(tmp_path), memory=memory, threads=threads).trained == expected


@pytest.mark.parametrize(
    "name", ["documents.txt.gz", "documents.jsonl", "documents.jsonl.gz", "documents.parquet", "documents"]
)
def test_documents_in_any_format_give_the_same_tokenizer(tmp_path, expected, name):
    assert train(write(tmp_path, name)).trained == expected


def test_lines_of_plain_text_are_pieces_with_special_tokens_in_them(tmp_path):
    trained = train(write(tmp_path), boundaries="lines").trained
    lines = END.join(TEXTS).replace("\n", "\n\0").split("\0")
    options = TrainOptions(vocab_size=VOCAB_SIZE, boundaries="lines")
    assert trained == train_slowly(count_words(lines, "gpt2"), options)


def test_a_column_of_another_name_is_read(tmp_path):
    pq.write_table(pa.table({"content": ["aab" * 9], "text": ["xyz" * 9]}), tmp_path / "a.parquet")
    trained = train(tmp_path / "a.parquet", text_column="content", vocab_size=258).trained
    assert trained.tokens[-1] == b"aa"


def test_inputs_may_be_one_path_a_glob_a_folder_or_sources(tmp_path, expected):
    path = write(tmp_path)
    for inputs in (str(path), path, [f"{tmp_path}/*.txt"], [tmp_path], [DatasetSource(str(path))]):
        assert krill.tokenizer.train(inputs, vocab_size=VOCAB_SIZE).trained == expected


# ---- what is written


def test_the_output_opens_with_tokenizers_and_transformers(finished, expected):
    from transformers import AutoTokenizer

    folder = finished / "out"
    assert load_trained(folder) == expected
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXTS[0] + END).ids
    fast = AutoTokenizer.from_pretrained(folder)
    assert fast.encode(TEXTS[0] + END) == ids
    assert fast.decode(ids) == TEXTS[0] + END
    assert (fast.eos_token, fast.eos_token_id, ids[-1]) == (END, 0, 0)


def test_the_summary_and_the_manifest_say_the_same(tmp_path):
    path = write(tmp_path)
    summary = train(path, output=tmp_path / "out", memory="300MB", threads=2).to_json()
    manifest = json.loads((tmp_path / "out" / "krill-run.json").read_bytes())
    counts = count_words(TEXTS, "gpt2")
    assert summary["status"] == "done"
    assert summary["output"] == str(tmp_path / "out")
    assert (summary["words"], summary["unique_words"]) == (sum(counts.values()), len(counts))
    assert (summary["vocab_size"], summary["merges"]) == (VOCAB_SIZE, VOCAB_SIZE - 257)
    assert summary["input_bytes"] == path.stat().st_size
    assert [stage["name"] for stage in summary["stages"]] == ["count", "merge"]
    assert 1 < summary["bytes_per_token"] < 5
    assert len(summary["longest_tokens"]) == 8
    assert summary["budget"]["limit"] == 300 * 10**6
    for key in ("words", "unique_words", "vocab_size", "merges", "stages", "bytes_per_token"):
        assert manifest[key] == summary[key]
    assert manifest["config"]["vocab_size"] == VOCAB_SIZE
    assert manifest["inputs"][0]["path"] == str(path)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "krill-run.json",
        "merges.txt",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.json",
    ]


def test_without_an_output_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    path = write(tmp_path)
    assert train(path).output is None
    assert sorted(tmp_path.rglob("*")) == [path, tmp_path / "tmp"]


# ---- again


def test_the_same_command_on_a_finished_run_says_so_and_writes_nothing(finished, expected):
    before = times(finished / "out")
    again = train(finished / "documents.txt", output=finished / "out", memory="500MB", threads=1)
    assert (again.status, again.trained) == ("finished", expected)
    assert again.to_json()["merges"] == VOCAB_SIZE - 257
    assert times(finished / "out") == before
    assert not (finished / ".out.krill").exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"vocab_size": 300},
        {"pattern": "qwen2"},
        {"special_tokens": ("<s>",)},
        {"min_frequency": 2},
        {"max_token_length": 9},
        {"initial_alphabet": "seen"},
        {"limit_alphabet": 99},
        {"tie_break": "greatest"},
        {"boundaries": "lines"},
        {"tiktoken": True},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_changed_option_is_refused_by_name_and_both_values(finished, changed):
    before = times(finished / "out")
    [(name, value)] = changed.items()
    with pytest.raises(ConfigError, match=rf"made differently: {name}(\.0)?: `.*` -> `") as caught:
        train(finished / "documents.txt", output=finished / "out", **changed)
    shown = value[0] if isinstance(value, tuple) else str(value).replace("True", "true")
    assert f"-> `{shown}`" in caught.value.message
    assert "--overwrite" in caught.value.hint
    assert times(finished / "out") == before
    assert not (finished / ".out.krill").exists()


def test_a_changed_input_is_refused_by_name_and_taken_with_overwrite(tmp_path):
    path = write(tmp_path)
    train(path, output=tmp_path / "out")
    path.write_text("Something else altogether.")
    with pytest.raises(ConfigError, match=r"input `.*documents\.txt`"):
        train(path, output=tmp_path / "out")
    summary = train(path, output=tmp_path / "out", overwrite=True)
    assert (summary.status, load_trained(tmp_path / "out")) == ("done", summary.trained)
    assert summary.to_json()["words"] == 4


# ---- interrupted


def test_an_interrupt_before_anything_was_written_down_leaves_nothing(tmp_path):
    path = write(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(path, output=tmp_path / "made" / "out", progress=Acts(interrupt, "count"))
    assert sorted(tmp_path.iterdir()) == [path]


def test_an_interrupt_while_merging_keeps_what_was_counted(tmp_path, expected, finished):
    path = write(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(path, output=tmp_path / "out", progress=Acts(interrupt, "merge"))
    assert not (tmp_path / "out").exists()
    word_counts = tmp_path / ".out.krill" / "stages" / "count" / "word-counts"
    counted = word_counts.stat().st_mtime_ns, word_counts.stat().st_ino
    again = Acts(
        lambda: again.notes.append(str((word_counts.stat().st_mtime_ns, word_counts.stat().st_ino))), "merge"
    )
    assert train(path, output=tmp_path / "out", progress=again).trained == expected
    assert again.notes == ["continuing an earlier run of this command", str(counted)]
    assert dataset_bytes(tmp_path / "out") == dataset_bytes(finished / "out")
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "out"]


def test_an_interrupt_while_a_finished_output_is_replaced_leaves_it_as_it_was(tmp_path):
    path = write(tmp_path)
    train(path, output=tmp_path / "out")
    before = times(tmp_path / "out")
    for stage in ("count", "merge"):
        with pytest.raises(KeyboardInterrupt):
            train(path, output=tmp_path / "out", overwrite=True, progress=Acts(interrupt, stage))
        assert times(tmp_path / "out") == before


def test_a_run_that_was_begun_goes_on_with_another_budget_but_not_with_other_options(tmp_path, expected):
    path = write(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(path, output=tmp_path / "out", progress=Acts(interrupt, "merge"))
    with pytest.raises(ConfigError, match=r"an unfinished run for `.*out` was made differently: vocab_size"):
        train(path, output=tmp_path / "out", vocab_size=300)
    assert train(path, output=tmp_path / "out", memory="90MB", threads=1).trained == expected


# ---- a corpus that changes


def append(path):
    with path.open("ab") as file:
        file.write(b" and more")


def rewrite(path):
    content = path.read_bytes()
    path.write_bytes(b"x" * len(content))


@pytest.mark.parametrize("change", [append, rewrite, Path.unlink, lambda path: os.truncate(path, 10)])
@pytest.mark.parametrize("name", ["documents.txt", "documents.txt.gz", "documents.jsonl"])
def test_an_input_that_changes_while_it_is_read_is_refused_by_name(tmp_path, name, change):
    path = write(tmp_path, name)
    with pytest.raises(InputError, match=name) as caught:
        train(path, output=tmp_path / "out", progress=Acts(lambda: change(path)))
    assert caught.value.exit_code == 3
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / ".out.krill").exists()


def test_after_a_change_the_same_command_begins_anew(tmp_path):
    path = write(tmp_path)
    with pytest.raises(InputError, match="changed while it was read") as caught:
        train(path, output=tmp_path / "out", progress=Acts(lambda: append(path)))
    assert "run the same command" in caught.value.hint
    summary = train(path, output=tmp_path / "out")
    pieces = [*TEXTS[:-1], TEXTS[-1] + " and more"]
    assert summary.to_json()["words"] == sum(count_words(pieces, "gpt2").values())


# ---- what can't be trained


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"vocab_size": 256}, "256 is smaller than its alphabet: 256 bytes and 1 special tokens", "257"),
        ({"vocab_size": 0}, "smaller than its alphabet", "257"),
        ({"vocab_size": 5, "initial_alphabet": "seen"}, "smaller than its alphabet: ", "limit_alphabet"),
        ({"special_tokens": ("<s>", "<e>", "<s>")}, "the special token `<s>` is given twice", "once"),
        ({"special_tokens": ("<s>", "")}, "a special token is empty", "one character"),
        ({"special_tokens": ("\ud800",)}, r"special token '\\ud800' is not Unicode", "UTF-8"),
        ({"min_frequency": -1}, "min_frequency is -1", "0 or more"),
        ({"max_token_length": 0}, "max_token_length is 0", "1 or more"),
        ({"limit_alphabet": -2}, "limit_alphabet is -2", "0 or more"),
        ({"tie_break": "first"}, "tie_break is `first`", "huggingface, greatest"),
        ({"boundaries": "words"}, "boundaries is `words`", "documents, lines"),
        ({"pattern": "gpt3"}, "no pattern is named `gpt3`", "gpt2"),
        ({"pattern": "(a"}, "not a regex", "mend it"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, message, hint):
    path = write(tmp_path)
    with pytest.raises(ConfigError, match=message) as caught:
        train(path, output=tmp_path / "out", **options)
    assert hint in caught.value.hint
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [END, END * 1000, f"{END}{END}"])
def test_a_corpus_of_nothing_but_special_tokens_is_refused_and_forgotten(tmp_path, content):
    (tmp_path / "text.txt").write_text(content)
    with pytest.raises(InputError, match="nothing but special tokens"):
        train(tmp_path / "text.txt", output=tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "text.txt"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.parquet"])
def test_an_empty_corpus_is_refused(tmp_path, name):
    path = tmp_path / name
    if name == "a.parquet":
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    else:
        path.write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    with pytest.raises(InputError, match="empty"):
        train(path, output=tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_corpus_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        train(tmp_path / "absent.txt", output=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_one_letter_is_a_corpus(tmp_path):
    (tmp_path / "text.txt").write_text("a")
    trained = train(tmp_path / "text.txt", output=tmp_path / "out").trained
    assert (len(trained.tokens), trained.merges) == (257, [])
    assert Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json")).encode("ab").ids == [65, 66]


def test_a_vocabulary_that_does_not_fit_the_budget_is_refused_before_reading(tmp_path):
    with pytest.raises(BudgetError, match="the budget is too small") as caught:
        train(write(tmp_path), output=tmp_path / "out", vocab_size=10**9, memory="1GB")
    assert "--vocab-size" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_text_without_a_cut_is_refused_or_takes_more_memory(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"x" * 30_000_000)
    with pytest.raises(BudgetError, match="has no place to cut it") as caught:
        train(tmp_path / "text.txt", output=tmp_path / "out", memory="80MB")
    assert "--memory" in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_an_output_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("data")
    with pytest.raises(StorageError, match="is not a Krill output"):
        train(write(tmp_path), output=tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "precious").read_text() == "data"


def test_a_second_run_on_the_same_folder_is_refused_while_the_first_works(tmp_path, expected):
    path = write(tmp_path)
    errors = []

    def second():
        with pytest.raises(KrillError) as caught:
            train(path, output=tmp_path / "out")
        errors.append(caught.value)

    assert train(path, output=tmp_path / "out", progress=Acts(second)).trained == expected
    assert "another run is writing" in errors[0].message


def test_units_are_written_down_as_often_as_asked(tmp_path, expected):
    path = write(tmp_path)
    summary = run_training(
        [DatasetSource(str(path))],
        TrainOptions(vocab_size=VOCAB_SIZE),
        memory=peak_bytes() + 10**9,  # as a command it counts all that pytest has come to hold
        threads=2,
        output=tmp_path / "out",
        overwrite=False,
        progress=Silent(),
        checkpoint_seconds=0,
    )
    assert summary.trained == expected
    assert summary.to_json()["spilled_bytes"] > 0
