"""One flipped bit in what Krill wrote is found by everything that makes something new of it, and nothing is
published then; --no-verify takes it as it is."""

from __future__ import annotations

import json
import os
import random
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

import krill
import preloaded
from jobs import Job, check_error, document, json_lines
from krill.corpus.fingerprint import WHOLE_BYTES
from krill.dataset import Dataset, Manifest
from krill.dataset.shard_file import ShardFile
from krill.errors import ConfigError, InputError
from krill.storage import outputs
from krill_process import KrillProcess
from tiny_readers import write_recall
from tiny_trainings import prepare, tiny_config

pytest_plugins = ["job_fixtures"]

FORMATS = {
    "parquet": [],
    "megatron": [],
    "bin": [],
    "datatrove": [],
    "mds": [],
    "litdata": [],
    "litdata-tokens": [],
    "jsonl": [],
    "jsonl --text": ["--text"],
    "jsonl --what text": ["--what", "text"],
}
EXPORTED = "exported"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Tokens and text, in several shards of several batches."""
    job = Job(tmp_path_factory.mktemp("prepared"), krill=None)
    job.write("input.jsonl", json_lines(map(document, range(4000))))
    job.set(output="both", shard_size="600KB")
    job.save()
    assert preloaded.run(["preprocess", "config.yaml", "--quiet"], cwd=job.folder).code == 0
    return job.output


@pytest.fixture
def source(prepared, job) -> Path:
    """The same in the job's folder, as `earlier`."""
    return Path(shutil.copytree(prepared, job.folder / "earlier"))


def flip(path: Path) -> tuple[str, str]:
    """One bit in the middle; how the checksums before and after begin."""
    content = bytearray(path.read_bytes())
    before = sha256(content).hexdigest()[:16]
    content[len(content) // 2 & ~1] ^= 1
    path.write_bytes(content)
    return before, sha256(content).hexdigest()[:16]


def check_found(outcome: Any, path: str, checksums: tuple[str, str]) -> None:
    before, after = checksums
    fact = f"`{path}` has the checksum {after}..., and the manifest says {before}..."
    check_error(outcome, 3, fact, hint="copy it again, or write the folder with `--overwrite`")
    assert "`--no-verify`" in outcome.err


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_of_a_damaged_shard_writes_nothing(name, source, job):
    form = name.split()[0]
    command = ["export", "earlier", "--to", form, *FORMATS[name], "--output", EXPORTED]
    whole = job.run(*command, "--quiet")
    assert whole.code == 0, whole.err
    expected = files_of(job.folder / EXPORTED)
    unverified = job.run(*command, "--quiet", "--overwrite", "--no-verify")
    assert unverified.code == 0 and files_of(job.folder / EXPORTED) == expected
    shutil.rmtree(job.folder / EXPORTED)

    shard = "text-00000.parquet" if "text" in name.split()[1:] else "data-00001.arrow"
    found = flip(source / shard)
    before = job.files()
    check_found(job.run(*command, "--quiet"), f"earlier/{shard}", found)
    assert job.files() == before  # no output, and nothing on the way to one
    if shard.endswith(".arrow"):
        assert job.run(*command, "--quiet", "--no-verify").code == 0
        assert files_of(job.folder / EXPORTED) != expected


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("krill-run.json", "meta.pkl")
    }


def test_every_byte_of_an_export_is_hashed_once(prepared, monkeypatch):
    read_into, reads = ShardFile.read_into, []

    def counted(file: ShardFile, target: Any, offset: int) -> None:
        reads.append((file.path.name, memoryview(target).nbytes))
        read_into(file, target, offset)

    monkeypatch.setattr(ShardFile, "read_into", counted)
    with Dataset(prepared) as dataset:
        rows = sum(batch.rows for batch in dataset.verified_batches())
        assert rows == len(dataset)
        for shard in dataset.shards:
            assert sum(size for name, size in reads if name == shard.file) == shard.bytes
        plain = list(dataset.batches())
        for one, other in zip(dataset.verified_batches(), plain, strict=True):
            assert (one.tokens == other.tokens).all() and (one.offsets == other.offsets).all()
            assert (one.seq_lengths == other.seq_lengths).all()
            assert (one.seq_offsets == other.seq_offsets).all()


@pytest.mark.parametrize(
    "path", ["earlier", "earlier/text-*.parquet", "earlier/text-00000.parquet", "lines/documents.jsonl"]
)
def test_a_text_output_that_is_read_again_is_verified(path, source, job):
    job.read_from({"path": path, "split": "train"})
    job.set(dedup="none")
    damaged = "earlier/text-00000.parquet"
    if path.startswith("lines"):
        assert job.run("export", "earlier", "--to", "jsonl", "--what", "text", "--output", "lines").code == 0
        damaged = "lines/documents.jsonl"
    found = flip(job.folder / damaged)
    check_found(job.preprocess("--quiet"), damaged, found)
    assert not job.output.exists()
    if path.startswith("lines"):  # still JSON: what was damaged can be read
        job.config["verify"] = False
        assert job.preprocess().code == 0
        del job.config["verify"]
        assert job.preprocess("--no-verify", "--overwrite").code == 0


@pytest.mark.parametrize("verb", ["train", "encode"])
def test_a_tokenizer_reads_a_text_output_only_if_it_is_whole(verb, source, job):
    found = flip(source / "text-00000.parquet")
    command = ["tokenizer", "train", "--input", "earlier", "--output", "made", "--vocab-size", "300"]
    if verb == "encode":
        small = [*command, "--quiet", "--no-verify"]
        small[3] = "some.jsonl"
        job.write("some.jsonl", json_lines([document(1)]))
        assert job.run(*small).code == 0
        command = ["tokenizer", "encode", "--tokenizer", "made", "--input", "earlier", "--output", "ids.bin"]
    check_found(job.run(*command, "--quiet"), "earlier/text-00000.parquet", found)
    assert not (job.folder / ("ids.bin" if verb == "encode" else "made")).exists()


def test_a_run_that_goes_on_verifies_what_it_still_reads(job):
    """Damage comes between two processes of a run, to a file too large for its fingerprint to show it."""
    rows = (f"{number} {random.Random(number).randbytes(6000).hex()}" for number in range(3200))
    job.write("input.jsonl", json_lines(rows))
    job.set(prepared_path="earlier", output="text", dedup="none")
    assert job.preprocess("--quiet").code == 0
    shard = job.folder / "earlier" / "text-00000.parquet"
    assert shard.stat().st_size > WHOLE_BYTES

    job.read_from("earlier")
    job.set(prepared_path="out", output="tokens", unit_bytes="2MB", max_document_bytes="1MB", dedup="exact")
    job.save()
    running = KrillProcess(job.folder, "preprocess", "config.yaml", "--quiet")
    running.wait_until(lambda: any(job.work.glob("stages/encode/*.json")))
    running.kill()
    times = shard.stat()
    found = flip(shard)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    check_found(job.preprocess("--quiet"), "earlier/text-00000.parquet", found)
    flip(shard)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert job.preprocess("--quiet").code == 0
    assert job.manifest()["continued"]


def test_each_file_is_read_once_more_in_a_run_that_reads_it_twice(source, job, monkeypatch):
    checked: list[str] = []
    check_file = outputs.check_file

    def counted(path: str, *arguments: Any) -> None:
        checked.append(Path(path).name)
        check_file(path, *arguments)

    monkeypatch.setattr(outputs, "check_file", counted)
    job.read_from(str(source))
    config = yaml.safe_load(job.save().read_text())
    config["preprocess"]["prepared_path"] = str(job.output)
    krill.preprocess(config, memory="300MB", threads=2)  # hashes first, then tokens
    assert sorted(checked) == [shard.file for shard in Manifest.load(source).text.shards]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A dataset, and a model that was trained on it."""
    folder = tmp_path_factory.mktemp("trained")
    prepare(folder)
    write_config(folder)
    outcome = preloaded.run(["train", "config.yaml", "--quiet"], cwd=folder)
    assert outcome.code == 0, outcome.err
    return folder


def write_config(folder: Path, **more: Any) -> None:
    settings = tiny_config(folder, max_steps=3)
    (folder / "config.yaml").write_text(yaml.safe_dump({**settings, **more}))


def test_a_training_and_an_evaluation_read_only_whole_shards(trained, tmp_path, krill):
    folder = Path(shutil.copytree(trained, tmp_path / "copy"))
    write_config(folder)
    shard = Path("train") / "data-00000.arrow"
    found = flip(folder / "dataset" / shard)
    command = ["train", "config.yaml", "--quiet", "--set", "train.output_dir=other"]
    check_found(krill(*command, cwd=folder), f"{folder}/dataset/{shard}", found)
    assert not (folder / "other" / "model.safetensors").exists()
    assert krill(*command, "--no-verify", cwd=folder).code == 0
    write_config(folder, verify=False)
    assert krill(*command, "--overwrite", cwd=folder).code == 0

    evaluate = ["evaluate", "model", "dataset", "--quiet"]
    held_out = Path("validation") / "data-00000.arrow"
    found = flip(folder / "dataset" / held_out)
    check_found(krill(*evaluate, cwd=folder), f"dataset/{held_out}", found)
    assert krill(*evaluate, "--no-verify", cwd=folder).code == 0


def test_a_reader_is_trained_and_scored_on_whole_features_only(tmp_path, krill):
    write_recall(tmp_path, "features", 6, segments=(2, 3), seed=3)
    manifest = json.loads((tmp_path / "features" / "krill-run.json").read_bytes())
    assert {file["file"]: file["sha256"] for file in manifest["files"]} == {
        path.name: sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "features").glob("*.arrow")
    }
    sizes = ["--hidden", 16, "--layers", 1, "--heads", 1, "--batch-size", 2, "--max-steps", 2]
    train = ["qa", "train", "features", "--tokenizer", "tokenizer.json", *sizes, "--quiet", "--output-dir"]
    assert krill(*train, "model", cwd=tmp_path).code == 0
    table = "features/paragraphs-00000.arrow"
    found = flip(tmp_path / table)
    check_found(krill(*train, "other", cwd=tmp_path), table, found)
    assert not (tmp_path / "other" / "model.safetensors").exists()
    evaluate = ["qa", "evaluate", "model", "features", "--quiet", "--predictions", "answers.json"]
    check_found(krill(*evaluate, cwd=tmp_path), table, found)
    assert not (tmp_path / "answers.json").exists()
    assert krill(*evaluate, "--no-verify", cwd=tmp_path).code == 0
    assert krill(*train, "other", "--no-verify", cwd=tmp_path).code == 0


def test_datatrove_steps_read_only_whole_files_of_krills(source, job, tmp_path):
    pytest.importorskip("datatrove")
    from krill.datatrove import KrillReader, PackDataset
    from krill.tokenizer import train

    (tmp_path / "some.txt").write_text(document(1))
    train([tmp_path / "some.txt"], vocab_size=300, output=tmp_path / "tokenizer", memory="200MB")
    assert job.run("export", "earlier", "--to", "datatrove", "--output", "ds").code == 0

    def pack(**options: Any) -> None:
        PackDataset("ds", "packed", "tokenizer", sequence_len=64, **options).run()

    def read(**options: Any) -> int:
        return sum(1 for _ in KrillReader("earlier", **options).run())

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        before, after = flip(tmp_path / "ds" / "train.ds")
        with pytest.raises(InputError, match=rf"train\.ds` has the checksum {after}.*says {before}"):
            pack()
        assert not (tmp_path / "packed").exists()
        pack(verify=False)
        _, after = flip(source / "text-00000.parquet")
        with pytest.raises(InputError, match=rf"text-00000\.parquet` has the checksum {after}"):
            read()


@pytest.mark.parametrize("form", ["datatrove", "parquet"])
def test_an_export_is_loaded_and_verified_if_asked_for(form, source, job):
    assert job.run("export", "earlier", "--to", form, "--output", "made", "--quiet").code == 0
    folder = job.folder / "made"
    with krill.load(folder) as dataset, krill.load(folder, verify=True) as verified:
        assert len(dataset) == len(verified) > 0
    data = next(path for path in folder.iterdir() if path.suffix in (".ds", ".parquet"))
    _, after = flip(data)
    with pytest.raises(InputError, match=f"{data.name}` has the checksum {after}"):
        krill.load(folder, verify=True)
    flip(data)
    (folder / "more" / "a").mkdir(parents=True)
    (folder / "more" / data.name).write_bytes(data.read_bytes())
    with pytest.raises(ConfigError, match=r"needs checksums, and .* was not written by Krill"):
        krill.load(folder / "more" / data.name, verify=True)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff"])
def test_a_damaged_manifest_beside_a_file_is_an_error_and_not_a_file_that_nobody_wrote(content, source, job):
    job.read_from({"path": "earlier/text-00000.parquet"})
    job.set(dedup="none")
    (source / "krill-run.json").write_bytes(content)
    outcome = job.preprocess("--quiet")
    check_error(outcome, 3, "earlier/krill-run.json` is damaged: it is not a JSON object", hint="--no-verify")
    assert not job.output.exists()
    assert job.preprocess("--no-verify", "--quiet").code == 0
