"""`dedup.implementation: datatrove` keeps what datatrove's own pipeline keeps."""

from __future__ import annotations

import json
import random
from pathlib import Path

import krill
from peers import peer

peer("datatrove")
peer("spacy")  # datatrove splits English words with it

TEXT = "krill lives in all the oceans and eats algae while whales follow its swarms through cold water"
WORDS = TEXT.split()


def texts() -> list[str]:
    """Documents of which some are equal and some nearly so."""
    draw = random.Random(1)
    made: list[str] = []
    for _ in range(120):
        words = draw.choices(WORDS, k=60)
        made.append(" ".join(words))
        if draw.random() < 0.4:
            words[draw.randrange(60)] = "plankton"
            made.append(" ".join(words))
    draw.shuffle(made)
    return made


def peer_keeps(documents: list[str], folder: Path) -> list[str]:
    """datatrove's four stages, one rank each, as its example has them."""
    from datatrove.data import Document
    from datatrove.pipeline.dedup import MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets

    config = MinhashConfig()
    data = [Document(text, str(number)) for number, text in enumerate(documents)]
    MinhashDedupSignature(str(folder / "signatures"), config).run(data)
    buckets = MinhashDedupBuckets(str(folder / "signatures"), str(folder / "buckets"), config=config)
    for bucket in range(config.num_buckets):
        buckets.run(None, bucket, config.num_buckets)
    MinhashDedupCluster(str(folder / "buckets"), str(folder / "remove"), config).run(None, 0, 1)
    return [document.text for document in MinhashDedupFilter(str(folder / "remove")).run(data)]


def test_the_same_documents_are_kept(tmp_path: Path) -> None:
    documents = texts()
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (tmp_path / "input.jsonl").write_text(lines)
    settings = {
        "datasets": [{"path": str(tmp_path / "input.jsonl")}],
        "preprocess": {
            "prepared_path": str(tmp_path / "out"),
            "output": "text",
            "min_chars": 0,
            "dedup": {"method": "minhash", "implementation": "datatrove"},
        },
    }
    summary = krill.preprocess(settings, memory="500MB")
    import pyarrow.parquet as pq

    kept = pq.read_table(tmp_path / "out" / "text-00000.parquet", columns=["text"])["text"].to_pylist()
    expected = peer_keeps(documents, tmp_path / "peer")
    assert kept == expected
    assert 100 < len(kept) < len(documents)
    found = summary.manifest.extra["duplicates"]
    assert found["duplicates"] == len(documents) - len(kept)
    assert 0 < found["clusters"] <= found["duplicates"]
    assert not list(tmp_path.glob(".out*"))
