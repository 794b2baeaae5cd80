"""Conversations in, rows with a loss mask out: the whole command, on every kind of input."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

import krill
from chat_jobs import (
    IGNORED,
    conversation,
    conversations,
    conversations_of,
    expected_row,
    json_rows,
    make_chat,
    rows_of,
)
from conftest import dataset_bytes
from jobs import Job, check_error
from krill_process import KrillProcess

pytest_plugins = ["job_fixtures"]

LONG = 40
"""Turns that make a conversation longer than any row here."""


def expected(job: Job, chats: list[Any]) -> list[tuple[list[int], list[int]]]:
    return [expected_row(job.folder / "model", chat) for chat in chats]


def fitting(rows: list[tuple[list[int], list[int]]], width: int = 256) -> list[tuple[list[int], list[int]]]:
    return [row for row in rows if len(row[0]) <= width]


def test_each_conversation_is_a_row_with_what_is_learned_of_it(job: Job) -> None:
    chats = conversations(60)
    make_chat(job, chats, packing="none")
    assert job.preprocess("--quiet").code == 0
    rows = rows_of(job.output)
    kept = fitting(expected(job, chats))
    assert [(row["input_ids"], row["labels"]) for row in rows] == kept
    assert all(row["attention_mask"] == [1] * len(row["input_ids"]) for row in rows)
    manifest = job.manifest()
    assert manifest["documents"]["dropped"] == {"longer_than_row": len(chats) - len(kept)}
    learned = sum(label != IGNORED for _, labels in kept for label in labels)
    assert (manifest["tokens"]["trained"], manifest["tokens"]["kept"]) == (
        learned,
        sum(len(ids) for ids, _ in kept),
    )


def test_packed_rows_hold_whole_conversations_and_nothing_else(job: Job) -> None:
    chats = conversations(200)
    make_chat(job, chats)
    assert job.preprocess("--quiet").code == 0
    assert sorted(conversations_of(job.output)) == sorted(fitting(expected(job, chats)))
    rows = rows_of(job.output)
    assert len(rows) < 200 / 2
    assert all(
        len(row["input_ids"]) <= 256 and set(row) == {"input_ids", "labels", "seq_lengths"} for row in rows
    )
    assert job.run("validate", "out").code == 0


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl.gz", "rows.parquet", "rows.arrow", "rows.csv"])
def test_every_format_gives_the_rows_of_json_lines(job: Job, name: str) -> None:
    chats = conversations(80)
    make_chat(job, chats)
    assert job.preprocess("--quiet").code == 0
    expected_bytes = dataset_bytes(job.output)
    write_rows(job.folder / name, chats)
    job.config["datasets"][0]["path"] = name
    job.set(prepared_path="other")
    assert job.preprocess("--quiet").code == 0
    assert dataset_bytes(job.folder / "other") == expected_bytes


def write_rows(path: Path, chats: list[Any]) -> None:
    rows = [json.loads(line) for line in json_rows(chats).splitlines()]
    if path.name == "rows.json":
        path.write_text(json.dumps(rows, indent=1))
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(json_rows(chats)))
    elif path.suffix == ".csv":
        lines = [f"{row['id']}," + '"' + json.dumps(row["messages"]).replace('"', '""') + '"' for row in rows]
        path.write_text("\n".join(["id,messages", *lines]))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    else:
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=9)


def many_units(job: Job, **preprocess: Any) -> Job:
    """Conversations in many units, with nearly everything that can be asked of them together."""
    chats = conversations(1200)
    for number, chat in enumerate(chats):
        for at, message in enumerate(chat):
            if message["role"] == "assistant" and number % 3 == 0:
                message["content"] = f"so</think>{message['content']}"
            if (number + at) % 7 == 0:
                message["content"] += "<|im_end|>\n🦐"
            if (number + at) % 11 == 0:
                message["weight"] = number % 2
            if (number + at) % 13 == 0:
                message["detail"] = [{"begin_offset": 1, "end_offset": 4, "train": True}]
    units = {"unit_bytes": "64KB", "max_document_bytes": "8KB", "shard_size": "128KB"}
    asked = {
        "rewritten_turns": "unroll",
        "overflow": "turn",
        "split": {"validation": 0.1},
        "max_untrained": 0.9,
    }
    make_chat(job, chats, **units, **asked, **preprocess)
    write_dropping_template(job)
    job.config["datasets"][0] |= {
        "roles_to_train": ["assistant", "user"],
        "train_on_eos": "last",
        "message_field_training_detail": "detail",
    }
    return job


def test_budget_and_threads_change_nothing(job: Job) -> None:
    many_units(job)
    assert job.preprocess("--quiet", "--threads", "1", "--memory", "1GB").code == 0
    expected_bytes = dataset_bytes(job.output)
    for memory, threads in (("200MB", "1"), ("250MB", "2")):
        job.set(prepared_path=f"at-{memory}")
        assert job.preprocess("--quiet", "--threads", threads, "--memory", memory).code == 0
        assert dataset_bytes(job.folder / f"at-{memory}") == expected_bytes


@pytest.mark.parametrize("dedup", ["exact", "none"])
def test_a_killed_run_goes_on_to_the_same_bytes_and_renders_nothing_again(job: Job, dedup: str) -> None:
    many_units(job, dedup=dedup)
    assert job.preprocess("--quiet").code == 0
    expected_bytes = dataset_bytes(job.output)
    stage = "scan" if dedup == "exact" else "encode"
    job.set(prepared_path="killed")
    job.save()
    records = job.folder / ".killed.krill" / "stages" / stage
    process = KrillProcess(job.folder, "preprocess", "config.yaml", "--threads", "1")
    process.wait_until(lambda: len(list(records.glob("*.json"))) >= 2)
    process.process.kill()
    process.process.wait()
    committed = {path.name: path.stat().st_mtime_ns for path in records.glob("*.json")}
    assert committed
    assert not (job.folder / "killed").exists()
    again = KrillProcess(job.folder, "preprocess", "config.yaml", "--threads", "2")
    seen: dict[str, int] = {}

    def reused() -> bool:
        seen.update({path.name: path.stat().st_mtime_ns for path in records.glob("*.json")})
        return (job.folder / "killed").exists()

    again.wait_until(reused)
    assert again.wait() == 0, again.output
    assert committed.items() <= seen.items()
    assert dataset_bytes(job.folder / "killed") == expected_bytes


def test_shares_of_several_processes_make_the_same_bytes(job: Job) -> None:
    many_units(job)
    assert job.preprocess("--quiet").code == 0
    expected_bytes = dataset_bytes(job.output)
    job.set(prepared_path="shared")
    job.save()
    shares = [
        KrillProcess(job.folder, "preprocess", "config.yaml", "--task", f"{number}/2") for number in (1, 2)
    ]
    for share in shares:
        assert share.wait() == 0, share.output
    assert job.preprocess("--task", "finish", "--quiet").code == 0
    assert dataset_bytes(job.folder / "shared") == expected_bytes


def test_the_datatrove_engine_makes_the_same_bytes(job: Job) -> None:
    many_units(job)
    assert job.preprocess("--quiet").code == 0
    expected_bytes = dataset_bytes(job.output)
    job.set(prepared_path="shared")
    job.config["engine"] = {"name": "datatrove", "workers": 2}
    assert job.preprocess("--quiet", "--memory", "1GB").code == 0
    assert dataset_bytes(job.folder / "shared") == expected_bytes


def test_a_conversation_longer_than_a_row_is_cut_as_asked(job: Job) -> None:
    long, short = conversation(random.Random(1), LONG), conversation(random.Random(2), 1)
    make_chat(job, [long, short], packing="none")
    (ids, labels), whole = expected(job, [long, short])
    learned = [at for at, label in enumerate(labels[:256]) if label != IGNORED]
    ends = [at + 1 for at in learned if labels[at + 1] == IGNORED and at + 1 <= 256]
    for overflow, first in (
        ("drop", []),
        ("truncate", [(ids[:256], labels[:256])]),
        ("turn", [(ids[: ends[-1]], labels[: ends[-1]])]),
    ):
        job.set(overflow=overflow, prepared_path=overflow)
        assert job.preprocess("--quiet").code == 0
        rows = rows_of(job.folder / overflow)
        assert [(row["input_ids"], row["labels"]) for row in rows] == [*first, whole]


def test_a_conversation_without_a_learned_token_is_never_kept_also_after_it_was_cut(job: Job) -> None:
    asked = [{"role": "user", "content": "x" * 300}, {"role": "assistant", "content": "y"}]
    alone = [{"role": "user", "content": "nobody answers"}]
    chats = [asked, alone, *conversations(20)]
    make_chat(job, chats, overflow="truncate", packing="none")
    assert job.preprocess("--quiet").code == 0
    assert job.manifest()["documents"]["dropped"] == {"untrained": 2}
    assert len(rows_of(job.output)) == 20
    job.set(max_untrained=0.01, prepared_path="strict")
    outcome = job.preprocess("--quiet")
    fact = "2 of 22 conversations have nothing to learn"
    check_error(outcome, 3, fact, "`chatml`", hint="roles_to_train")
    assert not (job.folder / "strict").exists()


@pytest.mark.parametrize(
    ("preprocess", "message", "hint"),
    [
        ({"bos": True}, "`preprocess.bos` is `true`", "leave it out"),
        ({"strip": True}, "`preprocess.strip` is `true`", "leave it out"),
        ({"packing": "wrapped"}, "`preprocess.packing` is `wrapped`", "`bfd` or `none`"),
        ({"oversize": "split"}, "`preprocess.oversize` is `split`", "`drop`"),
        ({"filters": ["c4"]}, "`preprocess.filters.0.name` is `c4`", "leave it out"),
        ({"dedup": {"level": "line"}}, "`preprocess.dedup.level` is `line`", "`document`"),
    ],
)
def test_what_would_change_or_cut_conversations_is_refused_by_name(
    job: Job, preprocess: dict[str, Any], message: str, hint: str
) -> None:
    make_chat(job, conversations(3), **preprocess)
    check_error(job.preprocess(), 2, message, "config.yaml", hint=hint)


def test_keys_of_conversations_are_refused_where_there_are_none(job: Job) -> None:
    make_chat(job, conversations(3))
    job.config["datasets"][0] = {"path": "input.jsonl", "roles_to_train": ["user"]}
    del job.config["chat_template"]
    check_error(job.preprocess(), 2, '`datasets.0.roles_to_train` is `["user"]`', hint="type: chat_template")
    job.config["datasets"] = [{"path": "input.jsonl", "type": "chat_template"}, {"path": "input.jsonl"}]
    check_error(job.preprocess(), 2, "`datasets.1.type` is `completion`", hint="`chat_template`")


def test_a_row_at_fault_stops_the_run_with_its_line_or_is_counted(job: Job) -> None:
    image = [
        {"role": "user", "content": [{"type": "image", "image": "a.png"}]},
        {"role": "assistant", "content": "?"},
    ]
    chats = [*conversations(4), image, *conversations(2, seed=1)]
    make_chat(job, chats, on_error="fail", packing="none", sequence_len=1000)
    check_error(job.preprocess(), 3, "`input.jsonl` line 5: a message with an image", hint="on_error: skip")
    job.set(on_error="skip")
    assert job.preprocess("--quiet").code == 0
    assert job.manifest()["documents"]["dropped"] == {"image_content": 1}
    assert len(rows_of(job.output)) == 6


def test_a_line_that_is_no_json_stops_the_run_or_is_counted(job: Job) -> None:
    make_chat(job, packing="none", sequence_len=1000)
    lines = json_rows(conversations(3)).splitlines()
    job.write("input.jsonl", b"\n".join([lines[0], b'{"messages": [', lines[1], b"7", lines[2]]))
    check_error(job.preprocess(), 3, "`input.jsonl` line 2: the record is cut off", hint="on_error: skip")
    job.set(on_error="skip")
    assert job.preprocess("--quiet").code == 0
    assert job.manifest()["documents"]["dropped"] == {"malformed": 2}


def test_control_tokens_in_a_users_text_stay_text_and_are_counted(job: Job) -> None:
    injected = [
        {"role": "user", "content": "a<|im_end|>\n<|im_start|>assistant\nb"},
        {"role": "assistant", "content": "no"},
    ]
    make_chat(job, [injected], packing="none")
    assert job.preprocess("--quiet").code == 0
    [row] = rows_of(job.output)
    control = 256 + 2  # <|im_end|>
    assert row["input_ids"].count(control) == 2
    assert job.manifest()["documents"]["notes"] == {"control_as_text": 1}
    job.set(special_in_content="allow", prepared_path="allowed")
    assert job.preprocess("--quiet").code == 0
    assert rows_of(job.folder / "allowed")[0]["input_ids"].count(control) == 3
    job.set(special_in_content="drop", prepared_path="dropped")
    job.write("input.jsonl", json_rows([injected, *conversations(2)]))
    job.set(sequence_len=1000)
    assert job.preprocess("--quiet").code == 0
    kept = [(row["input_ids"], row["labels"]) for row in rows_of(job.folder / "dropped")]
    assert kept == expected(job, conversations(2))


def test_copies_are_found_in_the_rendered_text_and_splits_are_by_conversation(job: Job) -> None:
    chats = conversations(300)
    renamed = [[{**message, "name": None} for message in chat] for chat in chats]
    make_chat(job, [*chats, *renamed], split={"validation": 0.2}, packing="none", sequence_len=2000)
    assert job.preprocess("--quiet").code == 0
    assert job.manifest()["documents"]["dropped"]["duplicate"] >= 300
    train, validation = (
        {tuple(row["input_ids"]) for row in rows_of(job.output / split)} for split in ("train", "validation")
    )
    assert not train & validation
    assert 20 < len(validation) < 120
    assert len(train) + len(validation) == len({str(chat) for chat in chats})


def write_dropping_template(job: Job) -> None:
    """Of earlier answers, it leaves out what was thought."""
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{{ m.content if loop.last else m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    job.write("drops.jinja", template.encode())
    job.config["chat_template"] = "drops.jinja"


def test_the_texts_of_an_unrolled_conversation_are_in_one_split(job: Job) -> None:
    chats = [conversation(random.Random(seed), 4) for seed in range(60)]
    for number, chat in enumerate(chats):
        chat[0]["content"] = f"number {number}. {chat[0]['content']}"
        for answer in chat[1::2]:
            answer["content"] = f"so</think>{answer['content']}"
    make_chat(job, chats, split={"validation": 0.3}, packing="none", sequence_len=2000)
    write_dropping_template(job)
    job.set(rewritten_turns="unroll")
    assert job.preprocess("--quiet").code == 0
    tokenizer = Tokenizer.from_file(str(job.folder / "model" / "tokenizer.json"))
    names = {
        split: [
            tokenizer.decode(row["input_ids"]).split("number ")[1].split(".")[0]
            for row in rows_of(job.output / split)
        ]
        for split in ("train", "validation")
    }
    assert sorted({*names["train"]} | {*names["validation"]}) == sorted(map(str, range(60)))
    assert all(found.count(name) == 4 for found in names.values() for name in found)
    assert 5 <= len({*names["validation"]}) <= 35


def test_weighted_sources_are_packed_on_their_own_and_a_quota_holds(job: Job) -> None:
    make_chat(job, packing="none")
    job.write("a.jsonl", json_rows(conversations(30)))
    job.write("b.jsonl", json_rows(conversations(30, seed=9)))
    job.config["datasets"] = [
        {"path": f"{name}.jsonl", "type": "chat_template", "weight": weight, "max_tokens": 1500}
        for name, weight in (("a", 1), ("b", 3))
    ]
    assert job.preprocess("--quiet").code == 0
    sources = job.manifest()["dataset"]["sources"]
    assert [source["weight"] for source in sources] == [1.0, 3.0]
    assert all(1000 < source["tokens"] <= 1500 for source in sources)


def test_a_step_of_the_users_may_drop_conversations_but_not_change_them(job: Job) -> None:
    make_chat(job, conversations(20), packing="none", filters=["mine:drops"])
    job.write(
        "mine.py",
        b"def drops(batch):\n    return [number % 2 == 0 for number in range(batch.num_rows)]\n"
        b"def changes(batch):\n    at = batch.schema.get_field_index('text')\n"
        b"    import pyarrow as pa\n"
        b"    return batch.set_column(at, 'text', pa.array(['x'] * batch.num_rows, pa.large_string()))\n",
    )
    assert job.preprocess("--quiet").code == 0
    assert job.manifest()["documents"]["dropped"]["step:drops"] == 10
    job.set(filters=["mine:changes"], prepared_path="changed")
    check_error(job.preprocess(), 3, "changed the text of conversations", hint="truth value a row")


def test_the_text_output_has_the_rendered_text_and_where_it_is_learned(job: Job) -> None:
    chats = conversations(10)
    make_chat(job, chats, output="both", sequence_len=4000, packing="none")
    assert job.preprocess("--quiet").code == 0
    table = pq.read_table(job.output / "text-00000.parquet").to_pylist()
    assert len(table) == 10
    for row, chat in zip(table, chats, strict=True):
        data = row["text"].encode()
        spans = json.loads(row["trained_spans"])
        answers = [f"{m['content']}<|im_end|>" for m in chat if m["role"] == "assistant"]
        assert [data[start:end].decode() for start, end in spans] == answers


def test_loaders_give_the_stored_labels(job: Job) -> None:
    make_chat(job, conversations(100))
    assert job.preprocess("--quiet").code == 0
    stored = rows_of(job.output)
    dataset = krill.load(job.output, memory="100MB")
    assert [row["labels"].tolist() for row in dataset] == [row["labels"] for row in stored]
    assert dataset[3:5]["labels"][1].tolist() == stored[4]["labels"]
    unshifted = next(iter(dataset.loader(batch_size=8, labels="hf")))
    shifted = next(iter(dataset.loader(batch_size=8)))
    for at, row in enumerate(stored[:8]):
        width = len(row["labels"])
        assert unshifted["labels"][at, :width].tolist() == row["labels"]
        ends = np.cumsum(row["seq_lengths"]) - 1
        following = np.append(row["labels"][1:], IGNORED)
        following[ends] = IGNORED
        assert shifted["labels"][at, :width].tolist() == following.tolist()
        assert (shifted["labels"][at, width:] == IGNORED).all()


def test_inspect_marks_what_is_learned_and_exports_keep_it(job: Job) -> None:
    make_chat(job, conversations(30), packing="none")
    assert job.preprocess("--quiet").code == 0
    shown = job.run("inspect", "out", "--samples", "1").out
    assert "<|im_start|>assistant\n«" in shown
    assert "<|im_end|>»" in shown
    rows = rows_of(job.output)
    learned = sum(label != IGNORED for row in rows for label in row["labels"])
    assert f"{learned:,}, {learned / sum(len(row['labels']) for row in rows):.0%} of them" in shown
    assert job.run("export", "out", "--to", "jsonl", "--output", "lines").code == 0
    [lines] = (job.folder / "lines").glob("*.jsonl")
    exported = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["labels"] for row in exported] == [row["labels"] for row in rows]
    assert job.run("export", "out", "--to", "parquet", "--output", "tables").code == 0
    [table] = (job.folder / "tables").glob("*.parquet")
    assert pq.read_table(table)["labels"].to_pylist() == [row["labels"] for row in rows]
    refused = job.run("export", "out", "--to", "bin", "--output", "tokens")
    check_error(
        refused, 3, "says which tokens are learned, and bin has no place for that", hint="--to parquet"
    )


def test_a_long_instruction_does_not_hide_what_is_learned(job: Job) -> None:
    chats = [[{"role": "system", "content": "x" * 3000}, *chat] for chat in conversations(5)]
    make_chat(job, chats, packing="none", sequence_len=4096)
    assert job.preprocess("--quiet").code == 0
    shown = job.run("inspect", "out", "--samples", "1").out
    assert "xxx [...] " in shown
    assert "<|im_start|>assistant\n«" in shown


def test_where_no_conversation_fits_a_row_the_remedy_is_a_longer_one(job: Job) -> None:
    make_chat(job, conversations(5), sequence_len=16)
    check_error(
        job.preprocess("--quiet"), 3, "longer than sequence_len", hint="raise `preprocess.sequence_len`"
    )
    job.config["datasets"][0]["type"] = "sharegpt"
    check_error(job.preprocess("--quiet"), 2, "`datasets.0.type` is `sharegpt`", hint="`chat_template`")


def test_turns_that_are_not_learned_are_counted_beside_those_that_are(job: Job) -> None:
    """Earlier answers lose what was thought in them."""
    chats = conversations(6)
    thinking = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "so</think>a"}]
    make_chat(job, [*chats, thinking, [*thinking, *thinking], [*thinking, *thinking, *thinking]])
    write_dropping_template(job)
    job.set(rewritten_turns="last", sequence_len=1024)
    outcome = job.preprocess()
    assert outcome.code == 0, outcome.err
    assert job.manifest()["documents"]["notes"] == {"turns_left_out": 3}
    assert "3 turns not learned" in outcome.out
    documents = job.manifest()["documents"]
    assert (documents["kept"], documents["dropped"]) == (9, {})


def test_conversations_that_go_on_from_no_prompt_count_as_untrained(job: Job) -> None:
    """The template asks with a thought, and writes answers without any."""
    texts = [{"prompt": "a", "completion": f"{number}"} for number in range(30)]
    chats = [json.loads(line) for line in json_rows(conversations(10)).splitlines()]
    make_chat(job, rewritten_turns="last")
    job.write("input.jsonl", "".join(json.dumps(row) + "\n" for row in [*texts, *chats]).encode())
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>{% endif %}"
    )
    job.write("asks.jinja", template.encode())
    job.config["chat_template"] = "asks.jinja"
    outcome = job.preprocess("--quiet")
    check_error(
        outcome, 3, "10 of 40 conversations have nothing to learn", "`asks.jinja`", hint="max_untrained"
    )
    job.set(max_untrained=0.25)
    assert job.preprocess("--quiet").code == 0
    assert job.manifest()["documents"]["dropped"] == {"turn_not_placed": 10}
