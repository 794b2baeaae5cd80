"""Files that Krill did not write are never lost: not those that come to an output's place while a run works,
and not those in an output that is overwritten."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import dataset_bytes
from jobs import Job, check_error, document, json_lines
from krill.storage.run import PUT_INTO_PLACE
from krill_process import KrillProcess
from questions import story_file, tokenizer_of
from real_text import grow_jsonl

pytest_plugins = ["job_fixtures"]

PRECIOUS = "years of work\n"


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """Inputs of all commands, large enough that there is a middle to be stopped in."""
    folder = tmp_path_factory.mktemp("sources")
    grow_jsonl(folder / "input.jsonl", 4_000_000)
    story_file(folder / "questions.json", contexts=60, words=1000)
    tokenizer_of("byte_bpe").save_pretrained(folder / "tokenizer")
    job = Job(folder, krill=None)
    job.set(prepared_path="prepared", sequence_len=1024, output="both", shard_size="1MB")
    job.save()
    running = KrillProcess(folder, "preprocess", "config.yaml", "--quiet")
    assert running.wait() == 0, running.output
    return folder


COMMANDS = {
    "preprocess": ("preprocess", "config.yaml", "--set", "preprocess.prepared_path=out"),
    "tokenizer": ("tokenizer", "train", "--input", "input.jsonl", "--output", "out", "--vocab-size", 2000),
    "export": ("export", "prepared", "--to", "jsonl", "--output", "out"),
    "qa": ("qa", "prepare", "questions.json", "--tokenizer", "tokenizer", "--output", "out"),
}


@pytest.fixture(params=COMMANDS)
def command(request, sources, tmp_path) -> tuple[Path, tuple[object, ...]]:
    """A folder with all inputs, and a command that makes `out` there."""
    for path in sources.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path, COMMANDS[request.param]


def interfere(folder: Path, arguments: tuple[object, ...], deed: Callable[[], object]) -> KrillProcess:
    """Run the command, and do something while it works: it is stopped meanwhile."""
    running = KrillProcess(folder, *arguments)
    running.wait_until((folder / ".out.krill" / "run.json").exists)
    running.process.send_signal(signal.SIGSTOP)
    assert running.process.poll() is None, running.output
    assert not (folder / ".out.krill" / "dataset" / "krill-run.json").exists(), (
        "it was too fast to be stopped"
    )
    deed()
    running.process.send_signal(signal.SIGCONT)
    running.wait()
    return running


def inodes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def test_a_folder_that_is_made_while_a_run_works_is_kept_and_the_run_can_be_published_later(command):
    folder, arguments = command
    out, made = folder / "out", folder / ".out.krill" / "dataset"

    def make() -> None:
        out.mkdir()
        (out / "precious.txt").write_text(PRECIOUS)

    running = interfere(folder, arguments, make)
    assert running.process.poll() == 5, running.output
    assert (
        "`out` was made by somebody else while this run worked: nothing in it was touched" in running.output
    )
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("precious.txt", PRECIOUS)]
    finished = inodes(made)
    assert "krill-run.json" in finished
    refused = KrillProcess(folder, *arguments)
    assert refused.wait() == 5 and "move what is there away" in refused.output
    out.rename(folder / "elsewhere")
    again = KrillProcess(folder, *arguments)
    assert again.wait() == 0, again.output
    assert PUT_INTO_PLACE in again.output
    assert inodes(out) == finished  # put into place, and not made again
    assert not (folder / ".out.krill").exists()
    assert (folder / "elsewhere" / "precious.txt").read_text() == PRECIOUS


@pytest.mark.parametrize("kind", ["file", "link", "empty"])
def test_whatever_has_the_name_in_the_end_stays(kind, sources, tmp_path):
    folder, arguments = tmp_path, COMMANDS["export"]
    (folder / "prepared").symlink_to(sources / "prepared")
    out = folder / "out"

    def make() -> None:
        if kind == "file":
            out.write_text(PRECIOUS)
        elif kind == "link":
            (folder / "mine").mkdir()
            out.symlink_to("mine")
        else:
            out.mkdir()  # in which nothing can be lost

    running = interfere(folder, arguments, make)
    assert running.process.poll() == (0 if kind == "empty" else 5), running.output
    if kind == "file":
        assert out.read_text() == PRECIOUS
    elif kind == "link":
        assert out.readlink() == Path("mine") and not any((folder / "mine").iterdir())
    else:
        assert (out / "train.jsonl").is_file()


def test_overwriting_is_refused_before_any_work_while_the_output_holds_other_files(command):
    folder, arguments = command
    out = folder / "out"
    first = KrillProcess(folder, *arguments)
    assert first.wait() == 0, first.output
    (out / "NOTES.md").write_text(PRECIOUS)
    (out / "figures").mkdir()
    (out / "figures" / "a.png").write_bytes(b"\x89PNG")
    before = inodes(out)
    refused = KrillProcess(folder, *arguments, "--overwrite")
    assert refused.wait() == 5, refused.output
    fact = "`out` holds `NOTES.md` and `figures/a.png`, which Krill did not write: nothing in it was touched"
    assert fact in refused.output
    assert inodes(out) == before
    assert not (folder / ".out.krill").exists()
    shutil.move(out / "figures", folder)
    (out / "NOTES.md").rename(folder / "NOTES.md")
    again = KrillProcess(folder, *arguments, "--overwrite")
    assert again.wait() == 0, again.output
    assert not (folder / ".out.krill").exists()
    assert "NOTES.md" not in inodes(out)


def test_a_file_that_comes_into_the_output_while_it_is_overwritten_is_kept(command):
    folder, arguments = command
    out = folder / "out"
    first = KrillProcess(folder, *arguments)
    assert first.wait() == 0, first.output
    before = dataset_bytes(out)
    running = interfere(folder, (*arguments, "--overwrite"), lambda: (out / "NOTES.md").write_text(PRECIOUS))
    assert running.process.poll() == 5, running.output
    assert "`out` holds `NOTES.md`, which Krill did not write: the finished work is kept in" in running.output
    assert (out / "NOTES.md").read_text() == PRECIOUS
    (out / "NOTES.md").rename(folder / "NOTES.md")
    assert dataset_bytes(out) == before
    made = inodes(folder / ".out.krill" / "dataset")
    again = KrillProcess(folder, *arguments)
    assert again.wait() == 0, again.output
    assert PUT_INTO_PLACE in again.output
    assert inodes(out) == made
    assert not (folder / ".out.krill").exists()


def test_an_output_that_another_one_was_moved_over_while_it_is_overwritten_is_kept(job, finished):
    job.write("input.jsonl", json_lines(map(document, range(30_000))))
    shutil.copytree(finished, job.output)
    job.save()
    other = job.folder / "other"

    def swap() -> None:
        job.output.rename(job.folder / "first")
        other.mkdir()
        (other / "krill-run.json").write_text('{"command": "preprocess", "identity": "of another run"}')
        (other / "data-00000.arrow").write_text(PRECIOUS)
        other.rename(job.output)

    running = interfere(job.folder, ("preprocess", "config.yaml", "--overwrite"), swap)
    assert running.process.poll() == 5, running.output
    assert (job.output / "data-00000.arrow").read_text() == PRECIOUS


def test_the_output_of_another_command_is_not_overwritten(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    outcome = job.run(
        "tokenizer", "train", "--input", "input.jsonl", "--output", "out", "--vocab-size", "300", "-q"
    )
    assert outcome.code == 0, outcome.err
    before = inodes(job.output)
    check_error(
        job.preprocess("--overwrite"),
        5,
        "`out` holds what `krill tokenizer train` made: nothing in it was touched",
        hint="choose another `preprocess.prepared_path`",
    )
    assert inodes(job.output) == before


def test_a_file_of_ids_is_not_put_in_the_place_of_one_that_came_meanwhile(sources, tmp_path):
    out = tmp_path / "ids.bin"
    corpus, tokenizer = sources / "input.jsonl", sources / "tokenizer"
    running = KrillProcess(
        tmp_path, "tokenizer", "encode", "--tokenizer", tokenizer, "--input", corpus, "--output", out
    )
    running.wait_until(lambda: any(tmp_path.glob(".ids.bin.*")))
    os.kill(running.process.pid, signal.SIGSTOP)
    assert running.process.poll() is None, running.output
    out.write_text(PRECIOUS)
    os.kill(running.process.pid, signal.SIGCONT)
    assert running.wait() == 5, running.output
    assert "was made by somebody else meanwhile: it was not touched" in running.output
    assert [path.name for path in tmp_path.iterdir()] == ["ids.bin"]
    assert out.read_text() == PRECIOUS
