"""`engine: datatrove` from end to end, on its executors `local` and `ray`: the bytes of one process."""

from __future__ import annotations

import pytest

from conftest import dataset_bytes

pytest_plugins = ["job_fixtures", "ray_fixtures"]

UNITS = {"unit_bytes": "1MB", "max_document_bytes": "250KB", "shard_size": "1MB", "sequence_len": 1024}


@pytest.fixture
def real(job, sample):
    """The real text, or a part of it, prepared by one process."""
    job.config |= {"memory": "300MB", "threads": 1}

    def prepare(split="train[:800]", **preprocess):
        job.read_from({"path": str(sample), "split": split})
        job.set(**{**UNITS, **preprocess})
        assert job.preprocess("--quiet").code == 0
        job.set(prepared_path="shared")
        return job

    return prepare


@pytest.mark.parametrize(
    "preprocess",
    [
        {"dedup": "exact", "packing": "bfd", "output": "both"},
        {"dedup": "minhash"},
        pytest.param({"dedup": "exact", "split": "train"}, marks=pytest.mark.soak),
        pytest.param({"dedup": "minhash", "split": "train"}, marks=pytest.mark.soak),
    ],
    ids=["exact", "minhash", "all, exact", "all, minhash"],
)
def test_processes_of_this_machine_make_the_same_bytes(real, preprocess) -> None:
    job = real(**preprocess)
    job.config["engine"] = {"name": "datatrove", "workers": 2}
    outcome = job.preprocess("--json")
    assert outcome.code == 0, outcome.err
    assert dataset_bytes(job.folder / "shared") == dataset_bytes(job.output)
    engine = outcome.result["engine"]
    assert (engine["name"], engine["workers"]) == ("datatrove", 2)
    assert engine["worker_peak"] <= 300 * 10**6
    assert not (job.folder / ".shared.krill").exists()


@pytest.mark.soak
def test_workers_on_a_ray_cluster_make_the_same_bytes(real, ray_cluster) -> None:
    job = real(dedup="minhash", rejected=True)
    job.config["engine"] = {"name": "datatrove", "executor": "ray", "address": ray_cluster.address}
    outcome = job.preprocess("--json")
    assert outcome.code == 0, outcome.err
    assert dataset_bytes(job.folder / "shared") == dataset_bytes(job.output)
    assert outcome.result["engine"]["workers"] == 2
