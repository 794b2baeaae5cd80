"""Reports as a browser shows them: Chromium of the system, by day and by night, as WebP.

In: a page. Out: a picture of each of some tabs. Held in memory: the picture; the browser is another process.
"""

from __future__ import annotations

import base64
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
)
_WIDTH = 1040
# Where the next table or heading begins that is not in the picture, or else a folded text, or the page's end.
_END = """
const parts = [...document.querySelectorAll('caption, h3, details, footer')];
const shown = parts.filter(part => part.checkVisibility());
const end = shown.find(part => part.textContent.trim().startsWith(arguments[0]))
    ?? shown.find(part => part.matches('details, footer'));
return end.getBoundingClientRect().top + window.scrollY;
"""


@dataclass(frozen=True)
class View:
    """A tab of a report, from its top to what begins with `until`."""

    tab: str
    until: str
    file: Path


def take(page: Path, views: Sequence[View]) -> None:
    """A picture of each view: NAME.webp by day and NAME-dark.webp by night."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if browser is None or driver is None:
        sys.exit(
            "error: there is no Chromium with its driver here\nhint: apt-get install chromium chromium-driver"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    with webdriver.Chrome(options=options, service=Service(driver)) as window:
        for view in views:
            _take(window, page, view, "light", view.file)
            _take(window, page, view, "dark", view.file.with_stem(f"{view.file.stem}-dark"))


def _take(window: Any, page: Path, view: View, mode: str, file: Path) -> None:
    size = {"width": _WIDTH, "height": 900, "deviceScaleFactor": 1.5, "mobile": False}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": mode}
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    window.get("about:blank")
    window.get(f"{page.as_uri()}#{view.tab}")
    end = window.execute_script(_END, view.until)
    clip = {"x": 0, "y": 0, "width": _WIDTH, "height": end, "scale": 1}
    form = {"format": "webp", "quality": 80, "clip": clip, "captureBeyondViewport": True}
    taken = window.execute_cdp_cmd("Page.captureScreenshot", form)
    file.write_bytes(base64.b64decode(taken["data"]))
