"""Encode with the tokenizers of many model families: Krill beside those of its peers that load them.

In: folders or files of tokenizers (`tokenizer.json`, or `.json.xz`), those of the shared data if none are
named. A list of strings goes in, cold, in
a process of its own for each encoder; MB/s is over the encoding alone. Special tokens in the text are
read as such by all; of those around it only Krill writes any, as not all of its peers can. More tokenizers
are trained on the first documents by Hugging Face's library or by Krill: one of 32,000 tokens with GPT-2's
pattern, of whose speed every family's is also stated as a share; Unigram with the form NFKC (that of
SentencePiece's charsmap, where `sentencepiece` is installed) and Metaspace; WordPiece with BERT's normalizer
and pre-tokenizer; BPE with the sections of CLIP. Two have the sections of Falcon and T5 around the first two
of these vocabularies.

No text comes twice, since what repeats flatters a cache that never forgets: first the sample, Markdown in
ten-odd languages, each document once; then sources and text files of the standard library and of the
installed packages, by path, without those that are equal to an earlier one. All encoders get the same.

`held` is what the process grows by while the tokenizer is loaded, libraries not counted. Hits are words,
or pieces of them, found in Krill's cache, and missed bytes those that were merged.

Single turns scatter, on shared machines by half: all encoders of a tokenizer take turns, and the row is the
turn of the median speed.

    python benchmarks/encode_families.py --peers-python PATH
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module, metadata
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain, product
from operator import itemgetter
from pathlib import Path
from typing import Any

from measured import run_measured
from real_text import SHARED_DATA, installed_texts, real_texts
from results import Row, again

MB = 10**6
# The library takes minutes for what others do in seconds, and to train Unigram.
LIBRARY_MB = 10
TRAINED_MB = 3


Encode = Callable[[list[str]], Iterable[Sequence[int]]]


def krill_encoder(file: str, threads: int) -> tuple[Encode, Callable[[], dict[str, float]]]:
    """Also what its cache found."""
    import krill.tokenizer

    tokenizer = krill.tokenizer.load(file, memory="4GB", threads=threads)
    assert tokenizer.native, tokenizer.why
    return tokenizer.encode_batch, tokenizer.statistics


def peers_encoder(name: str, file: str, threads: int) -> tuple[Encode, Callable[[], dict[str, float]]]:
    """One of `krill tokenizer compare`, from its file: an interpreter with the peers may be without Krill."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    source = Path(__file__).resolve().parent.parent / "src" / "krill" / "tokenizer" / "peers.py"
    spec = spec_from_file_location("peers", source)
    assert spec is not None and spec.loader is not None
    peers = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(peers)
    return peers.ENCODERS[name](peers.EncodeJob(file, threads)), dict


CLIP_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
# Pre-tokenizers around the model of another tokenizer.
RESHAPED: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "falcon": (
        "gpt2-like",
        [
            {"type": "Punctuation", "behavior": "Contiguous"},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            {"type": "Digits", "individual_digits": False},
            {
                "type": "Split",
                "pattern": {"Regex": "[0-9][0-9][0-9]"},
                "behavior": "Isolated",
                "invert": False,
            },
        ],
    ),
    "t5": (
        "unigram",
        [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        ],
    ),
}
BUILT = ("unigram", "wordpiece", "clip", *RESHAPED)


ENCODERS = ("krill", "fastokens", "gigatoken", "tokenizers", "tokie")
# What each imports, which is no part of loading.
LIBRARIES = {
    "krill": ("numpy", "pyarrow", "krill.corpus.buffers", "krill.tokenizer.native", "krill._native"),
    "gigatoken": ("awkward", "gigatoken"),
}


def resident() -> int:
    """Memory that is no file's, without what is free."""
    ctypes.CDLL(None).malloc_trim(0)
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line)
    return int(line.split()[1]) * 1024


def encode_once(options: argparse.Namespace) -> dict[str, Any]:
    """Load, then encode all documents once."""
    texts = [json.loads(line) for line in Path(options.documents).read_text().splitlines()]
    for library in LIBRARIES.get(options.once, (options.once,)):
        import_module(library)
    begun, before = time.monotonic(), resident()
    job = options.tokenizers[0], options.threads[0]
    encode, statistics = krill_encoder(*job) if options.once == "krill" else peers_encoder(options.once, *job)
    loaded, held = time.monotonic(), resident() - before
    encoded = encode(texts)
    seconds = time.monotonic() - loaded
    tokens = sum(map(len, encoded))
    size = sum(len(text.encode()) for text in texts)
    words = statistics()
    return {
        "load": loaded - begun,
        "held": held,
        "mb_per_second": size / seconds / MB,
        "tokens": tokens,
        "hit_rate": words.get("hit_rate"),
        "miss_share": words["miss_bytes"] / words["bytes"] if words else None,
        "version": metadata.version("krill-lm" if options.once == "krill" else options.once),
    }


def measure(name: str, file: Path, documents: Path, threads: int, python: str) -> dict[str, Any] | str:
    """One encoder in its process; why it can't, in a line."""
    command = [python, __file__, str(file), "--once", name, "--documents", documents]
    outcome = run_measured([*command, "--threads", str(threads)])
    if outcome.code:
        return (outcome.err.strip().splitlines() or [f"exit code {outcome.code}"])[-1][:60]
    return {**json.loads(outcome.out.splitlines()[-1]), "peak": outcome.peak}


def median_turn(turns: Sequence[dict[str, Any] | str]) -> dict[str, Any] | str:
    """The turn of the median speed; why there is none, in a line."""
    for failed in turns:
        if isinstance(failed, str):
            return failed
    ordered = sorted((turn for turn in turns if isinstance(turn, dict)), key=itemgetter("mb_per_second"))
    return ordered[len(ordered) // 2]


def different_texts() -> Iterator[str]:
    """Each once."""
    seen = set()
    for text in chain(real_texts(), installed_texts()):
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            yield text


def write_documents(path: Path, size: int) -> Path:
    """Texts as JSON strings, one a line, up to the size or as many as there are."""
    written = 0
    with path.open("w") as file:
        for text in different_texts():
            file.write(json.dumps(text) + "\n")
            written += len(text.encode())
            if written >= size:
                return path
    print(f"there are no more than {written / MB:.0f} MB of different texts here", file=sys.stderr)
    return path


def unpacked(given: Path, folder: Path) -> Path:
    """A tokenizer.json of its own name, unpacked if need be."""
    if given.is_dir():
        return given / "tokenizer.json"
    if given.suffix != ".xz":
        return given
    path = folder / given.name.removesuffix(".tokenizer.json.xz") / "tokenizer.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.decompress(given.read_bytes()))
    return path


def trained(documents: Path, folder: Path) -> Path:
    """GPT-2's pattern, 32,000 tokens."""
    text = folder / "documents.jsonl"
    text.write_text("".join(f'{{"text": {line}}}\n' for line in documents.read_text().splitlines()))
    command = [Path(sys.executable).with_name("krill"), "tokenizer", "train", "--input", text]
    done = run_measured([*command, "--vocab-size", "32000", "--output", folder / "gpt2-like", "--quiet"])
    assert done.code == 0, done.err
    return folder / "gpt2-like" / "tokenizer.json"


def charsmap_of_sentencepiece(few: Path, folder: Path) -> bytes | None:
    """What its trainer puts into every model; None where it is not installed."""
    try:
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        return None
    sentencepiece.SentencePieceTrainer.train(input=str(few), model_prefix=folder / "nmt", vocab_size=400)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((folder / "nmt.model").read_bytes())
    return bytes(model.normalizer_spec.precompiled_charsmap)


def trained_by_library(kind: str, few: Path, folder: Path) -> Path:
    """Unigram, WordPiece or BPE as CLIP's, 16,000 tokens."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

    lines = few.read_text().splitlines()
    texts = [json.loads(line) for line in lines[: max(1, len(lines) * TRAINED_MB // LIBRARY_MB)]]
    options: dict[str, Any] = {"vocab_size": 16_000, "show_progress": False}
    trainer: Any
    if kind == "unigram":
        charsmap = charsmap_of_sentencepiece(few, folder)
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.Precompiled(charsmap) if charsmap else normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(unk_token="<unk>", special_tokens=["<unk>"], **options)
    elif kind == "clip":
        tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
        steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
        tokenizer.normalizer = normalizers.Sequence(steps)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(CLIP_WORDS), "removed", invert=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        options |= {"end_of_word_suffix": "</w>", "initial_alphabet": alphabet}
        trainer = trainers.BpeTrainer(special_tokens=["<|endoftext|>"], **options)
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # type: ignore[call-arg]
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(special_tokens=["[UNK]"], **options)
    tokenizer.train_from_iterator(texts, trainer)
    path = folder / kind / "tokenizer.json"
    path.parent.mkdir()
    tokenizer.save(str(path))
    return path


def reshaped(kind: str, vocabulary: Path, folder: Path) -> Path:
    """Another tokenizer's model behind the pre-tokenizer of Falcon or T5."""
    spec = json.loads(vocabulary.read_bytes())
    path = folder / kind / "tokenizer.json"
    path.parent.mkdir()
    steps = {"type": "Sequence", "pretokenizers": RESHAPED[kind][1]}
    path.write_text(json.dumps({**spec, "pre_tokenizer": steps}))
    return path


def built(kinds: Sequence[str], documents: Path, folder: Path) -> list[Path]:
    """The one with GPT-2's pattern, then those asked for."""
    files = {"gpt2-like": trained(documents, folder)}
    for kind in dict.fromkeys(RESHAPED[kind][0] if kind in RESHAPED else kind for kind in kinds):
        if kind not in files:
            files[kind] = trained_by_library(kind, documents, folder)
    for kind in kinds:
        if kind in RESHAPED:
            files[kind] = reshaped(kind, files[RESHAPED[kind][0]], folder)
    return [files[kind] for kind in ("gpt2-like", *kinds)]


def row(found: dict[str, Any], encoder: str) -> Row:
    """Figures of one encoder; what its cache found is known of Krill."""
    figures = {"rate": found["mb_per_second"], "held": found["held"] / MB, "peak": found["peak"] / MB}
    if encoder != "krill":
        return {"encoder": encoder, **figures, "seconds_to_load": found["load"]}
    words = {"hits": 100 * found["hit_rate"], "merged": 100 * found["miss_share"]}
    return {"encoder": "Krill", **figures, "load": found["load"], **words}


def main() -> None:
    """The table; or, in a process that this one has started, one encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    published = sorted(map(str, (SHARED_DATA / "tokenizers").glob("*.tokenizer.json.xz")))
    parser.add_argument("tokenizers", nargs="*", default=published)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=5, help="all encoders take part in each of so many")
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS[:-1]), choices=ENCODERS)
    parser.add_argument("--peers-python", default=sys.executable, help="an interpreter that has the peers")
    parser.add_argument("--trained", nargs="*", default=list(BUILT), choices=BUILT)
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--documents", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(encode_once(options)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        documents = write_documents(folder / "documents", options.mb * MB)
        few = write_documents(folder / "few", min(LIBRARY_MB, options.mb) * MB)
        own, *others = built(options.trained, few, folder)
        files = [own, *(unpacked(Path(given), folder) for given in options.tokenizers), *others]
        results = again("encode_families")
        for threads in options.threads:
            for file in files:
                outcomes: dict[str, list[dict[str, Any] | str]] = {name: [] for name in options.encoders}
                for turn, encoder in product(range(options.turns), options.encoders):
                    if turn and isinstance(outcomes[encoder][0], str):
                        continue
                    texts = few if encoder == "tokenizers" else documents
                    python = sys.executable if encoder == "krill" else options.peers_python
                    outcomes[encoder].append(measure(encoder, file, texts, threads, python))
                for encoder, turns in outcomes.items():
                    found = median_turn(turns)
                    if isinstance(found, str):
                        print(f"{file.parent.name}, threads {threads}, {encoder}: {found}", flush=True)
                    else:
                        results.versions[encoder] = found["version"]
                        results.add(tokenizer=file.parent.name, threads=threads, **row(found, encoder))
        results.save()


if __name__ == "__main__":
    main()
