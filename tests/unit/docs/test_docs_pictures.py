"""Pictures and measured tables of the documentation are what their scripts draw, and all are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_pages import ALL_PAGES, ROOT

import charts
import diagrams
import results
import tables
import terminal

PICTURES, MEASURED = ROOT / "docs" / "pictures", ROOT / "docs" / "measured"
SVG = [*PICTURES.glob("*.svg"), *MEASURED.glob("*.svg")]
KEPT = sorted(file.stem for file in MEASURED.glob("*.json"))
LARGEST = 150_000


def pictures_of(page: Path) -> list[tuple[str, Path]]:
    """The pictures that a page shows: their alternative texts and files."""
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", text)
    for block in re.findall(r"<picture>.*?</picture>|<img[^>]*>", text, re.DOTALL):
        (alt,) = re.findall(r'<img[^>]*\balt="([^"]*)"', block)
        shown += [(alt, file) for file in re.findall(r'\bsrc(?:set)?="([^"]*)"', block)]
    return [(alt, (page.parent / file).resolve()) for alt, file in shown]


def test_every_picture_of_a_page_is_there_small_and_has_an_alternative_text() -> None:
    shown = {(page.name, *picture) for page in ALL_PAGES for picture in pictures_of(page)}
    assert len(shown) > 20
    for page, alt, file in shown:
        assert file.is_file(), f"{page} shows {file.name}"
        assert file.stat().st_size <= LARGEST, file.name
        assert len(alt.split()) >= 4, f"{page} shows {file.name} without words for those who can't see it"


def test_every_picture_is_shown_by_a_page() -> None:
    shown = {file for page in ALL_PAGES for _, file in pictures_of(page)}
    assert {file.name for file in {*SVG, *PICTURES.glob("*.webp")} - shown} == set()


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_a_diagram_is_the_one_that_is_drawn(name: str) -> None:
    written = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert written == diagrams.DIAGRAMS[name](), "`python docs/pictures/draw.py drawn` writes them anew"


@pytest.mark.parametrize("name", charts.CHARTS)
def test_a_chart_is_drawn_from_what_was_measured(name: str) -> None:
    written = (MEASURED / f"{name}.svg").read_text(encoding="utf-8")
    assert written == charts.draw(results.measured(name)), (
        "`python docs/pictures/draw.py drawn` writes it anew"
    )


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_what_was_measured(page: Path) -> None:
    written = page.read_text(encoding="utf-8")
    assert "<!-- measured: " in written
    assert written == tables.filled(written), "`python docs/pictures/draw.py drawn` writes them anew"


def test_all_that_was_measured_is_in_a_table() -> None:
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert {name.split("-")[0] for name in re.findall(r"<!-- measured: ([\w-]+) -->", benchmarks)} == set(
        KEPT
    )


@pytest.mark.parametrize("name", KEPT)
def test_what_was_measured_says_when_how_and_on_what(name: str) -> None:
    kept = results.measured(name)
    assert kept.name == name
    assert kept.to_json() == (MEASURED / f"{name}.json").read_text(encoding="utf-8")
    (script,) = set(re.findall(r"benchmarks/(\w+)\.py", kept.command))
    assert (ROOT / "benchmarks" / f"{script}.py").is_file()
    assert "cores" in kept.machine
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", row["date"]) for row in kept.rows)
    rows = [tuple(row.get(key) for key in kept.keys) for row in kept.rows]
    assert len(set(rows)) == len(rows)
    assert all(any(column.key in row for row in kept.rows) for column in kept.columns)


@pytest.mark.parametrize("file", SVG, ids=lambda file: file.name)
def test_a_drawing_loads_nothing_and_names_no_machine(file: Path) -> None:
    written = file.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"<\s)]*", written)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|<image|@import|url\((?!#)", written)
    assert "<title>" in written
    words = re.sub(r"<[^>]*>", " ", written)
    assert not re.search(r"(^|\s)/[a-z]+/", words), "an absolute path"
    # A paper of its own, so that it reads on any page; the terminal is always dark.
    if file.stem != "terminal":
        assert 'class="paper"' in written
        assert "prefers-color-scheme: dark" in written


def test_the_diagrams_name_packages_that_are_there() -> None:
    drawn = diagrams.shapes() + diagrams.way()
    packages = set(re.findall(r"\b([a-z]+)/(?!/)", re.sub(r"<[^>]*>", " ", drawn)))
    assert {name for name in packages if not (ROOT / "src" / "krill" / name).is_dir()} == {"native"}


def kept_results(**changed: float) -> results.Results:
    rows = {"Krill": 2.0, "peer": 8.0, **changed}
    columns = [results.Column("program", "program"), results.SECONDS, results.PEAK]
    made = results.Results(
        "clean_text", columns, "python benchmarks/clean_text.py", {"peer": "1"}, keys=("program",)
    )
    for program, seconds in rows.items():
        made.add(program=program, seconds=seconds, peak=100.0)
    return made


def test_bars_are_as_long_as_their_figures() -> None:
    drawn = charts.draw(kept_results())
    seconds = re.findall(r'<rect class="(ours|peer)" .*? width="([\d.]+)"', drawn)[:2]
    assert [kind for kind, _ in seconds] == ["ours", "peer"]
    assert float(seconds[1][1]) == 4 * float(seconds[0][1])
    assert ">8.0</text>" in drawn and ">100 MB</text>" in drawn


def test_a_benchmark_replaces_the_rows_that_it_measured_again_and_draws_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path))
    kept_results(other=3.0).save()
    (tmp_path / "clean_text.json").write_text(
        (tmp_path / "clean_text.json").read_text().replace(results.machine_in_words(), "64 cores")
    )
    again = kept_results()
    again.rows = [{**again.rows[0], "seconds": 1.5, "date": "2030-01-02"}]
    again.save()
    kept = results.load(tmp_path / "clean_text.json")
    assert [(row["program"], row["seconds"]) for row in kept.rows] == [
        ("Krill", 1.5),
        ("peer", 8.0),
        ("other", 3.0),
    ]
    assert [row["date"] == "2030-01-02" for row in kept.rows] == [True, False, False]
    # What stays was measured on the machine of then.
    assert [row.get("machine") for row in kept.rows] == [None, "64 cores", "64 cores"]
    assert kept.machine == results.machine_in_words()
    assert (tmp_path / "clean_text.svg").read_text() == charts.draw(kept)
    assert "| peer | 8.0 | 100 MB |" in kept.table()
    assert "| peer | 8.0 | 100 MB |" in capsys.readouterr().out


def test_rows_that_no_chart_shows_are_kept_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path))
    made = results.again("train_tokenizer")
    made.add(text="3 MB", trainer="Krill", budget="256MB", threads=1, seconds=1.0, rate=3.0, peak=100)
    made.save()
    assert [file.name for file in tmp_path.iterdir()] == ["train_tokenizer.json"]


def test_the_command_is_kept_without_places_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.argv", ["/home/me/benchmarks/encode.py", "--mb", "5", "--peers-python", "/opt/bin/python"]
    )
    monkeypatch.setenv("BENCH_MB", "7")
    command = "BENCH_MB=7 python benchmarks/encode.py --mb 5 --peers-python PATH"
    made = results.again("encode", "tokenizers", gigatoken="1.0")
    assert made.command == command
    assert made.versions.keys() == {"tokenizers", "gigatoken"}
    assert (made.rows, made.columns) == ([], results.measured("encode").columns)


def test_a_terminal_shows_what_is_left_on_its_screen(tmp_path: Path) -> None:
    program = r"printf 'half\033[2K\rwhole <&>\r\n\033[1mbold\033[0m \033[32mgreen\033[0m'"
    written = terminal.run(["sh", "-c", program], tmp_path)
    drawn = terminal.draw("command", written)
    lines = re.sub(r"<[^>]*>", "", drawn[drawn.index("<g class") :]).replace("&#160;", " ").split("\n")
    words = [line.strip() for line in lines if line.strip()]
    assert words == ["$ command", "whole &lt;&amp;&gt;", "boldgreen"]  # places, not spaces
    assert "half" not in drawn
    with pytest.raises(RuntimeError, match="ended with 3"):
        terminal.run(["sh", "-c", "exit 3"], tmp_path)
