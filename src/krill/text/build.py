"""The steps of a config, in the order in which documents pass through them, and what they hold.

In: the section `preprocess`. Out: the list of steps, everything that they need loaded and checked, so that a
pattern that doesn't compile, a language that isn't known or a function that can't be imported is reported
before anything is read. Held in memory: the steps; `step_needs` says for the plan how much that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from krill.budget import Kind, Need
from krill.config import filters
from krill.config.fields import Section
from krill.config.preprocess import PreprocessConfig
from krill.corpus.documents import BLOCKS_PER_UNIT
from krill.corpus.long_records import NO_LONG_RECORDS, LongRecords
from krill.text import blocklist, fasttext, language, quality, url_filter
from krill.text.blocklist import BlockListFilter, blocklist_bytes, searching_bytes
from krill.text.clean import CleanText, LongEnough
from krill.text.control_chars import WithoutControlChars
from krill.text.datatrove_filter import DatatroveFilter, datatrove_need, judged_by_datatrove
from krill.text.fasttext import FASTTEXT_MODELS, FastTextFilter, FastTextLanguages, fasttext_needs
from krill.text.ftfy_repair import FtfyRepair, ftfy_need
from krill.text.language import LanguageFilter
from krill.text.language_model import LANGUAGE_BYTES, LANGUAGE_LOADING_BYTES, LANGUAGE_THREAD_BYTES, load
from krill.text.line_cleaner import LineCleaner, lines_bytes
from krill.text.step import Fingerprinted, NamesReasons, Step
from krill.text.url_filter import UrlFilter, url_bytes, url_searching_bytes
from krill.text.user_step import Function, FunctionStep

REASONS: Final[Mapping[str, str]] = {
    **quality.REASONS,
    **language.REASONS,
    **blocklist.REASONS,
    **url_filter.REASONS,
    **fasttext.REASONS,
}
"""Why filters drop documents, for people; a user's step drops them as `step:NAME`."""

KEYS: Final[Mapping[str, str]] = {**quality.KEYS, **language.KEYS}
"""The key whose value decides that a filter drops a document, where it is one: `FILTER.KEY`."""

LOADING: Final = "load"
"""The stage before all others, in which models are read."""

JUDGED_BYTES: Final = 8_000_000
"""What filters that judge words are expected to hold at least, with the gaps that they leave in the heap."""

LANGUAGE_MODEL: Final = "the language model"
PATTERNS: Final = "patterns of block lists"
URL_LISTS: Final = "lists of URLs"
HELD_ALWAYS: Final = (LANGUAGE_MODEL, PATTERNS, URL_LISTS, FASTTEXT_MODELS)
"""What is held in every stage, not only while documents pass the steps."""

_CHANGE_TEXT: Final = (
    filters.C4,
    filters.RepeatedLines,
    filters.RepeatedParagraphs,
    filters.Ftfy,
    filters.ControlChars,
    filters.Lines,
    filters.UserStep,
)


def steps_of(settings: PreprocessConfig, extra: Sequence[Function] = ()) -> list[Step]:
    """Cleaning, limits of length, the filters in their order, and at last the functions in `extra`."""
    steps: list[Step] = [CleanText(settings.strip, settings.min_chars)]
    limits = quality.length_step(settings.min_words, settings.max_words, settings.max_chars)
    if limits is not None:
        steps.append(limits)
    steps += filter_steps(settings)
    for function in extra:
        steps += [FunctionStep.of(function), *_still_long_enough(settings)]
    return steps


def filter_steps(settings: PreprocessConfig, *, label: bool = False) -> list[Step]:
    """The filters alone, in their order; what changes text is followed by the limit of length. With `label`,
    every document has the language that was found, whether it is dropped or not."""
    steps: list[Step] = []
    for group in _grouped(settings.filters):
        steps.append(_step(group, statistics=settings.statistics, label=label))
        if any(isinstance(section, _CHANGE_TEXT) for section in group):
            steps += _still_long_enough(settings)
    return steps


def changes_text(settings: PreprocessConfig) -> bool:
    """Whether a filter may leave another text of a document than it had."""
    return any(isinstance(section, _CHANGE_TEXT) for section in settings.filters)


def judges_words(settings: PreprocessConfig) -> bool:
    """Whether a filter holds the words or lines of a document beside it."""
    return any(map(_judged_here, settings.filters))


def _still_long_enough(settings: PreprocessConfig) -> list[Step]:
    return [LongEnough(settings.min_chars)] if settings.min_chars > 0 else []


def fingerprints_of(steps: Sequence[Step]) -> list[str]:
    """What shapes the result besides the config: the code of user steps, the patterns in files, the
    version of datatrove where it filters."""
    found = (step.fingerprint() for step in steps if isinstance(step, Fingerprinted))
    return [fingerprint for fingerprint in found if fingerprint]


def reasons_of(steps: Sequence[Step]) -> list[str]:
    """Why the steps drop documents, in the order in which a document meets the reasons."""
    named = (step.reasons for step in steps if isinstance(step, NamesReasons))
    return list(dict.fromkeys(reason for reasons in named for reason in reasons))


def step_needs(
    settings: PreprocessConfig,
    threads: int,
    extra: Sequence[Function] = (),
    *,
    made: bool = False,
    long: LongRecords = NO_LONG_RECORDS,
) -> list[Need]:
    """What the steps hold besides batches; if they are `made`, what they will hold on top of what they do.
    `long` says how long documents are, if some are known to be above a block."""
    groups = list(_grouped(settings.filters))
    kinds = {type(section) for group in groups for section in group}
    needs = []
    judged = [group for group in groups if _judged_here(group[0])]
    if judged:
        scratch = sum(quality.scratch_bytes(group, settings.max_document_bytes, threads) for group in judged)
        expected = sum(quality.expected_scratch_bytes(group, long.longest, threads) for group in judged)
        expected = max(expected, JUDGED_BYTES)
        needs.append(Need("quality filters", scratch, expected=expected))
    if any(isinstance(section, filters.Language) and section.model is None for section in settings.filters):
        held = 0 if made else LANGUAGE_BYTES
        expected = held + threads * LANGUAGE_THREAD_BYTES // 2
        needs.append(Need(LANGUAGE_MODEL, held + threads * LANGUAGE_THREAD_BYTES, expected=expected))
        if not made:
            needs.append(Need("reading the language model", LANGUAGE_LOADING_BYTES, during=LOADING))
    blocklists = [section for section in settings.filters if isinstance(section, filters.BlockList)]
    if blocklists:
        each = sum(searching_bytes(section, settings.max_document_bytes) for section in blocklists)
        likely = min(each, long.longest) * min(threads, long.together)
        needs.append(Need("block lists", threads * each, expected=likely))
        if not made:
            needs.append(Need(PATTERNS, sum(map(blocklist_bytes, blocklists))))
    url_filters = [section for section in settings.filters if isinstance(section, filters.Url)]
    if url_filters:
        each = sum(url_searching_bytes(section, settings.max_document_bytes) for section in url_filters)
        needs.append(Need("patterns in URLs", threads * each, expected=0))
        if not made:
            needs.append(Need(URL_LISTS, sum(map(url_bytes, url_filters)), remedy="shorten the lists"))
    needs += fasttext_needs(settings.filters, settings.max_document_bytes, threads, made=made, long=long)
    if filters.Ftfy in kinds:
        needs.append(ftfy_need(settings.max_document_bytes, long))
    cleaners = [section for section in settings.filters if isinstance(section, filters.Lines)]
    if cleaners:
        needs.append(Need("lines to remove", sum(map(lines_bytes, cleaners))))
    if any(map(judged_by_datatrove, settings.filters)):
        needs.append(datatrove_need(settings.max_document_bytes))
    if filters.UserStep in kinds or extra:
        # Somebody else's code: taken to hold a batch twice over.
        batch = max(settings.unit_bytes // BLOCKS_PER_UNIT, settings.max_document_bytes)
        needs.append(Need("steps of your own", threads * 2 * batch, Kind.WATCHED))
    return needs


def _grouped(sections: Sequence[Section]) -> Iterator[list[Section]]:
    """Consecutive quality filters together, for they share their words; every other section alone."""
    group: list[Section] = []
    for section in sections:
        if group and not (_judged_here(section) and _judged_here(group[-1])):
            yield group
            group = []
        group.append(section)
    if group:
        yield group


def _judged_here(section: Section) -> bool:
    return isinstance(section, quality.JUDGED) and not judged_by_datatrove(section)


def _step(group: Sequence[Section], *, statistics: bool, label: bool) -> Step:
    match group[0]:
        case filters.JudgedSection(implementation="datatrove") as section:
            return DatatroveFilter(section)
        case filters.Language() as section:
            model = load() if section.model is None else FastTextLanguages.load(section.model)
            return LanguageFilter(section, statistics, label, model)
        case filters.FastText() as section:
            return FastTextFilter(section, statistics)
        case filters.BlockList() as section:
            return BlockListFilter(section)
        case filters.Url() as section:
            return UrlFilter(section)
        case filters.Ftfy() as section:
            return FtfyRepair(section)
        case filters.ControlChars():
            return WithoutControlChars()
        case filters.Lines() as section:
            return LineCleaner(section)
        case filters.UserStep() as section:
            return FunctionStep.named(section.function)
        case _:
            return quality.quality_step(group, statistics=statistics)
