"""Reports say what runs did, escape what is in their documents, and say what they could not find."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import krill
from chat_jobs import conversations, json_rows, write_tokenizer
from krill.budget import format_size
from krill.errors import BudgetError, ConfigError, InputError, MissingExtra, StorageError
from krill.report.page import MOST_BYTES, write_report
from report_runs import (
    HOSTILE,
    SECRET,
    change_manifest,
    make_dataset,
    make_tokenizer,
    sentence,
)


def page_of(*paths: Path, samples: bool = True, memory: str = "8GB") -> str:
    """A page; other tests may have left much in this process."""
    output = paths[0].parent / "report.html"
    write_report([str(path) for path in paths], output, samples=samples, memory=memory)
    return output.read_text(encoding="utf-8")


def shown(page: str) -> str:
    """What a reader sees, without marks, in one line."""
    body = re.sub(r"<(script|style|svg).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("report"))


@pytest.fixture
def copied(dataset: Path, tmp_path: Path) -> Path:
    shutil.copytree(dataset, tmp_path / "dataset")
    return tmp_path / "dataset"


def test_a_dataset_says_why_documents_are_gone_and_how_much_memory_would_have_done(dataset: Path) -> None:
    text = shown(page_of(dataset))
    assert "61 of 64 kept (95.3%)" in text
    assert (
        '4.7% of the documents were dropped: duplicates (3.1%, dedup.method: "exact" );'
        " fewer than min_chars characters (1.6%, min_chars: 50 )." in text
    )
    manifest = json.loads((dataset / "krill-run.json").read_text())
    assert re.search(r"With the same number of threads, --memory \d+MB would have been enough", text)
    assert all(
        f"{share['name']} {share['during']} {share['kind']}" in text for share in manifest["budget"]["shares"]
    )
    assert all(stage["name"] in text for stage in manifest["stages"])
    assert "budget 400 MB predicted peak" in text


def test_the_budget_that_would_have_done_does(tmp_path: Path) -> None:
    text = shown(page_of(make_dataset(tmp_path)))
    found = re.search(r"--memory (\d+)MB would have been enough", text)
    assert found is not None
    settings = json.loads((tmp_path / "dataset" / "krill-run.json").read_text())["settings"]
    settings["preprocess"]["prepared_path"] = str(tmp_path / "again")
    summary = krill.preprocess(settings, memory=f"{found[1]}MB")
    assert summary.manifest.budget["measured_peak"] <= int(found[1]) * 10**6


def test_memory_over_time_is_drawn_with_its_table(copied: Path) -> None:
    samples = [[0, 10**8, 0], [1, 2 * 10**8, 5 * 10**6], [2, None, 5 * 10**6], [3, 3 * 10**8, 10**7]]
    stages = [{"name": "scan", "begun": 0.5, "ended": 2.5}]
    change_manifest(copied, timeline={"interval": 1, "samples": samples, "stages": stages})
    page = page_of(copied)
    figure = re.search(r"<figure>\s*<figcaption>Memory over time.*?</figure>", page, re.DOTALL)
    assert figure is not None
    rows = re.findall(r"<tr><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td></tr>", figure[0])
    budget = json.loads((copied / "krill-run.json").read_text())["budget"]
    shares = [share for share in budget["shares"] if share["during"] in ("always", "scan")]
    allowed = format_size(budget["base"] + sum(share["bytes"] for share in shares))
    assert rows == [
        ("0 s", "100 MB", "-"),
        ("1.0 s", "200 MB", allowed),
        ("2.0 s", "-", allowed),
        ("3.0 s", "300 MB", "-"),
    ]
    labels = re.findall(r"<text[^>]*>((?:budget|scan|start)[^<]*)</text>", figure[0])
    assert labels == ["start", "scan", "budget 400 MB"]
    assert "var(--line1)" in figure[0] and "var(--level)" in figure[0]
    assert "#0101" not in page and "#0102" not in page


def test_a_budget_far_above_what_was_held_is_named_at_the_top(copied: Path) -> None:
    manifest = json.loads((copied / "krill-run.json").read_text())
    change_manifest(copied, budget={**manifest["budget"], "limit": 64 * 10**9})
    assert re.search(r"<text[^>]*>\u2191 budget 64.0 GB</text>", page_of(copied))


def test_what_is_in_documents_shows_as_text(tmp_path: Path) -> None:
    page = page_of(make_dataset(tmp_path, documents=[HOSTILE * 8], sequence_len=512))
    assert "<script>document" not in page and "<img" not in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page)
    escaped = HOSTILE.replace("\x1b", r"\x1b").replace("\x00", r"\x00").replace("\u202e", r"\u202e")
    escaped = escaped.replace("\u202c", r"\u202c")
    assert " ".join(escaped.split()) in shown(page)


def test_samples_are_left_out_if_the_user_says_so(dataset: Path) -> None:
    assert SECRET in shown(page_of(dataset))
    without = page_of(dataset, samples=False)
    assert SECRET not in without and sentence(5)[:20] not in without
    assert "61 of 64 kept" in shown(without)


def test_the_page_loads_nothing_and_runs_its_own_script_alone(dataset: Path) -> None:
    page = page_of(dataset)
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    assert script is not None and page.count("<script") == 1
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    assert not re.search(r"(?:src|href)=\"(?!#)|https?://(?!www\.w3\.org/)|url\((?!#)", page)
    assert len(page.encode()) <= MOST_BYTES
    names = re.findall(r" id=\"([^\"]*)\"", page)
    assert len(names) == len(set(names))


def test_examples_stand_under_their_reasons_and_duplicates_beside_what_was_kept(dataset: Path) -> None:
    page = page_of(dataset)
    short = re.search(
        r"<summary>fewer than min_chars characters: 1 of 1 document</summary>(.*?)</details>", page, re.DOTALL
    )
    assert short is not None and "too short</pre>" in short[1]
    beside = re.findall(
        r"<h3>Pair \d: the texts are equal</h3>\s*<div class=\"beside\">(.*?)</div>\s*</div>",
        page,
        re.DOTALL,
    )
    assert len(beside) == 2
    assert all(pair.count("<pre") == 1 and pair.count(SECRET) >= 2 for pair in beside)
    assert all(re.search(r"<h4>kept: [^<]*; dropped: [^<]*</h4>", pair) for pair in beside)


def test_copies_of_one_document_stand_beside_it_and_large_clusters_first(copied: Path) -> None:
    def twin(kept: int, text: str) -> dict[str, object]:
        first = {"file": "a", "position": kept, "text": "the whale eats krill"}
        return {"stage": "resolve", "reason": "duplicate", "file": "b", "text": text, "kept": first}

    lines = [twin(1, "the whale eats krill"), *(twin(2, f"the whale eats {n} krill") for n in range(5))]
    (copied / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = page_of(copied)
    headings = re.findall(r"<h3>((?:Pair|Cluster).*?)</h3>", page)
    assert headings == [
        "Cluster 1, 5 of its copies: 7.0% of the characters differ",
        "Pair 2: the texts are equal",
    ]
    cluster = page[page.index("Cluster 1") : page.index("Pair 2")]
    assert cluster.count("<pre") == 4
    assert re.findall(r'<mark class="(\w+)">(.*?)</mark>', cluster) == [("added", f"{n} ") for n in range(3)]


def test_the_largest_clusters_stand_before_examples_by_their_size(copied: Path) -> None:
    def twin(at: int, kept: int, **more: int) -> dict[str, object]:
        first = {"file": "a", "position": kept, "text": f"the whale {kept}"}
        found = {"stage": "resolve", "reason": "duplicate", "file": "b", "position": at, "kept": first}
        return {**found, "text": f"the whale {at}", **more}

    lines = [twin(9, 1), *(twin(at, 2) for at in (5, 4, 3)), twin(30, 20)]
    lines += [
        *(twin(at, 1, cluster=70) for at in (7, 8, 9)),
        *(twin(at, 20, cluster=1234) for at in (28, 29)),
    ]
    (copied / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = page_of(copied)
    headings = [text.split(":")[0] for text in re.findall(r"<h3>((?:Pair|Cluster).*?)</h3>", page)]
    assert headings == ["Cluster 1, 1,234 documents", "Cluster 2, 70 documents", "Cluster 3, 3 of its copies"]
    places = re.findall(r"(?:kept|dropped): [ab], at (\d+)", page)
    once = list(dict.fromkeys(places))  # a heading is a label, too
    assert once == ["20", "28", "29", "30", "1", "7", "8", "9", "2", "5", "4", "3"]
    assert "The largest clusters come first." in page


def test_examples_take_no_more_of_the_page_than_their_part(copied: Path) -> None:
    example = {"stage": "scan", "reason": "language", "file": "a", "text": "<" * 2000}
    twin = {**example, "reason": "duplicate", "text": "a <b> " * 300, "kept": {"text": "a &b& " * 300}}
    lines = [{**example, "reason": f"language{number % 50}"} for number in range(2000)] + [twin] * 50
    (copied / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert 500_000 < len(page_of(copied)) < MOST_BYTES


def test_a_dataset_says_how_long_documents_are_and_what_each_source_gave(dataset: Path) -> None:
    text = shown(page_of(dataset))
    found = json.loads((dataset / "krill-run.json").read_text())["distributions"]
    assert sum(found["document_bytes"]) == 61
    for power, number in enumerate(found["document_bytes"]):
        if number:
            assert f"{2 ** (power - 1):,} to {2**power - 1:,} {number} {number / 61:.1%}" in text
    source = found["sources"][0]
    assert f"{source['source']} 64 61 95.3% duplicates" in text


def test_two_runs_are_compared_by_what_differs(dataset: Path, tmp_path: Path) -> None:
    other = make_dataset(tmp_path, "other", sequence_len=64, min_chars=400)
    text = shown(page_of(dataset, other))
    assert "2 runs compared" in text
    assert "preprocess.sequence_len 128 64" in text
    assert "preprocess.min_chars 50 400" in text
    assert re.search(r"documents kept 61 (\d+) -\d+\.\d%", text)
    assert re.search(r"documents read 64 64 0%", text)
    assert "Memory of the runs over time" in text
    assert (
        "preprocess.dedup.method"
        not in text.partition("Keys of the config that differ")[2]
        .partition("Made by")[0]
        .partition("Overview")[0]
    )


def test_a_tokenizer_shows_texts_by_its_tokens(tmp_path: Path) -> None:
    from krill.tokenizer.sample_texts import SAMPLE_TEXTS

    folder = make_tokenizer(tmp_path)
    page = page_of(folder)
    tokenizer = krill.tokenizer.load(folder)
    for what, text in SAMPLE_TEXTS.items():
        assert f"{what}: {len(tokenizer.encode(text))} tokens" in page
    english = re.search(r"English: \d+ tokens</h3>\s*<pre[^>]*>\n(.*?)</pre>", page, re.DOTALL)
    assert english is not None
    marks = re.findall(r"<mark class=\"token\d\" title=\"id (\d+)\">(.*?)</mark>", english[1])
    assert [int(number) for number, _ in marks] == tokenizer.encode(SAMPLE_TEXTS["English"]).tolist()
    assert html.unescape("".join(text for _, text in marks)) == SAMPLE_TEXTS["English"]
    assert "Tokens by script" in page and "Tokens by length" in page


def test_the_same_texts_stand_under_several_tokenizers(tmp_path: Path) -> None:
    small, large = make_tokenizer(tmp_path, "small", 300), make_tokenizer(tmp_path, "large", 500)
    (large / "krill-run.json").unlink()  # somebody else's
    text = shown(page_of(small, large))
    assert "The same texts by several tokenizers" in text
    assert "Bytes per token text small large English" in text


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        (
            {"documents": {"read": 10, "kept": 61, "dropped": {}, "notes": {}}},
            ": 10 read are not 61 kept and 0 dropped",
        ),
        ({"documents": "many"}, "documents is not an object: 'many'"),
        ({"budget": None}, "budget is missing"),
        (
            {"timeline": {"samples": [[0, "x", 1], 5, [1, 2]], "stages": [{"name": 3}]}},
            "stages[0].name is not a text: 3",
        ),
        ({"stages": [{"name": "scan", "seconds": "long"}]}, "stages[0].seconds is not a number: 'long'"),
        ({"format": 2, "krill": "9.9"}, "format is 2, and this version knows 1"),
        ({"config": [1, 2]}, "config is not an object: [1, 2]"),
    ],
)
def test_a_manifest_that_lies_makes_a_report_that_says_so(
    copied: Path, fields: dict[str, object], fact: str
) -> None:
    change_manifest(copied, **fields)
    assert fact in shown(page_of(copied))


def test_a_run_of_another_version_says_which(copied: Path) -> None:
    change_manifest(copied, krill="0.0.7")
    assert "Made by Krill 0.0.7; this report was made by" in shown(page_of(copied))


def test_what_an_older_run_did_not_keep_is_left_out_or_said_to_be(copied: Path) -> None:
    (copied / "examples.jsonl").unlink()
    change_manifest(copied, distributions=None, duplicates=None, predicted=None)
    text = shown(page_of(copied))
    assert "This run kept no examples of dropped documents" in text
    assert "61 of 64 kept" in text
    assert "Documents in rows by tokens (" in text


def test_an_export_has_a_report_of_its_own(dataset: Path, tmp_path: Path) -> None:
    krill.export(dataset, to="jsonl", output=tmp_path / "lines")
    text = shown(page_of(tmp_path / "lines"))
    assert "lines: krill export" in text and "finished" in text
    assert "written as jsonl" in text and re.search(r"Files that were written .* train\S*\.jsonl train \d", text)
    assert "Memory over time" in text


def test_conversations_show_what_is_learned(tmp_path: Path) -> None:
    chats = conversations(40)
    write_tokenizer(tmp_path / "model")
    (tmp_path / "chats.jsonl").write_bytes(json_rows([*chats, []]))
    krill.preprocess(
        {
            "datasets": [{"path": str(tmp_path / "chats.jsonl"), "type": "chat_template"}],
            "tokenizer": {"path": str(tmp_path / "model")},
            "chat_template": "chatml",
            "preprocess": {
                "prepared_path": str(tmp_path / "out"),
                "sequence_len": 256,
                "min_length": 0,
                "on_error": "skip",
            },
        },
        memory="400MB",
    )
    page = page_of(tmp_path / "out")
    learned = html.unescape("".join(re.findall(r'<mark class="learned">(.*?)</mark>', page, re.DOTALL)))
    answers = {turn["content"] for chat in chats for turn in chat if turn["role"] == "assistant"}
    assert learned and {text for text in learned.split("<|im_end|>") if text} <= answers
    tokens = json.loads((tmp_path / "out" / "krill-run.json").read_text())["tokens"]
    assert f"{tokens['trained']:,} of {tokens['kept']:,}" in page
    assert "no messages: 1 of 1 document" in page


def test_rows_that_are_gone_are_said_to_be(copied: Path) -> None:
    for shard in copied.glob("*.arrow"):
        shard.unlink()
    assert "The rows cannot be read" in shown(page_of(copied))


def test_a_run_that_kept_no_timeline_says_so(copied: Path) -> None:
    change_manifest(copied, timeline=None)
    assert "There is no chart of memory over time" in shown(page_of(copied))


def test_without_matplotlib_the_extra_is_named(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match="a report needs the extra `report`"):
        page_of(dataset)


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.txt").write_text("text")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "krill-run.json").write_text('{"command": ')
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "krill-run.json").write_text("[]")
    facts = {
        "nothing": "does not exist",
        "folder": "is not the output of a run",
        "file.txt": "is a file",
        "damaged": "is not valid JSON",
        "listed": "is not a JSON object",
    }
    for name, fact in facts.items():
        with pytest.raises(InputError, match=fact):
            page_of(tmp_path / name)
    assert not (tmp_path / "report.html").exists()


def test_a_budget_that_is_too_small_and_an_output_that_is_a_folder_are_refused(
    dataset: Path, tmp_path: Path
) -> None:
    with pytest.raises(BudgetError, match="the budget is too small"):
        page_of(dataset, memory="20MB")
    with pytest.raises(ConfigError, match="is a folder"):
        write_report([str(dataset)], tmp_path)
    (tmp_path / "notes.html").write_text("<!doctype html>")
    with pytest.raises(StorageError, match="is not a report: it was not touched"):
        write_report([str(dataset)], tmp_path / "notes.html")
    assert (tmp_path / "notes.html").read_text() == "<!doctype html>"
    with pytest.raises(ConfigError, match="7 runs are named"):
        write_report(["a"] * 7, tmp_path / "report.html")
