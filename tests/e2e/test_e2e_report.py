"""Reports in a real browser: Chromium of the system, driven by Selenium without a download of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import preloaded
from report_runs import HOSTILE, make_dataset, make_hostile_runs, make_tokenizer, make_training

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with its driver here")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
PAPER = 720
"""Pixels between the margins of a sheet of A4."""
# What a page must not say, by how axe-core calls it.
SERIOUS = ("serious", "critical")


class Browser:
    """A window of so many pixels, by day or by night."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")
        self.driver.get(page.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {script}", *arguments)

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def views(self) -> list[str]:
        return self.run("[...document.querySelectorAll('.view')].map(view => view.id)")

    def shown(self) -> list[str]:
        return self.run(
            "[...document.querySelectorAll('.view')].filter(view => !view.hidden).map(view => view.id)"
        )

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(120)
    yield Browser(driver)
    driver.quit()


def dataset_in(folder: Path) -> Path:
    """A run with examples of drops, a pair of near-duplicates, and memory over time."""
    folder = make_dataset(folder, documents=[HOSTILE * 8, "short", f"{HOSTILE[:30]} short"], sequence_len=512)
    example = {"stage": "resolve", "reason": "duplicate", "file": HOSTILE, "position": 3, "bytes": 9}
    kept = {"file": "kept.jsonl", "position": 1, "text": HOSTILE, "bytes": 9}
    with (folder / "examples.jsonl").open("a") as file:
        file.write(json.dumps({**example, "text": HOSTILE.replace("right", "wrong"), "kept": kept}) + "\n")
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every kind."""
    folder = tmp_path_factory.mktemp("pages")
    dataset = dataset_in(folder)
    trainings = make_training(folder / "a"), make_training(folder / "b", finished=False)
    runs = {
        "dataset": (dataset,),
        "tokenizer": (make_tokenizer(folder),),
        "training": trainings[1:],
        "compared": (dataset, *trainings),
    }
    for name, paths in runs.items():
        outcome = preloaded.run(["report", *paths, "--output", folder / f"{name}.html"])
        assert outcome.code == 0, outcome.stderr
    return {name: folder / f"{name}.html" for name in runs}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of runs that try to be obeyed, and of all of them beside each other."""
    folder = tmp_path_factory.mktemp("hostile")
    runs = make_hostile_runs(folder / "runs")
    for name, paths in {**{name: [path] for name, path in runs.items()}, "all": [*runs.values()]}.items():
        outcome = preloaded.run(["report", *paths, "--output", folder / f"{name}.html"])
        assert outcome.code == 0, outcome.stderr
    return {name: folder / f"{name}.html" for name in (*runs, "all")}


def test_documents_show_as_text_and_run_nothing(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["dataset"])
    assert browser.run("document.title") == "dataset: krill preprocess"
    assert browser.run("document.querySelectorAll('img, iframe, object, form').length") == 0
    assert browser.run("document.scripts.length") == 1
    texts = browser.run("[...document.querySelectorAll('pre')].map(pre => pre.textContent)")
    escaped = HOSTILE
    for character in "\x1b\x00\u202e\u202c":
        escaped = escaped.replace(character, ascii(character)[1:-1])
    assert any(escaped in text for text in texts)
    assert browser.errors() == []


@pytest.mark.parametrize("name", ["chat", "tokenizer", "lying", "all"])
def test_nothing_in_a_run_of_any_kind_is_obeyed(
    browser: Browser, hostile: dict[str, Path], name: str
) -> None:
    browser.open(hostile[name])
    title = browser.run("document.title")
    assert "krill" in title or " and " in title
    assert browser.run("document.querySelectorAll('img, iframe, object, form').length") == 0
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.querySelectorAll('style').length") == 1
    assert browser.run(
        "[...document.querySelectorAll('*')].every(e => !e.getAttributeNames().some("
        "name => name.startsWith('on')))"
    )
    shown = browser.run("document.documentElement.textContent")
    assert "<script>" in shown
    assert not set(shown) & set("\x00\x1b\u202e\u202c")
    assert browser.errors() == []


@pytest.mark.parametrize("name", ["dataset", "training", "compared"])
def test_every_chart_has_its_data_and_a_table(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    charts = browser.run(
        """[...document.querySelectorAll('figure')].map(figure => [
            figure.querySelector('[role=img]').ariaLabel.length,
            Math.max(...[...figure.querySelectorAll('svg path')].map(path => path.getTotalLength())),
            figure.querySelectorAll('table tbody tr').length])"""
    )
    assert len(charts) >= 2
    assert all(label > 10 and length > 100 and rows >= 2 for label, length, rows in charts), charts
    assert browser.errors() == []


def test_tabs_open_by_click_keys_and_address(browser: Browser, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.open(pages["dataset"])
    views = browser.views()
    assert browser.shown() == [views[0]]
    tabs = browser.driver.find_elements(By.CSS_SELECTOR, "[role=tab]")
    tabs[2].click()
    assert browser.shown() == [views[2]]
    browser.press(Keys.ARROW_RIGHT)
    assert browser.shown() == [views[3]]
    browser.press(Keys.END)
    assert browser.shown() == [views[-1]]
    browser.press(Keys.ARROW_RIGHT)
    assert browser.shown() == [views[0]]
    browser.press("2")
    assert browser.shown() == [views[1]]
    browser.run("location.hash = arguments[0]", f"#{views[3]}")
    assert browser.shown() == [views[3]]
    assert [tab.get_attribute("aria-selected") for tab in tabs].index("true") == 3
    assert browser.errors() == []


def test_a_table_is_sorted_by_its_numbers(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["dataset"])
    column = """[...document.querySelectorAll('#memory table')].at(-1).tBodies[0].rows"""
    values = f"[...{column}].map(row => Number(row.cells[4].dataset.value))"
    before = browser.run(values)
    click = "[...document.querySelectorAll('#memory table')].at(-1).tHead.rows[0].cells[4].firstChild.click()"
    browser.run(click)
    assert browser.run(values) == sorted(before, reverse=True)
    browser.run(click)
    assert browser.run(values) == sorted(before)
    names = f"[...{column}].map(row => row.cells[0].textContent)"
    browser.run(click.replace("cells[4]", "cells[0]"))
    assert browser.run(names) == sorted(browser.run(names), key=str.lower, reverse=True)


@pytest.mark.parametrize("width", [400, 1280])
def test_no_part_is_wider_than_the_window(browser: Browser, pages: dict[str, Path], width: int) -> None:
    for page in pages.values():
        browser.open(page, width=width)
        for view in browser.views():
            browser.run("location.hash = arguments[0]", f"#{view}")
            assert browser.run("document.documentElement.scrollWidth") <= width, (page.name, view)


def test_the_page_takes_the_colours_of_day_and_night(browser: Browser, pages: dict[str, Path]) -> None:
    colours = []
    for dark in (False, True):
        browser.open(pages["dataset"], dark=dark)
        body = browser.run("getComputedStyle(document.body).backgroundColor")
        line = browser.run("getComputedStyle(document.querySelector('#memory svg text')).fill")
        colours += [body, line]
    assert len(set(colours)) == 4


def test_everything_is_printed_on_white_and_within_the_paper(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["dataset"], width=PAPER, dark=True)
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [dark]})
    assert browser.run("document.documentElement.scrollWidth") <= PAPER
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    heights = browser.run(
        "[...document.querySelectorAll('.view')].map(view => view.getBoundingClientRect().height)"
    )
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert min(heights) > 50


@pytest.mark.parametrize("dark", [False, True], ids=["day", "night"])
@pytest.mark.parametrize("name", ["dataset", "tokenizer", "training", "compared"])
def test_an_automatic_check_of_accessibility_finds_nothing_serious(
    browser: Browser, pages: dict[str, Path], name: str, dark: bool
) -> None:
    import axe_core_python

    axe = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    browser.open(pages[name], dark=dark)
    browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})  # the page itself forbids scripts
    browser.run("document.querySelectorAll('details').forEach(details => { details.open = true })")
    for view in browser.views():
        browser.run("location.hash = arguments[0]", f"#{view}")
        found = browser.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run().then(result => done(result.violations))"
        )
        serious = [
            (rule["id"], rule["nodes"][0]["html"][:200]) for rule in found if rule["impact"] in SERIOUS
        ]
        assert serious == [], (name, view)
    levels = browser.run(
        "[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(heading => Number(heading.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
