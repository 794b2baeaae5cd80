"""Tokenizers from the command line: train, encode, decode, compare, and a run that trains its own."""

from __future__ import annotations

import json
import re
from itertools import islice

import numpy as np
import pytest
from tokenizers import Tokenizer

import preloaded
from jobs import check_error, json_lines
from krill.tokenizer import MemoryEfficientBPE
from real_text import real_texts

pytest_plugins = ["job_fixtures"]

TEXTS = [text[:20_000] for text in islice(real_texts(), 60)]
VOCAB_SIZE = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Documents as JSON lines and as plain text, and a tokenizer that was trained on them."""
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "documents.jsonl").write_bytes(json_lines(TEXTS))
    (folder / "documents.txt").write_text("\n<|endoftext|>\n".join(TEXTS), encoding="utf-8")
    train(folder, "--input", "documents.jsonl", "--output", "trained")
    return folder


def train(folder, *arguments):
    """`krill tokenizer train` in a folder; returns what it says of itself."""
    command = ["tokenizer", "train", "--vocab-size", VOCAB_SIZE, "--json", "--quiet", *arguments]
    done = preloaded.run(command, cwd=folder)
    assert done.code == 0, done.err
    return done.result


def piped(folder, text, *arguments):
    """`krill tokenizer` with something on its standard input; returns its standard output."""
    done = preloaded.run(["tokenizer", *arguments], cwd=folder, given=text)
    assert done.code == 0, done.err
    return done.out


def reference(folder):
    return Tokenizer.from_file(str(folder / "trained" / "tokenizer.json"))


# Help.


@pytest.mark.parametrize(
    "verb", ["tokenizer train", "tokenizer encode", "tokenizer compare", "train-tokenizer"]
)
def test_help_explains_every_option_in_a_sentence(krill, verb):
    outcome = krill(*verb.split(), "--help", env={"COLUMNS": "240"})
    assert (outcome.code, outcome.err) == (0, "")
    rows = re.findall(r"^│ [* ]? *(--.*?) {2,}(\S.*?) *│$", outcome.out, re.MULTILINE)
    page = {name: what for names, what in rows for name in names.split() if name.startswith("--")}
    assert {"--memory", "--threads", "--json"} <= page.keys()
    assert all(re.match(r"[A-Z].* .*[.:]", what) for what in page.values()), page


# Train.


def test_a_trained_tokenizer_tells_of_itself_and_opens_elsewhere(folder):
    facts = json.loads((folder / "trained" / "krill-run.json").read_bytes())
    assert facts["vocab_size"] == VOCAB_SIZE
    assert facts["merges"] == VOCAB_SIZE - 257
    assert [stage["name"] for stage in facts["stages"]] == ["count", "merge"]
    assert 2 < facts["bytes_per_token"] < 6
    assert 0 < facts["budget"]["measured_peak"] <= facts["budget"]["limit"]
    tokenizer = reference(folder)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE
    assert tokenizer.decode(tokenizer.encode(TEXTS[0]).ids) == TEXTS[0]


def test_the_same_command_again_does_nothing_and_others_are_refused(folder, krill):
    again = train(folder, "--input", "documents.jsonl", "--output", "trained")
    assert (again["status"], again["vocab_size"]) == ("finished", VOCAB_SIZE)
    other = ["--input", "documents.jsonl", "--output", "trained", "--vocab-size", "900"]
    outcome = krill("tokenizer", "train", *other, cwd=folder)
    check_error(outcome, 2, "vocab_size", hint="--overwrite")


def test_a_tokenizer_does_not_depend_on_threads_or_budget(folder):
    options = ["--input", "documents.jsonl", "--threads", "2", "--memory", "128MB", "--output", "again"]
    train(folder, *options)
    first, second = (folder / name / "tokenizer.json" for name in ("trained", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_the_summary_names_what_matters(folder, krill):
    outcome = krill(
        "tokenizer",
        "train",
        "--input",
        "documents.txt",
        "--vocab-size",
        "500",
        "--output",
        "shown",
        cwd=folder,
    )
    assert outcome.code == 0, outcome.err
    assert "500 tokens, 243 merges" in outcome.out
    assert "bytes per token" in outcome.out
    assert "promise kept" in outcome.out
    assert "merge: 243 merges in" in outcome.out


def test_a_prefix_writes_the_files_of_the_course(folder):
    tokens = ["<|endoftext|>", "<|startoftext|>"]
    facts = train(folder, "--input", "documents.txt", "--special-tokens", *tokens, "--output-prefix", "model")
    assert facts["files"] == ["trainings/model_vocabulary.json", "trainings/model_merges.txt"]
    tokenizer = MemoryEfficientBPE()
    tokenizer.load(folder / "trainings" / "model")
    assert [tokenizer.vocabulary[at] for at in range(2)] == [token.encode() for token in tokens]
    assert [tokenizer.vocabulary[2 + byte] for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    assert len(tokenizer.vocabulary) == VOCAB_SIZE
    config = json.loads((folder / "trainings" / "model" / "krill-run.json").read_bytes())["config"]
    assert config["tie_break"] == "greatest"


def test_a_hint_about_the_output_names_the_flag_that_was_typed(krill, folder):
    given = ["tokenizer", "train", "--input", "documents.txt", "--vocab-size", "300", "--quiet"]
    (folder / "trainings" / "mine").mkdir(parents=True, exist_ok=True)
    (folder / "trainings" / "mine" / "notes").write_text("my own")
    by_prefix = krill(*given, "--output-prefix", "mine", cwd=folder)
    by_folder = krill(*given, "--output", "trainings/mine", cwd=folder)
    assert (by_prefix.code, by_folder.code) == (5, 5)
    assert "choose another `--output-prefix`" in by_prefix.err
    assert "choose another `--output`" in by_folder.err


def test_a_chat_preset_gives_a_chat_template(folder):
    train(folder, "--input", "documents.txt", "--preset", "chat", "--tiktoken", "--output", "chat")
    config = json.loads((folder / "chat" / "tokenizer_config.json").read_bytes())
    assert "<|im_start|>" in config["chat_template"]
    assert (folder / "chat" / "tokenizer.tiktoken").is_file()


def test_faults_of_a_training_are_told_with_a_remedy(folder, krill):
    def run(*arguments):
        return krill("tokenizer", "train", "--input", "documents.txt", *arguments, cwd=folder)

    check_error(run(), 2, "no place to go", hint="--output artifacts/tokenizer")
    check_error(run("--output", "x", "--vocab-size", "100"), 2, "smaller than its alphabet", hint="257")
    check_error(run("--output", "x", "--memory", "20MB"), 4, "the budget is too small", hint="--memory")
    check_error(run("--output", "x", "--special-tokens", "a", "a"), 2, "given twice", hint="once")
    missing = krill("tokenizer", "train", "--input", "absent.txt", "--output", "x", cwd=folder)
    check_error(missing, 3, "no such file: `absent.txt`", hint="give a file")
    assert not (folder / "x").exists()


# Encode and decode.


def test_texts_become_lines_of_ids_and_back(folder, krill):
    texts = ["krill and whales", "  two  spaces<|endoftext|>"]
    outcome = krill("tokenizer", "encode", "--tokenizer", "trained", *texts, cwd=folder)
    lines = outcome.out.splitlines()
    assert [list(map(int, line.split())) for line in lines] == [
        reference(folder).encode(text).ids for text in texts
    ]
    assert piped(folder, "\n".join(texts), "encode", "--tokenizer", "trained") == outcome.out
    assert piped(folder, outcome.out, "decode", "--tokenizer", "trained").splitlines() == texts
    one = krill("tokenizer", "decode", "--tokenizer", "trained", *lines[1].split(), cwd=folder)
    assert one.out == texts[1] + "\n"
    skipped = ("--skip-special-tokens", "--tokenizer", "trained/tokenizer.json")
    assert (
        krill("tokenizer", "decode", *skipped, lines[1].replace(" ", ","), cwd=folder).out
        == "  two  spaces\n"
    )


@pytest.mark.parametrize("name", ["ids.bin", "ids.npy"])
def test_files_become_one_file_of_tokens_and_back(folder, krill, name):
    arguments = ["--tokenizer", "trained", "--input", "documents.jsonl", "--output", name, "--threads", "2"]
    outcome = krill("tokenizer", "encode", *arguments, "--json", cwd=folder)
    assert outcome.code == 0, outcome.err
    ids = np.load(folder / name) if name.endswith(".npy") else np.fromfile(folder / name, "<u2")
    tokenizer = reference(folder)
    expected = [token for text in TEXTS for token in [*tokenizer.encode(text).ids, 0]]
    assert ids.tolist() == expected
    facts = outcome.result
    assert (facts["tokens"], facts["documents"], facts["token_dtype"]) == (
        len(expected),
        len(TEXTS),
        "uint16",
    )
    assert facts["input_bytes"] == sum(len(text.encode()) for text in TEXTS)
    assert facts["budget"]["measured_peak"] <= facts["budget"]["limit"]
    back = piped(folder, "", "decode", "--tokenizer", "trained", "--input", name)
    assert back == "".join(f"{text}<|endoftext|>" for text in TEXTS)


def test_documents_of_files_become_lines_too(folder, krill):
    outcome = krill("tokenizer", "encode", "--tokenizer", "trained", "--input", "documents.jsonl", cwd=folder)
    tokenizer = reference(folder)
    assert [list(map(int, line.split())) for line in outcome.out.splitlines()] == [
        tokenizer.encode(text).ids for text in TEXTS
    ]


def test_encoding_tells_what_it_made_and_never_overwrites_unasked(folder, krill):
    arguments = ["--tokenizer", "trained", "--input", "documents.txt", "--output", "told.bin"]
    outcome = krill("tokenizer", "encode", *arguments, cwd=folder)
    for fact in ("little-endian uint16", "bytes per token", "found in the cache", "promise kept"):
        assert fact in outcome.out
    again = krill("tokenizer", "encode", *arguments, cwd=folder)
    check_error(again, 5, "`told.bin` exists", hint="--overwrite")
    assert krill("tokenizer", "encode", *arguments, "--overwrite", cwd=folder).code == 0


def test_faults_of_encoding_and_decoding_are_told_with_a_remedy(folder, krill):
    (folder / "odd.bin").write_bytes(b"123")
    (folder / "broken.json").write_text("{}")
    tokenizer = ("--tokenizer", "trained")
    absent = krill("tokenizer", "encode", "--tokenizer", "absent", "text", cwd=folder)
    check_error(absent, 3, "absent", hint="tokenizer.json")
    broken = krill("tokenizer", "encode", "--tokenizer", "broken.json", "text", cwd=folder)
    check_error(broken, 3, "broken.json", hint="tokenizer.json")
    check_error(
        krill("tokenizer", "decode", *tokenizer, "x", cwd=folder), 3, "`x` is not a token id", hint="0"
    )
    too_large = krill("tokenizer", "decode", *tokenizer, str(VOCAB_SIZE), cwd=folder)
    check_error(too_large, 3, "1000", hint="")
    small = krill("tokenizer", "encode", *tokenizer, "--memory", "40MB", "text", cwd=folder)
    check_error(small, 4, "the budget is too small", hint="--memory")
    odd = krill("tokenizer", "decode", *tokenizer, "--input", "odd.bin", cwd=folder)
    check_error(odd, 3, "no whole number of uint16 tokens", hint=".npy")


# Compare.


def test_trainers_are_compared_in_their_own_processes(folder, krill):
    arguments = ["--input", "documents.txt", "--vocab-size", "600", "--processes", "2", "--memory", "200MB"]
    outcome = krill(
        "tokenizer",
        "compare",
        *arguments,
        *("--peers", "tokenizers", "rustbpe", "--json", "--output", "trainers.html"),
        cwd=folder,
    )
    assert outcome.code == 0, outcome.err
    ours, peer, absent = outcome.result["trainers"]
    assert (ours["name"], ours["vocabulary"]) == ("krill", "ours")
    assert ours["peak"] <= 200_000_000
    assert (peer["name"], peer["vocabulary"]) == ("tokenizers", "the same merges")
    assert peer["times_our_seconds"] == pytest.approx(peer["seconds"] / ours["seconds"], rel=0.01)
    assert absent["name"] == "rustbpe"
    page = (folder / "trainers.html").read_text()
    for trial in (ours, peer):
        assert f"<td>{trial['name']} {trial['version']}</td>" in page
        assert f'data-value="{trial["peak"]}"' in page
    assert "<td>the same merges</td>" in page and "<td>rustbpe</td>" in page
    assert len(re.findall(r"<td class=\"bar\"", page)) == 4


def test_encoders_are_compared_in_their_own_processes(folder, krill):
    arguments = ["--input", "documents.txt", "--encode", "trained", "--threads", "2", "--memory", "200MB"]
    command = ["tokenizer", "compare", *arguments, "--peers", "tokenizers", "tiktoken", "gigatoken"]
    outcome = krill(*command, "--json", cwd=folder)
    assert outcome.code == 0, outcome.err
    ours, *peers, _ = outcome.result["encoders"]
    assert ours["peak"] <= 200_000_000
    for peer in peers:
        assert (peer["tokens"], peer["differing_documents"]) == (ours["tokens"], 0)
    table = krill(*command, cwd=folder).out.splitlines()
    assert table[-4].split() == ["encoder", "load", "MB/s", "tokens", "peak", "ids"]
    assert [(line.split()[0], line.split()[-1]) for line in table[-3:]] == [
        ("krill", "ours"),
        ("tokenizers", "equal"),
        ("tiktoken", "equal"),
    ]
    assert krill(*command, "--quiet", "--output", "encoders.html", cwd=folder).out == ""
    page = (folder / "encoders.html").read_text()
    assert f'<td class="number" data-value="{ours["tokens"]}">{ours["tokens"]:,}</td>' in page
    refused = krill(*command, "--output", "documents.txt", cwd=folder)
    check_error(refused, 5, "is not a report", hint="choose another --output")


def test_a_comparison_whose_own_side_fails_says_why(folder, krill):
    arguments = [
        "--input",
        "documents.txt",
        "--vocab-size",
        "600",
        "--memory",
        "20MB",
        "--peers",
        "tokenizers",
    ]
    check_error(
        krill("tokenizer", "compare", *arguments, cwd=folder), 4, "the budget is too small", hint="--memory"
    )


# A run that trains its own.


def test_run_trains_the_tokenizer_first_and_preprocesses_with_it(job):
    job.write("input.jsonl", json_lines(TEXTS))
    job.config["tokenizer"] = {"path": "trained", "vocab_size": VOCAB_SIZE}
    job.save()
    outcome = job.run("run", "config.yaml", "--json", "--quiet")
    assert outcome.code == 0, outcome.err
    result = outcome.result
    assert (result["status"], result["tokenizer"]["vocab_size"]) == ("done", VOCAB_SIZE)
    assert [(name, step["status"]) for name, step in result["steps"].items()] == [("train-tokenizer", "done")]
    again = job.run("run", "config.yaml", "--json", "--quiet").result
    assert (again["status"], again["steps"]["train-tokenizer"]["status"]) == ("finished", "finished")
    shown = job.run("run", "config.yaml").out.splitlines()
    assert shown[-1] == "all steps in one page: krill report out trained"


def test_a_config_is_trained_alone_too(job):
    job.write("input.jsonl", json_lines(TEXTS))
    job.config["tokenizer"] = {
        "path": "trained/tokenizer.json",
        "vocab_size": VOCAB_SIZE,
        "pattern": "cl100k",
    }
    job.save()
    outcome = job.run("train-tokenizer", "config.yaml", "--set", "tokenizer.vocab_size=700")
    assert outcome.code == 0, outcome.err
    assert "700 tokens" in outcome.out
    saved = json.loads((job.folder / "trained" / "tokenizer.json").read_bytes())
    assert len(saved["model"]["vocab"]) == 700
    job.config["tokenizer"] = {"builtin": "bytes"}
    job.save()
    refused = job.run("train-tokenizer", "config.yaml")
    check_error(refused, 2, "needs no training", hint="tokenizer.path")
