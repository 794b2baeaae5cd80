"""A report: one page that needs nothing else, for one run or several.

In: paths of runs. Out: HTML, whole or absent. Held in memory: what the page shows, and Matplotlib.

Everything that comes from data passes two gates on its way into the template: characters that a browser would
obey instead of showing (`errors.escape`), then Jinja's own escaping. The page may load nothing and run
nothing but its own script, by a Content-Security-Policy with the script's hash.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from krill.budget import Meter, Need, format_size, resolve_limit
from krill.errors import ConfigError, InputError, StorageError, escape
from krill.report.charts import CHART
from krill.report.common import fault_notes
from krill.report.comparison import comparison_section
from krill.report.dataset import dataset_sections
from krill.report.other import other_sections
from krill.report.parts import PageSection
from krill.report.runs import ReportedRun, open_run
from krill.report.tokenizer import tokenizer_sections, tokenizers_section
from krill.report.training import training_sections, trainings_section
from krill.storage.atomic import write_bytes
from krill.storage.input_file import open_regular

MOST_RUNS: Final = 6
"""As many as there are colours for their lines."""
MOST_BYTES: Final = 2_000_000
# What examples of documents take of it at most.
_EXAMPLES: Final = 1_000_000
# Measured above what is held when it is planned: 57 MB for 16 charts of two trainings, with Matplotlib. What
# rows and tokenizers need besides is planned when they are read; with 120 MB a page is made without rows.
_PAGE: Final = 60_000_000
# By which a report is known as one, in its first bytes.
_OURS: Final = b'<meta name="generator" content="krill report">'
_HEAD: Final = 200
_HERE: Final = Path(__file__).parent
_TRAININGS: Final = ("train", "qa train")
TOKENIZERS: Final = ("tokenizer", "tokenizer train", "train-tokenizer")


@dataclass(frozen=True, slots=True)
class View:
    """What one tab shows; `named` if its sections have headings of their own."""

    key: str
    title: str
    sections: Sequence[PageSection]
    named: bool = True


@dataclass(frozen=True, slots=True)
class ReportPage:
    title: str
    subtitle: str
    views: Sequence[View]


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """Where the page is, how large it is, and which runs it shows."""

    output: Path
    bytes: int
    runs: Sequence[ReportedRun]

    def to_json(self) -> dict[str, Any]:
        runs = [{"path": run.path, "command": run.command, "state": run.state} for run in self.runs]
        return {"output": str(self.output), "bytes": self.bytes, "runs": runs}


def write_report(
    paths: Sequence[str], output: str | Path, *, samples: bool = True, memory: str | int = "auto"
) -> ReportSummary:
    """Write the page of one run, or of several that are compared."""
    if not 1 <= len(paths) <= MOST_RUNS:
        raise ConfigError(
            f"{len(paths)} runs are named, and a report shows 1 to {MOST_RUNS}", hint="make several reports"
        )
    limit, target = resolve_limit(memory), Path(output)
    check_target(target)
    with Meter(limit) as meter:
        meter.plan([Need("the page", _PAGE)])
        runs = [open_run(path, limit) for path in dict.fromkeys(paths)]
        written = write_page(make_page(runs, samples=samples, memory=memory), target)
    return ReportSummary(target, written, runs)


def write_page(page: ReportPage, target: Path) -> int:
    """Write a page, and say how many bytes it has."""
    html = render(page).encode()
    if len(html) > MOST_BYTES:
        raise InputError(
            f"the report of these runs would have {format_size(len(html))}, and a page has at"
            f" most {format_size(MOST_BYTES)}",
            hint="add --no-samples, or name fewer runs",
        )
    write_bytes(target, html)
    return len(html)


def check_target(target: Path) -> None:
    """The page may replace another report, and nothing else."""
    if target.is_dir():
        raise ConfigError(f"--output `{target}` is a folder", hint=f"--output {target / 'report.html'}")
    if target.is_symlink() or target.exists():
        with suppress(OSError), open_regular(target) as file:
            if _OURS in file.read(_HEAD):
                return
        raise StorageError(f"`{target}` is not a report: it was not touched", hint="choose another --output")


def make_page(runs: Sequence[ReportedRun], *, samples: bool, memory: str | int) -> ReportPage:
    room = _EXAMPLES // len(runs)
    made = [_sections(run, samples, memory, room) for run in runs]
    for run, sections in zip(runs, made, strict=True):
        sections[0].parts[:0] = fault_notes(run)
    if len(runs) == 1:
        views = [View(section.key, section.title, [section], named=False) for section in made[0]]
        return ReportPage(f"{runs[0].name}: krill {runs[0].command}", runs[0].path, views)
    names = names_of(runs)
    compared: list[PageSection] = []
    trainings = [(name, run) for name, run in zip(names, runs, strict=True) if run.command in _TRAININGS]
    tokenizers = [(name, run) for name, run in zip(names, runs, strict=True) if run.command in TOKENIZERS]
    compared += [trainings_section(trainings)] if len(trainings) > 1 else []
    compared += [tokenizers_section(tokenizers, memory)] if len(tokenizers) > 1 else []
    compared.append(comparison_section(runs, names))
    views = [View("compare", "Compared", compared)]
    for place, (name, sections) in enumerate(zip(names, made, strict=True)):
        views.append(View(f"run{place + 1}", name, sections))
    title = f"{', '.join(names[:-1])} and {names[-1]}"
    return ReportPage(title, f"{len(runs)} runs compared", views)


def names_of(runs: Sequence[ReportedRun]) -> list[str]:
    """Short names, or whole paths where two are the same."""
    short = [run.name for run in runs]
    return short if len(set(short)) == len(short) else [run.path for run in runs]


def _sections(run: ReportedRun, samples: bool, memory: str | int, room: int) -> list[PageSection]:
    if run.command == "preprocess":
        return dataset_sections(run, memory, samples, room)
    if run.command in _TRAININGS:
        return training_sections(run)
    if run.command in TOKENIZERS:
        return tokenizer_sections(run, memory, samples)
    return other_sections(run)


def render(page: ReportPage) -> str:
    from jinja2 import Environment, StrictUndefined

    numbers = itertools.count(1)

    def numbered(svg: str) -> Markup:
        return Markup(svg.replace(CHART, f"chart{next(numbers)}"))

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"numbered": numbered, "code": _code}
    script = (_HERE / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    from krill import __version__

    return environment.from_string((_HERE / "template.html").read_text(encoding="utf-8")).render(
        page=page,
        script=Markup(script),
        script_hash=digest,
        style=Markup((_HERE / "style.css").read_text(encoding="utf-8")),
        version=__version__,
    )


def _code(text: str) -> Markup:
    """What stands between backticks as code."""
    parts = [Markup("{}").format(escape(part)) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part for place, part in enumerate(parts)
    )


def _shown(value: Any) -> Any:
    """Text as a browser may show it; what is markup is ours."""
    return escape(value) if isinstance(value, str) and not isinstance(value, Markup) else value
