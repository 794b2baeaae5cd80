"""The command line as people and scripts meet it: help, output, overrides, exit codes, and what it loads."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from itertools import islice

import pytest

import krill as package
import preloaded
from conftest import KRILL
from jobs import Job, check_error, document, json_lines
from krill.cli.commands import app
from krill.cli.overview import COMMANDS, QA, TOKENIZER
from real_text import real_texts

pytest_plugins = ["job_fixtures"]

SOAK = pytest.mark.soak
VERBS = (
    "preprocess",
    "run",
    "estimate",
    "inspect",
    "inspect-dataset",
    "validate",
    "train-tokenizer",
    "export",
)
# What only some commands, or only some installations, should pay for.
HEAVY = {"numpy", "pyarrow", "pydantic", "yaml", "tokenizers", "psutil", "fsspec"}
EXTRAS = {"datasets", "huggingface_hub", "torch", "transformers", "jax", "ray", "datatrove"}


@pytest.fixture
def done(rerun) -> Job:
    """A job whose output is finished."""
    rerun.save()
    return rerun


# Help.


def described(text: str) -> dict[str, str]:
    """Commands and options of a help page, each with what is said of it."""
    rows = re.findall(r"^│ [* ]? *(.*?) {2,}(.*?) *│$", text, re.MULTILINE)
    return {name: what for names, what in rows for name in re.findall(r"--?[\w-]+|^[a-z]+", names)}


def test_help_presents_every_command(krill):
    outcome = krill("--help", env={"COLUMNS": "200"})
    assert (outcome.code, outcome.err) == (0, "")
    assert "inside a memory budget that you state" in outcome.out
    listed = dict(re.findall(r"^  (\S+)(?: \(.*?\))? {2,}(.*)$", outcome.out, re.MULTILINE))
    assert set(app) - {"-h", "-V", "inference", "inspect-dataset"} == listed.keys()
    sentences = {name: app[name].help.strip().partition("\n\n")[0] for name in COMMANDS}
    assert {name: listed[name] for name in COMMANDS} == {
        name: " ".join(sentence.split()) for name, sentence in sentences.items()
    }


@pytest.mark.parametrize("columns", ["20", "60", "500"])
def test_help_keeps_to_the_width_of_the_terminal(krill, columns):
    lines = krill("--help", env={"COLUMNS": columns}).out.splitlines()
    assert max(map(len, lines)) <= max(int(columns) - 1, 60)
    assert krill(env={"COLUMNS": columns}).out.splitlines() == lines


@pytest.mark.parametrize("group", [TOKENIZER, QA])
def test_help_of_a_group_says_what_its_commands_do(krill, group):
    page = described(krill(group, env={"COLUMNS": "200"}).out)
    assert set(app[group]) - {"--help", "-h", "--version", "-V"} == page.keys()
    assert all(re.fullmatch(r"[A-Z].*\.", what) for what in page.values()), page


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_command_explains_every_option_in_a_sentence(krill, verb):
    outcome = krill(verb, "--help", env={"COLUMNS": "200"})
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Usage: krill {verb} " in outcome.out
    page = {name: what for name, what in described(outcome.out).items() if name.startswith("--")}
    arguments = app[verb].assemble_argument_collection()
    assert page.keys() == {name for each in arguments for name in each.names if name.startswith("--")}
    assert {"--memory", "--quiet", "--json"} <= page.keys()
    assert all(re.match(r"[A-Z].* .*[.:]", what) for what in page.values()), page


@pytest.mark.parametrize("command", ["krill", "kr"])
def test_both_names_of_the_command_tell_its_version(command):
    told = subprocess.run([KRILL.with_name(command), "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"{package.__version__}\n"


def test_the_module_is_the_command():
    told = subprocess.run([sys.executable, "-m", "krill", "-V"], capture_output=True, text=True, check=True)
    assert told.stdout == f"{package.__version__}\n"


# What is loaded.


def loaded(code: str) -> set[str]:
    """The top-level modules in memory when a fresh interpreter ends that has run `code`."""
    program = f"""
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
{code}
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(told.stderr)}


def test_importing_krill_loads_next_to_nothing():
    assert loaded("import krill") & (HEAVY | EXTRAS | {"cyclopts", "rich"}) == set()


def test_help_loads_no_room():
    assert (
        loaded("sys.argv = ['krill', '--help']\nfrom krill.cli import main\nmain()") & (HEAVY | EXTRAS)
        == set()
    )


def test_preprocessing_loads_no_extra(tmp_path):
    Job(tmp_path, krill=None).write("input.jsonl", json_lines(map(document, range(20))))
    run = (
        f"import os; os.chdir({str(tmp_path)!r})\nimport krill\n"
        "krill.preprocess({'datasets': [{'path': 'input.jsonl'}], 'tokenizer': {'builtin': 'bytes'},"
        " 'preprocess': {'prepared_path': 'out', 'sequence_len': 64}})"
    )
    assert loaded(run) & (EXTRAS | {"pandas", "cyclopts", "rich"}) == set()


# What is printed.


def test_json_is_one_object_and_nothing_else(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.config["preprocess_memory_efficient"] = True  # gives a notice
    estimate = job.run("estimate", job.save().name, "--json")
    assert estimate.result["input_bytes"] == (job.folder / "input.jsonl").stat().st_size
    preprocess = job.preprocess("--json")
    assert preprocess.result["status"] == "done"
    assert "notice: `preprocess_memory_efficient` changes nothing" in preprocess.err
    assert "Memory monitoring started" in preprocess.err
    assert job.run("inspect", "out", "--json").result["dataset"]["sequence_len"] == 64
    assert job.run("validate", "out", "--json").result["files"] == 1


def test_quiet_prints_nothing(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.config["preprocess_memory_efficient"] = True
    job.save()
    for command in (["estimate", "config.yaml"], ["preprocess", "config.yaml"], ["run", "config.yaml"]):
        outcome = job.run(*command, "--quiet")
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    for command in (["inspect", "out"], ["validate", "out"]):
        outcome = job.run(*command, "-q")
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_an_error_is_told_even_if_quiet_and_never_on_standard_output(job):
    outcome = job.preprocess("--quiet", "--json")
    check_error(outcome, 3, "no such file: `input.jsonl`", hint="give a file")
    assert outcome.out == ""


def test_piped_output_has_the_seeds_memory_lines(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    outcome = job.preprocess()
    size = r"\d+\.\d MB"
    for line in (
        rf"Memory monitoring started\. Initial: {size}",
        rf"Memory before scan: {size} \(peak: {size}\)",
        rf"Memory after pack: {size} \(peak: {size}\)",
        r"Memory Summary:",
        rf"   - Start: {size}",
        rf"   - Peak: {size}",
        rf"   - Final: {size}",
        rf"   - Peak increase: {size}",
    ):
        assert re.search(f"^{line}$", outcome.out, re.MULTILINE), line
    assert "next: krill inspect out" in outcome.out


def test_a_reader_that_leaves_early_is_no_fault(done):
    """As `krill inspect out | true` may have it: nobody reads by the time that it prints."""
    ours, theirs = os.pipe()
    os.close(ours)
    with tempfile.TemporaryFile("w+") as complaints:
        command = ["inspect", "out", "--samples", 10]
        run = preloaded.launch(command, cwd=done.folder, out=theirs, err=complaints.fileno())
        os.close(theirs)
        assert run.wait(60) == 130
        complaints.seek(0)
        assert complaints.read() == ""


def test_a_terminal_shows_progress_against_the_budget(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.save()
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm", "COLUMNS": "150"}
    run = preloaded.launch(["preprocess", "config.yaml"], cwd=job.folder, out=theirs, err=theirs, env=env)
    os.close(theirs)
    shown = ""
    with suppress(OSError), open(ours, encoding="utf-8") as screen:  # reading ends with an error here
        for line in screen:
            shown += line
    assert run.wait(60) == 0, shown
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    for stage in ("scan", "resolve", "encode", "pack"):
        assert re.search(rf"^{stage} .*memory.* of 256 MB", plain.replace("\r", "\n"), re.MULTILINE), plain
    assert "promise kept" in plain


def test_a_narrow_encoding_is_no_fault(job, fresh_krill):
    text = "crustac\u00e9s \u78f7\u867e \U0001f990 " * 20
    job.write("input.jsonl", json_lines([text]))
    job.set(output="both")
    job.preprocess("--quiet")
    env = {"PYTHONIOENCODING": "ascii"}
    shown = fresh_krill("inspect", "out", cwd=job.folder, env=env)
    assert shown.code == 0, shown.err
    assert "crustac\\xe9s" in shown.out
    # As PYTHONIOENCODING would have it from the start.
    narrow = "import sys; sys.stdout.reconfigure(encoding='latin-1'); from krill.cli import main; main()"
    told = preloaded.run(["inspect", "out", "--json"], script=narrow, cwd=job.folder)
    assert told.code == 0, told.err
    assert told.result["text"]["samples"][0]["text"] == text.strip()


def test_names_are_printed_as_they_are_and_never_cut(job):
    name = "a folder [/with] [bold]brackets[/bold] :shrimp: and " + "a long name " * 12
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.set(prepared_path=name.strip())
    for outcome in (job.preprocess(), job.preprocess()):
        assert outcome.code == 0, outcome.err
        assert re.search(rf"^output +{re.escape(name.strip())}$", outcome.out, re.MULTILINE)
        assert f"next: krill inspect '{name.strip()}'\n" in outcome.out
    assert job.run("validate", name.strip()).out.startswith(f"{name.strip()} is whole")


# Overrides.


def test_set_changes_a_key(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    outcome = job.preprocess(
        "--json", "--set", "preprocess.sequence_len=32", "--set", "datasets.0.text_column=text"
    )
    assert outcome.result["dataset"]["sequence_len"] == 32


def test_the_environment_changes_a_key_and_set_wins_over_it(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    env = {"KRILL_PREPROCESS__SEQUENCE_LEN": "16", "KRILL_PREPROCESS__MIN_CHARS": "10"}
    outcome = job.preprocess("--json", "--set", "preprocess.min_chars=20", env=env)
    settings = outcome.result["config"]["preprocess"]
    assert (settings["sequence_len"], settings["min_chars"]) == (16, 20)


def test_memory_and_threads_win_over_the_config(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    budget = job.preprocess("--json", "--memory", "300MB", "--threads", "1").result["budget"]
    assert (budget["limit"], budget["threads"]) == (300_000_000, 1)


# The other commands.


def test_run_does_what_is_missing_and_then_nothing(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.save()
    first = job.run("run", "config.yaml", "--memory", "200MB", "--set", "preprocess.sequence_len=32")
    assert first.code == 0, first.err
    assert job.manifest()["budget"]["limit"] == 200_000_000
    assert job.manifest()["dataset"]["sequence_len"] == 32
    again = job.run("run", "config.yaml", "--set", "preprocess.sequence_len=32")
    assert again.code == 0
    assert "nothing to do: out is finished" in again.out
    anew = job.run("run", "config.yaml", "--overwrite", "--json")
    assert anew.result["status"] == "done"  # one object and nothing else
    assert job.manifest()["dataset"]["sequence_len"] == 64


@pytest.mark.parametrize(
    ("change", "code", "fact"),
    [
        ({"memory": "60MB"}, 4, "the budget is too small"),
        pytest.param({"datasets": [{"path": "absent.jsonl"}]}, 3, "no such file: `absent.jsonl`", marks=SOAK),
        pytest.param(
            {"preprocess": {"prepared_path": "/proc/krill/out"}},
            5,
            "cannot write `/proc/krill/.out.krill`",
            marks=SOAK,
        ),
    ],
)
def test_run_passes_on_the_exit_code_of_its_step(job, change, code, fact):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.config |= change
    job.save()
    outcome = job.run("run", "config.yaml")
    assert outcome.code == code
    assert fact in outcome.err
    assert outcome.err.endswith(f"error: the step `preprocess` ended with exit code {code}\n")


def test_run_finds_a_mistake_in_the_config_itself(job):
    job.set(sequence_lenght=10)
    job.save()
    outcome = job.run("run", "config.yaml")
    check_error(outcome, 2, "unknown key `preprocess.sequence_lenght`", hint="did you mean `sequence_len`?")
    assert "the step" not in outcome.err


def test_the_seeds_inspect_dataset_takes_the_config(done):
    outcome = done.run("inspect-dataset", "config.yaml", "--samples", "1")
    assert outcome.code == 0, outcome.err
    assert "20 read, 20 kept" in outcome.out
    assert len(re.findall(r"^row \d+: 64 tokens, full", outcome.out, re.MULTILINE)) == 1
    assert "This is document" in outcome.out


def test_validate_finds_a_changed_byte(done):
    assert done.run("validate", "out").out.startswith("out is whole: 1 file, ")
    shard = done.output / "data-00000.arrow"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    outcome = done.run("validate", "out")
    check_error(outcome, 3, "data-00000.arrow`", hint="")


@pytest.mark.parametrize("verb", ["inspect", "validate"])
def test_a_folder_that_is_no_output_is_refused(job, verb):
    check_error(job.run(verb, "nowhere"), 3, "`nowhere` does not exist", hint="`krill preprocess` wrote")
    (job.folder / "empty").mkdir()
    check_error(job.run(verb, "empty"), 3, "`empty` is not a finished Krill output", hint="krill-run.json")


def test_a_negative_number_of_samples_is_refused(done):
    check_error(done.run("inspect", "out", "--samples", "-1"), 2, "`-1` for --samples", hint="--help")


def test_estimate_says_what_a_run_will_take_and_reads_nothing(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.save()
    before = job.files()
    outcome = job.run("estimate", "config.yaml")
    assert outcome.code == 0, outcome.err
    for line in ("predicted peak, 256 MB given", "blocks being encoded (capped)", "removed at the end"):
        assert line in outcome.out
    assert job.files() == before


def test_estimates_count_rejected_documents_also_where_hardly_one_is_kept(job):
    """Their bytes were once taken from those of what is kept, of which there may be nothing."""
    texts = [text[:5_000] for text in islice(real_texts(), 300)]
    job.write("input.jsonl", json_lines(["kept " * 3_000, *texts]))
    job.set(rejected=True, min_chars=10_000)
    job.save()
    estimated = job.run("estimate", "config.yaml", "--json").result
    assert job.preprocess().code == 0
    written = sum(path.stat().st_size for path in job.output.glob("rejected-*"))
    assert written <= estimated["output_bytes"] <= 2 * written
