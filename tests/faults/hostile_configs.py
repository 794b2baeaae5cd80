"""Hostile configs and settings: for `krill preprocess`, `estimate` and `run`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import FAULTS, Case, preprocess, save, settings, words
from hostile_text import GOOD, WHOLE, lines

VERBS = ("preprocess", "estimate", "run")
PLAIN = "datasets: [{path: input.jsonl}]\ntokenizer: {builtin: bytes}\npreprocess: {prepared_path: out}\n"


def cases() -> Iterator[Case]:
    yield from _yaml()
    yield from _numbers()
    yield from _values()
    yield from _arguments()
    yield from _extremes()
    yield from _budgets()
    yield from _estimates()


def _config(name: str, content: bytes | str, *numbers: int, verb: str = "preprocess", **more: Any) -> Case:
    def make(folder: Path) -> None:
        (folder / "input.jsonl").write_bytes(WHOLE)
        data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
        (folder / "config.yaml").write_bytes(data)

    return Case(
        f"config-{name}", make, words(verb, "config.yaml"), frozenset(numbers or FAULTS | {0}), **more
    )


def _yaml() -> Iterator[Case]:
    bomb = "".join(f"x{at}: &x{at} [{', '.join([f'*x{at - 1}'] * 9)}]\n" for at in range(1, 12))
    texts = {
        "bomb": "x0: &x0 [lol]\n" + bomb,
        "bomb-in-a-known-key": "x0: &x0 [lol]\n" + bomb + "datasets: *x11\n",
        "bomb-of-merges": "a: &a {b: 1}\n"
        + "".join(f"k{at}: &k{at} {{<<: [*a, *a]}}\n" for at in range(2000)),
        "anchor-that-holds-itself": "datasets: &a [*a]\n",
        "anchor-that-holds-itself-as-a-map": "preprocess: &a {dedup: *a}\n",
        "tag-python": "datasets: !!python/object/apply:os.system ['touch owned']\n",
        "tag-python-name": "memory: !!python/name:os.system\n",
        "tag-binary": "datasets: [{path: !!binary aW5wdXQuanNvbmw=}]\n",
        "tag-set": "datasets: !!set {a, b}\n",
        "tag-omap": "preprocess: !!omap [a: 1]\n",
        "tag-unknown": "memory: !budget 1GB\n",
        "duplicate-keys": PLAIN + "datasets: [{path: other.jsonl}]\n",
        "duplicate-keys-inside": "datasets: [{path: input.jsonl, path: other.jsonl}]\n",
        "merge-keys": "base: &b {prepared_path: out}\npreprocess: {<<: *b}\n",
        "merge-of-nothing": "preprocess: {<<: }\n",
        "several-documents": PLAIN + "---\n" + PLAIN,
        "directives": "%YAML 9.9\n---\n" + PLAIN,
        "tabs": "datasets:\n\t- path: input.jsonl\n",
        "open-quote": 'memory: "512MB\n',
        "open-flow": "[" * 5000,
        "open-maps": "{a: " * 5000,
        "deep-blocks": "".join(" " * at + "a:\n" for at in range(2000)),
        "long-key": "k" * 1_000_000 + ": 1\n",
        "long-value": "memory: " + "9" * 1_000_000 + "\n",
        "long-text": "datasets: [{path: " + "p" * 1_000_000 + "}]\n",
        "many-keys": "".join(f"key{at}: 1\n" for at in range(20_000)),
        "many-datasets": "datasets:\n" + "- {path: input.jsonl}\n" * 3000 + "tokenizer: {builtin: bytes}\n",
        "empty": "",
        "comments": "# nothing\n" * 1000,
        "null": "null\n",
        "a-list": "- a\n- b\n",
        "a-number": "12\n",
        "a-text": "just some text\n",
        "a-date-as-key": "2024-02-29: 1\n",
        "a-list-as-key": "? [a, b]\n: 1\n",
        "a-map-as-key": "? {a: b}\n: 1\n",
        "null-as-key": "~: 1\n",
        "true-as-key": "yes: 1\n",
        "unicode-keys": "d\u0430tasets: []\n",
        "key-with-escapes": '"\\e[31mred\\u202e": 1\n',
        "value-with-escapes": 'memory: "\\e]0;x\\a\\u009b"\n',
        "key-with-nul": '"a\\0b": 1\n',
        "lone-surrogate": 'datasets: [{path: "\\ud800"}]\n',
        "dotted-keys": "preprocess.sequence_len: 8\n" + PLAIN,
        "sexagesimal": "seed: 1:30:00\n" + PLAIN,
        "octal": "seed: 0o17\n" + PLAIN,
    }
    for name, text in texts.items():
        yield _config(name, text)
    bytes_of = {
        "nuls": bytes(10_000),
        "noise": bytes(range(256)) * 40,
        "utf-16": PLAIN.encode("utf-16"),
        "latin-1": PLAIN.encode() + b"# caf\xe9\n",
        "byte-order-mark": b"\xef\xbb\xbf" + PLAIN.encode(),
        "c1-controls": PLAIN.encode() + "# \x9b\u2028\n".encode(),
        "crlf": PLAIN.replace("\n", "\r\n").encode(),
        "carriage-returns": PLAIN.replace("\n", "\r").encode(),
        "elf": b"\x7fELF\x02\x01\x01" + bytes(1000),
        "of-30-megabytes": b"# comment\n" * 3_000_000,
    }
    for name, content in bytes_of.items():
        yield _config(name, content)
    for name in ("bomb", "anchor-that-holds-itself", "tag-python", "empty", "open-flow", "many-datasets"):
        for verb in ("estimate", "run"):
            yield _config(f"{name}-{verb}", texts[name], verb=verb)


NUMBERS = {
    "nan": ".nan", "inf": ".inf", "minus-inf": "-.inf", "negative": "-1", "zero": "0", "half": "0.5",
    "two-to-63": "9223372036854775808", "two-to-64": "18446744073709551616", "a-googol": "1" + "0" * 100,
    "exponent": "1e300", "true": "true", "null": "null", "empty": "''", "list": "[1]", "map": "{a: 1}",
    "text": "many", "unit": "3XB", "huge-unit": "99999999999999999999EB", "spaced": "' 1 0 '",
    "arabic": "١٢٣",
}  # fmt: skip
KEYS = (
    "memory", "threads", "seed", "disk", "preprocess.sequence_len", "preprocess.min_length",
    "preprocess.max_length",
    "preprocess.min_chars", "preprocess.max_words", "preprocess.pack_window", "preprocess.shard_size",
    "preprocess.unit_bytes", "preprocess.max_document_bytes", "preprocess.batch_rows",
    "preprocess.split.validation", "preprocess.dedup.expected_documents",
    "preprocess.dedup.false_positive_rate",
    "preprocess.dedup.ngram", "preprocess.dedup.bands", "preprocess.dedup.rows", "preprocess.dedup.threshold",
    "datasets.0.weight", "datasets.0.max_tokens", "tokenizer.vocab_size", "train.target_params",
)  # fmt: skip


def _numbers() -> Iterator[Case]:
    """Every number of the config is each of these; one of three verbs reads it."""
    for at, key in enumerate(KEYS):
        for place, (name, value) in enumerate(NUMBERS.items()):
            if (at + place) % 4:
                continue  # a quarter of the grid, so that each key and each value is met many times
            verb = VERBS[(at + place // 4) % 3]
            method = {"dedup": {"method": "minhash"}} if key.startswith("preprocess.dedup") else {}
            if key.endswith(("expected_documents", "false_positive_rate")):
                method = {"dedup": {"method": "bloom", "expected_documents": 1000}}
            yield _set(f"{key}-is-{name}", verb, key, value, config=method)


def _set(name: str, verb: str, key: str, value: str, *, config: dict[str, Any], **more: Any) -> Case:
    def make(folder: Path) -> None:
        (folder / "input.jsonl").write_bytes(WHOLE)
        save(folder, settings(**config))

    typed = [*words(verb, "config.yaml"), "--set", f"{key}={value}"]
    if key in ("memory", "threads"):  # an option would win
        typed = [verb, "config.yaml", "--set", f"{key}={value}"]
        more = {"memory": 10**9, **more}
    return Case(f"set-{name}-{verb}", make, typed, FAULTS | {0}, **more)


def _values() -> Iterator[Case]:
    """Choices, lists and sections that are something else."""
    wrong: dict[str, Any] = {
        "filters-unknown": {"filters": ["nothing"]},
        "filters-import": {"filters": ["os:system"]},
        "filters-import-missing": {"filters": ["absent_module:function"]},
        "filters-import-dots": {"filters": ["..:x"]},
        "filters-map-of-nothing": {"filters": [{}]},
        "filters-of-numbers": {"filters": [1, None, [2]]},
        "filters-threshold-is-text": {"filters": [{"gopher_quality": {"min_doc_words": "x"}}]},
        "filters-threshold-is-nan": {"filters": [{"gopher_quality": {"min_doc_words": float("nan")}}]},
        "filters-ten-thousand": {"filters": ["gopher_quality"] * 10_000},
        "filters-of-all": {"filters": ["web-en", "web-any"]},
        "dedup-against-itself": {"dedup": {"method": "exact", "against": ["input.jsonl"]}},
        "dedup-against-the-output": {"dedup": {"method": "exact", "against": ["out"]}},
        "dedup-against-nothing": {"dedup": {"method": "exact", "against": ["absent.jsonl"]}},
        "dedup-cache-is-the-output": {"dedup": "exact", "dedup_cache_dir": "out"},
        "dedup-cache-is-a-file": {"dedup": "exact", "dedup_cache_dir": "input.jsonl"},
        "dedup-cache-is-here": {"dedup": "exact", "dedup_cache_dir": "."},
        "dedup-cache-holds-noise": {"dedup": "exact", "dedup_cache_dir": "cache"},
        "dedup-database-is-noise": {"dedup": "sqlite", "dedup_cache_dir": "cache"},
        "dedup-bloom-without-a-number": {"dedup": "bloom"},
        "dedup-lines-of-minhash": {"dedup": {"method": "minhash", "level": "line"}},
        "packing-unknown": {"packing": "tetris"},
        "output-unknown": {"output": "nothing"},
        "validation-of-all": {"split": {"validation": 1.0}},
        "validation-of-nearly-all": {"split": {"validation": 0.999999}},
        "validation-of-nearly-nothing": {"split": {"validation": 1e-300}},
        "lengths-crossed": {"min_length": 100, "max_length": 1},
        "characters-crossed": {"min_chars": 100, "max_chars": 1},
        "token-type-too-small": {"token_dtype": "uint8"},
        "document-above-the-unit": {"unit_bytes": 1000, "max_document_bytes": 2000},
    }
    for name, config in wrong.items():

        def make(folder: Path, config: dict[str, Any] = config) -> None:
            (folder / "input.jsonl").write_bytes(WHOLE)
            (folder / "cache").mkdir()
            for file in ("index.sqlite", "index.duckdb", "dedup-index.json", "segment-00000.bin"):
                (folder / "cache" / file).write_bytes(b"noise" * 100)
            save(folder, settings(**config))

        yield Case(f"values-{name}", make, words("preprocess", "config.yaml"), FAULTS | {0})
    sources: dict[str, Any] = {
        "slice-backwards": {"split": "train[10:5]"}, "slice-beyond": {"split": "train[1000000:]"},
        "slice-of-nothing": {"split": "train[:0]"}, "slice-percent-of-1000": {"split": "train[:1000%]"},
        "slice-negative": {"split": "train[-5:]"}, "slice-open": {"split": "train["},
        "slice-huge": {"split": "train[:99999999999999999999]"}, "slice-words": {"split": "train[a:b]"},
        "split-unknown": {"split": "test"}, "split-with-escapes": {"split": "\x1b[31m"},
        "weight-alone": {"weight": 1.0}, "weight-tiny": {"weight": 5e-324}, "weight-huge": {"weight": 1e308},
        "tokens-one": {"max_tokens": 1},
    }  # fmt: skip
    for name, source in sources.items():
        yield preprocess(f"source-{name}", "input.jsonl", WHOLE, dataset=source)


def _arguments() -> Iterator[Case]:
    """What is typed behind the verb."""
    typed: dict[str, list[str]] = {
        "set-nothing": ["--set", ""],
        "set-no-value": ["--set", "memory"],
        "set-equals": ["--set", "==="],
        "set-dots": ["--set", "...=1"],
        "set-path-into-a-number": ["--set", "seed.a.b=1"],
        "set-index-beyond": ["--set", "datasets.99.path=a"],
        "set-index-huge": ["--set", "datasets.99999999999999999999.path=a"],
        "set-index-negative": ["--set", "datasets.-1.path=a"],
        "set-yaml-bomb": ["--set", "datasets=" + "[" * 3000],
        "set-yaml-tag": ["--set", "seed=!!python/name:os.system"],
        "set-yaml-anchor": ["--set", "datasets=&a [*a]"],
        "set-deep": ["--set", ".".join(["a"] * 5000) + "=1"],
        "set-long": ["--set", "seed=" + "1" * 100_000],
        "set-escapes": ["--set", "\x1b[31mkey=\x9b1"],
        "memory-nothing": ["--memory", ""],
        "memory-escapes": ["--memory", "\x1b[31m1GB"],
        "memory-negative": ["--memory=-1GB"],
        "threads-text": ["--threads", "many"],
        "threads-zero": ["--threads", "0"],
        "task-zero": ["--task", "0/0"],
        "task-beyond": ["--task", "5/4"],
        "task-huge": ["--task", "1/99999999999999999999"],
        "task-text": ["--task", "a/b"],
        "task-finish-of-nothing": ["--task", "finish"],
        "task-negative": ["--task=-1/4"],
        "wait-nan": ["--task", "1/2", "--wait", "nan"],
        "wait-without-a-task": ["--wait", "1"],
        "disk-one-byte": ["--disk", "1"],
        "disk-nan": ["--disk", "nan"],
        "engine-unknown": ["--engine", "abacus"],
        "workers-zero": ["--workers", "0"],
        "address-escapes": ["--address", "\x1b[31m"],
        "unknown-option": ["--turbo"],
        "unknown-option-escapes": ["--\x1b[31m"],
        "second-config": ["config.yaml"],
        "a-thousand-sets": [word for _ in range(1000) for word in ("--set", "seed=1")],
    }
    for name, more in typed.items():
        yield preprocess(f"typed-{name}", "input.jsonl", WHOLE, 0, 2, 3, 4, 5, more=more, seconds=30)
    paths = {
        "a-folder": ".",
        "missing": "absent.yaml",
        "empty": "",
        "a-device": "/dev/zero",
        "a-long-name": "c" * 5000,
        "escapes": "\x1b[31m.yaml",
        "the-input": "input.jsonl",
        "full": "/dev/full",
        "memory": "/proc/self/mem",
    }
    for name, path in paths.items():
        for verb in VERBS:

            def make(folder: Path) -> None:
                (folder / "input.jsonl").write_bytes(WHOLE)

            yield Case(f"typed-config-is-{name}-{verb}", make, words(verb, path), FAULTS, seconds=30)


def _extremes() -> Iterator[Case]:
    long = lines(*({"text": text * 30} for text in GOOD))
    grid: dict[str, dict[str, Any]] = {
        "rows-of-one-token": {"sequence_len": 1},
        "rows-of-a-billion-tokens": {"sequence_len": 10**9},
        "rows-of-two-to-31-tokens": {"sequence_len": 2**31 - 1},
        "units-of-one-byte": {"unit_bytes": 1, "max_document_bytes": 1},
        "units-of-seven-bytes": {"unit_bytes": 7, "max_document_bytes": 3},
        "units-of-a-kilobyte": {"unit_bytes": 1000, "max_document_bytes": 500},
        "units-of-a-terabyte": {"unit_bytes": 10**12},
        "documents-of-one-byte": {"max_document_bytes": 1},
        "documents-of-one-byte-dropped": {"max_document_bytes": 1, "oversize": "drop"},
        "documents-of-a-terabyte": {"unit_bytes": 10**12, "max_document_bytes": 10**12},
        "shards-of-one-byte": {"shard_size": 1},
        "shards-of-an-exabyte": {"shard_size": 10**18},
        "window-of-one": {"packing": "bfd", "pack_window": 1},
        "window-of-a-billion": {"packing": "bfd", "pack_window": 10**9},
        "batches-of-one-row": {"batch_rows": 1},
        "bloom-for-a-trillion": {"dedup": {"method": "bloom", "expected_documents": 10**12}},
        "bloom-for-one": {"dedup": {"method": "bloom", "expected_documents": 1}},
        "bloom-of-certainty": {
            "dedup": {"method": "bloom", "expected_documents": 9, "false_positive_rate": 1e-300}
        },
        "minhash-of-a-million-bands": {"dedup": {"method": "minhash", "bands": 10**6}},
        "minhash-of-a-million-rows": {"dedup": {"method": "minhash", "rows": 10**6}},
        "minhash-of-one": {"dedup": {"method": "minhash", "bands": 1, "rows": 1}},
        "minhash-of-huge-ngrams": {"dedup": {"method": "minhash", "ngram": 10**6}},
        "minhash-threshold-of-all": {"dedup": {"method": "minhash", "threshold": 1.0}},
        "minhash-threshold-of-nothing": {"dedup": {"method": "minhash", "threshold": 1e-9}},
        "minhash-verified": {
            "dedup": {"method": "minhash", "verify": 1.0, "clusters": True},
            "rejected": True,
        },
        "shuffled-ones": {"sequence_len": 1, "shuffle": True},
        "own-rows": {"packing": "none", "sequence_len": 1},
        "bos-without-one": {"bos": True},
        "lines-deduplicated": {"dedup": {"method": "exact", "level": "line"}},
    }
    for name, config in grid.items():
        yield preprocess(f"extreme-{name}", "input.jsonl", long, 0, 2, 3, 4, config=config, seconds=120)
    yield preprocess("extreme-a-thousand-threads", "input.jsonl", long, 0, 2, 4, more=["--threads", "1000"])
    yield preprocess("extreme-a-million-threads", "input.jsonl", long, 0, 2, 4, more=["--threads", "1000000"])
    twenty = lines(*({"text": f"{at} " + "near copies of one text " * 20} for at in range(3000)))
    yield preprocess("extreme-copies-of-one-text", "input.jsonl", twenty, 0, 4, config={
        "dedup": {"method": "minhash", "clusters": True}, "rejected": True, "statistics": True})  # fmt: skip


def _budgets() -> Iterator[Case]:
    for memory in (
        "1", "1KB", "1MB", "50MB", "80MB", "99MB", "100MB", "110MB", "115MB", "120MB", "125MB", "130MB",
    ):  # fmt: skip
        numbers = (2,) if memory == "1" else (0, 4)  # a budget has a kilobyte at least
        yield preprocess(f"budget-of-{memory}", "input.jsonl", WHOLE, *numbers, memory=memory, fresh=True)
    for memory in ("110MB", "130MB", "150MB", "170MB"):
        for kind, config in {
            "minhash": {"dedup": "minhash"}, "exact": {"dedup": "exact", "shuffle": True},
            "bfd": {"packing": "bfd"}, "filters": {"filters": ["web-any"]},
        }.items():  # fmt: skip
            yield preprocess(f"budget-of-{memory}-{kind}", "input.jsonl", WHOLE * 2000, 0, 4, memory=memory,
                             config=config, fresh=True)  # fmt: skip
    for verb in ("estimate", "run"):
        for memory in ("1", "1MB", "90MB", "99999999TB"):
            yield _verb(verb, f"budget-of-{memory}", settings(), memory=memory)


def _verb(verb: str, name: str, config: object, *, memory: str = "256MB",
          codes: frozenset[int] = FAULTS | {0},
          put: Callable[[Path], object] | None = None) -> Case:  # fmt: skip
    def make(folder: Path) -> None:
        (folder / "input.jsonl").write_bytes(WHOLE)
        if put is not None:
            put(folder)
        save(folder, config)

    return Case(f"{verb}-{name}", make, words(verb, "config.yaml", memory=memory), codes)


def _estimates() -> Iterator[Case]:
    """`estimate` and `run` of inputs that are no inputs."""

    def sparse(folder: Path) -> None:
        with (folder / "big.txt").open("wb") as file:
            file.truncate(10**9)

    contents = {
        "noise.parquet": b"PAR1" + bytes(100) + b"PAR1", "noise.arrow": b"ARROW1\0\0" + bytes(100),
        "cut.jsonl.gz": b"\x1f\x8b\x08" + bytes(20), "open.json": b"[" * 100_000, "quotes.csv": b'"' * 99_999,
        "nul.txt": bytes(100_000), "window.txt.zst": b"\x28\xb5\x2f\xfd\x00\xff" + bytes(50),
        "empty.jsonl": b"",
    }  # fmt: skip
    for verb in ("estimate", "run"):
        for file, content in contents.items():

            def put(folder: Path, file: str = file, content: bytes = content) -> None:
                (folder / file).write_bytes(content)

            yield _verb(verb, f"of-{file}", settings(file), put=put)
    yield _verb("estimate", "of-a-sparse-gigabyte", settings("big.txt"), put=sparse)
    for name, train in {
        "a-model-of-nothing": {"target_params": 0}, "a-huge-model": {"target_params": 10**18},
        "heads-that-do-not-divide": {"width": 7, "heads": 3}, "width-huge": {"width": 2**31},
        "layers-huge": {"layers": 10**9}, "an-unknown-preset": {"preset": "colossal"},
        "batch-huge": {"batch_size": 10**12}, "rows-huge": {"seq_len": 10**12},
    }.items():  # fmt: skip
        yield _verb("estimate", name, {**settings(), "train": train})
    tokenizer = {**settings(), "tokenizer": {"path": "tok", "vocab_size": 260}}
    yield _verb("run", "trains-into-a-file", tokenizer, put=lambda folder: (folder / "tok").write_text("x"))
    yield _verb("run", "trains-into-a-full-folder", tokenizer, put=_full)
    for name, vocab in {"none": 0, "one": 1, "huge": 10**12, "negative": -1}.items():
        yield _verb(
            "run", f"vocabulary-of-{name}", {**settings(), "tokenizer": {"path": "t", "vocab_size": vocab}}
        )


def _full(folder: Path) -> None:
    (folder / "tok").mkdir()
    (folder / "tok" / "tokenizer.json").write_text(
        json.dumps({"model": {"type": "BPE", "vocab": [], "merges": 1}})
    )
