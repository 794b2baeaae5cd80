"""The pages agree with each other and with the code: links, tables, the map of the packages, the site."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_pages import ALL_PAGES, DOCS, ROOT, quoted, table_rows

from krill import errors
from krill.budget import Kind
from krill.config import load_config
from krill.corpus.formats import COMPRESSIONS, FORMATS
from krill.pipeline.pipeline import preprocess_needs
from krill.pipeline.summary import NOTES, REASONS_BY_STAGES

BESIDE_PAGES = tuple(ROOT / "docs" / name for name in ("pictures", "measured", "notebooks"))
# Looked up, not read to the end.
REFERENCE = ("api.md", "config.md")
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
BUDGET, PREPROCESS, SOURCES = (ROOT / "docs" / name for name in ("budget.md", "preprocess.md", "sources.md"))


def anchors(page: Path) -> set[str]:
    """What a link may name behind `#`: headings as GitHub and MkDocs write them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for link in links:
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{page.name} links to {link}"
        inside = target in DOCS or target.parent in BESIDE_PAGES
        assert page not in DOCS or inside, f"{page.name} links out of the site: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize(
    "page", [page for page in DOCS if page.name not in REFERENCE], ids=lambda page: page.name
)
def test_every_page_ends_with_what_to_do_next(page: Path) -> None:
    last = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[-1]
    assert last.startswith(("Next\n", "Where to go\n"))
    assert re.search(r"\]\([\w/-]+\.(md|ipynb)[#)]", last)


def error_classes(base: type[errors.KrillError] = errors.KrillError) -> Iterator[type[errors.KrillError]]:
    yield base
    for below in base.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from error_classes(below)


def test_every_error_of_input_storage_and_budget_has_a_hint() -> None:
    told = {"InputError", "StorageError", "BudgetError"}
    without = []
    for file in sorted((ROOT / "src" / "krill").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in told:
                given = {keyword.arg for keyword in node.keywords}
                if given.isdisjoint({"hint", None}):
                    without.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert without == []


def test_the_exit_codes_are_those_of_the_errors() -> None:
    codes = {error.__name__: error.exit_code for error in error_classes()}
    rows = list(table_rows(PREPROCESS, "Exit codes"))
    assert {name: int(code) for code, names, _ in rows for name in quoted(names)} == codes
    assert {int(code) for code, _ in table_rows(README, "Exit codes")} == {0, *codes.values()}


def test_reasons_and_notes_are_those_that_are_counted() -> None:
    rows = list(table_rows(PREPROCESS, "What happens to a document"))
    assert [name for row in rows if len(row) == 3 for name in quoted(row[2])] == list(REASONS_BY_STAGES)
    assert [name for row in rows if len(row) == 2 for name in quoted(row[0])] == list(NOTES)


def test_the_formats_are_those_that_are_read() -> None:
    in_sources = {name for row in table_rows(SOURCES, "Formats") for name in quoted(row[1])}
    assert in_sources == set(FORMATS)
    in_readme = {name for row in table_rows(README, "Sources") for name in quoted(row[1])}
    assert {name for name in in_readme if name.startswith(".")} == {*FORMATS, *COMPRESSIONS}


def test_the_shares_are_those_of_the_plan(tmp_path: Path) -> None:
    by_library = {"model": None}
    native = {"normalizer": {"type": "NFC"}, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}
    shares = {}
    for number, tokenizer in enumerate((by_library, native)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        preprocess = {"output": "both", "dedup": "exact"}
        config = load_config({"tokenizer": {"path": str(folder)}, "preprocess": preprocess}, environ={})
        shares |= {need.name: (need.during, Kind(need.kind).value) for need in preprocess_needs(config, 2)}
    table = {
        quoted(name)[0]: (during, kind)
        for name, during, kind, _ in table_rows(BUDGET, "The plan")
        if quoted(name)
    }
    assert table == shares


def packages() -> list[str]:
    """The packages of the map, in its order."""
    return [quoted(package)[0].rstrip("/") for package, _ in table_rows(CONTRIBUTING, "The packages")]


def test_the_map_names_every_package() -> None:
    house = ROOT / "src" / "krill"
    there = {path.name for path in house.iterdir() if (path / "__init__.py").is_file()} | {
        "errors.py",
        "faults.py",
        "lazy.py",
        "notebook.py",
        "shards.py",
    }
    assert set(packages()) == there


def test_no_package_imports_one_below_it() -> None:
    order = [package.removesuffix(".py") for package in packages()]
    for place, package in enumerate(order):
        home = ROOT / "src" / "krill" / package
        for file in sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]:
            below = imported_packages(file) & set(order[place + 1 :])
            assert not below, f"{file.relative_to(ROOT)} imports {', '.join(sorted(below))}"


def imported_packages(file: Path) -> set[str]:
    """What a module imports from `krill`, wherever in it; a package's face may name types of any other."""
    modules: list[str] = []
    tree = ast.parse(file.read_text(encoding="utf-8"))
    if file.name == "__init__.py":
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return {module.split(".")[1] for module in modules if module.startswith("krill.")}


@pytest.mark.skipif(shutil.which("mkdocs", path=str(Path(sys.executable).parent)) is None, reason="no mkdocs")
def test_the_site_builds_strictly_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    mkdocs = Path(sys.executable).with_name("mkdocs")
    command = [mkdocs, "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert {page.stem for page in DOCS} <= {page.stem for page in (tmp_path / "site").glob("*.html")}
    check_search(tmp_path / "site")
    for page in (tmp_path / "site").glob("**/*.html"):
        loaded = re.findall(r'<(?:script|img|link)[^>]*?(?:src|href)="(https?://[^"]*)"', page.read_text())
        assert loaded == [], page.name


def check_search(site: Path) -> None:
    """Keys of the config and options of commands are words of the index, as they are typed."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    split = re.compile(index["config"]["separator"])
    texts = [re.sub(r"<[^>]*>", " ", page["text"]) for page in index["docs"]]
    words = {word for text in texts for word in split.split(text)}
    keys = {quoted(row[0])[0] for row in table_rows(ROOT / "docs" / "config.md", "`preprocess`")}
    assert keys > {"sequence_len", "prepared_path", "dedup"}
    assert keys <= words
    assert {"memory", "overwrite", "vocab"} <= words
