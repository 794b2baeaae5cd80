"""A slow reference of masks: a template's own renderings of prefixes, character by character, and a tokenizer
of Hugging Face in which control tokens have other names, so that those in a row's text are text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

Message = dict[str, Any]
Span = tuple[int, int]
SWITCHES: tuple[dict[str, bool], ...] = (
    {},
    *({name: value} for name in ("enable_thinking", "thinking") for value in (False, True)),
)
_LIKE_CONTROL = re.compile(
    r"<\|[^\s<>|]+\|?>|<[^\s<>|/]+\|>|<\uff5c[^<>\uff5c]+\uff5c>|</?s>|<\w+_of_\w+>|\[gMASK\]|<[se]op>"
)
_HIDDEN = "\uf8ff"
_NAMES = ("role", "name", "id", "tool_call_id", "type")


class Refused(Exception):
    """The template does not render that."""


class Unknown(Exception):
    """The reference does not know where something stands."""


@dataclass(slots=True)
class Case:
    """A row as a person reads it, and what was asked for."""

    messages: list[Message]
    trained: list[bool]
    details: list[list[Span] | None]
    tools: list[Any] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    train_on_eos: str = "turn"
    mode: str = "last"
    guards: bool = True
    """Whether control tokens of the row stay text."""
    adapted: Callable[[Message], Message] = lambda message: message
    """A message as the template wants it."""

    def others(self) -> list[int]:
        return [n for n, m in enumerate(self.messages) if self.trained[n] and m["role"] != "assistant"]

    def wanted(self) -> list[int]:
        return [n for n, m in enumerate(self.messages) if self.trained[n] and m["role"] == "assistant"]


@dataclass(slots=True)
class Sample:
    """A rendering of the first messages with the turns to train on."""

    messages: int
    text: str
    turns: list[tuple[int, int, int]]
    """Message, begin, end."""


class Reference:
    """A template with its tokenizer."""

    def __init__(self, source: str, tokenizer: str, special: Mapping[str, str], *, marked: bool) -> None:
        self._source, self._special, self._marked = source, special, marked
        parsed = json.loads(tokenizer)
        added = {token["content"]: bool(token["special"]) for token in parsed["added_tokens"]}
        self._twins = {text: chr(0x100000 + number) for number, text in enumerate(added)}
        for token in parsed["added_tokens"]:
            token["content"] = self._twins[token["content"]]
        vocabulary = parsed["model"]["vocab"]
        for text in vocabulary.keys() & self._twins.keys():
            vocabulary[self._twins[text]] = vocabulary.pop(text)
        self._tokenizer = Tokenizer.from_str(json.dumps({**parsed, "post_processor": None}))
        self.hostile = [
            text for text, is_special in added.items() if is_special or _LIKE_CONTROL.fullmatch(text)
        ]
        written = re.sub("{#.*?#}", "", source, flags=re.DOTALL)
        self.tags = [text for text in added if text not in self.hostile and text in written]
        self._tokens = _any_of(added)
        self._own = _any_of(self.hostile)
        self._all = _any_of([*self.hostile, *self.tags])

    def render(self, case: Case, messages: Sequence[Message], prompt: bool = False, **switch: bool) -> str:
        return self._render(case, messages, prompt, marks=False, **switch)[0]

    def _render(
        self, case: Case, messages: Sequence[Message], prompt: bool, *, marks: bool, **switch: bool
    ) -> tuple[str, list[Span]]:
        try:
            texts, spans = render_jinja_template(
                [[case.adapted(message) for message in messages]],
                tools=case.tools,
                chat_template=self._source,
                return_assistant_tokens_mask=marks,
                add_generation_prompt=prompt,
                **{**self._special, **case.kwargs, **switch},
            )
        except Exception as error:
            raise Refused(str(error)) from None
        return texts[0], [(begin, end) for begin, end in spans[0]] if marks else []

    def samples(self, case: Case) -> tuple[list[Sample], list[int]]:
        """The samples in order, and the turns that can't be trained."""
        count = len(case.messages)
        if self._marked:
            text, spans = self._render(case, case.messages, False, marks=True)
            answers = [n for n, m in enumerate(case.messages) if m["role"] == "assistant"]
            if len(answers) == len(spans):
                turns = [(n, *span) for n, span in zip(answers, spans, strict=True) if case.trained[n]]
            elif case.wanted() == answers and not case.others() and not any(case.details):
                turns = [(answers[-1], *span) for span in spans]
            else:
                raise Unknown("marks")
            return [Sample(count, text, turns)], []
        whole = self.render(case, case.messages)
        samples, left_out = [Sample(count, whole, [])], []
        for number in reversed(case.wanted()):
            answered = self.render(case, case.messages[: number + 1])
            asked = self._asked(case, number, answered)
            rewritten = not whole.startswith(answered)
            if asked is None or (rewritten and case.mode != "unroll"):
                left_out.append(number)
                continue
            if not samples[-1].text.startswith(answered):
                samples.append(Sample(number + 1, answered, []))
            samples[-1].turns.insert(0, (number, len(asked), len(answered)))
        found = [sample for sample in reversed(samples) if sample.turns or len(samples) == 1]
        if case.others() and found[-1].messages <= max(case.others()):
            found.append(samples[0])
        return found, left_out

    def _asked(self, case: Case, number: int, answered: str) -> str | None:
        for switch in SWITCHES:
            if switch.keys() & case.kwargs.keys():
                continue
            try:
                prompt = self.render(case, case.messages[:number], True, **switch)
            except Refused:
                continue
            same = not switch or self.render(case, case.messages[: number + 1], **switch) == answered
            if same and answered.startswith(prompt):
                return prompt
        return None

    def encoded(self, case: Case, samples: Sequence[Sample]) -> list[tuple[str, list[int], list[int]]]:
        """Of each sample in which something is trained the text, the ids, and a flag for each."""
        found, since = [], 0
        for sample in samples:
            guards = self._guards(case, sample) if case.guards else []
            spans = self._spans(case, sample, since, guards)
            since = sample.messages
            if any(begin < end for begin, end in spans):
                found.append((sample.text, *self._encode(sample.text, guards, spans)))
        return found

    def _spans(self, case: Case, sample: Sample, since: int, guards: Sequence[Span]) -> list[Span]:
        turns = list(sample.turns)
        for number in case.others():
            if since <= number < sample.messages:
                begin, end, _ = self._content(case, sample, number)
                stop = self._all.match(sample.text, end)
                turns.append((number, begin, stop.end() if stop else end))
        turns.sort(key=lambda turn: turn[1])
        stops = [self._stop(sample.text, begin, end, guards) for _, begin, end in turns]
        last = max((at for at, stop in enumerate(stops) if stop), default=-1)
        spans: list[Span] = []
        for at, ((number, begin, end), stop) in enumerate(zip(turns, stops, strict=True)):
            keeps = case.train_on_eos in ("turn", "all") or (case.train_on_eos == "last" and at == last)
            detail = case.details[number]
            if detail is not None:
                first, _, write = self._content(case, sample, number, begin, stop[0] if stop else end)
                content = case.messages[number]["content"]
                spans += [
                    (first + len(write(content[:start])), first + len(write(content[:past])))
                    for start, past in detail
                ]
            else:
                whole = stop is None or (self._marked and keeps)
                spans.append((begin, end if whole or stop is None else stop[0]))
            if stop and keeps:
                spans.append(stop)
        if case.train_on_eos == "all":
            for text in {sample.text[slice(*stop)] for stop in stops if stop}:
                places = (match.span() for match in re.finditer(re.escape(text), sample.text))
                spans += [place for place in places if not _touches(place, guards)]
        return spans

    def _content(
        self, case: Case, sample: Sample, number: int, begin: int = 0, end: int = -1
    ) -> tuple[int, int, Callable[[str], str]]:
        """Where all of a message's content stands, and how it is written there: as it is or as JSON. Its
        whitespace is there if the text is shorter without."""
        content = case.messages[number]["content"]
        core = content.strip()
        past = end if end >= 0 else len(sample.text)
        for write in (str, as_json) if core else ():
            found = [match.start() for match in re.finditer(re.escape(write(core)), sample.text)]
            places = [place for place in found if begin <= place < past]
            if places:
                break
        else:
            places = []
        if len(places) != 1:
            raise Unknown("content")

        def shorter(without: str) -> int:
            messages = [*case.messages[: sample.messages]]
            messages[number] = {**messages[number], "content": without}
            return len(sample.text) - len(self.render(case, messages))

        before, after = shorter(content.lstrip()), shorter(content.rstrip())
        spaces = content[: len(content) - len(content.lstrip())], content[len(content.rstrip()) :]
        length = len(write(core))
        # What has nothing to escape may be JSON all the same: its whitespace shows it.
        ways = [
            way
            for way in (str, as_json)
            if way(core) == write(core) and (before, after) == tuple(len(way(space)) for space in spaces)
        ]
        if case.details[number] is not None and not ways:
            raise Unknown("details of whitespace that is not there")
        return places[0] - before, places[0] + length + after, ways[0] if ways else write

    def _stop(self, text: str, begin: int, end: int, guards: Sequence[Span]) -> Span | None:
        bare = text[begin:end].rstrip()
        ends = [token for token in self.hostile + self.tags if bare.endswith(token)]
        ends = [token for token in ends if token in self.hostile or not token.startswith("</")]
        if not ends:
            return None
        stop = begin + len(bare) - max(map(len, ends)), begin + len(bare)
        return None if _touches(stop, guards) else stop

    def _guards(self, case: Case, sample: Sample) -> list[Span]:
        """Where control tokens of the row stand: characters of them are hidden, and found again."""

        def hidden(value: Any, pattern: re.Pattern[str], key: str = "") -> Any:
            if isinstance(value, str):
                return (
                    value if key in _NAMES else pattern.sub(lambda match: _HIDDEN * len(match.group()), value)
                )
            if isinstance(value, dict):
                return {name: hidden(item, pattern, name) for name, item in value.items()}
            return [hidden(item, pattern, key) for item in value] if isinstance(value, list) else value

        patterns: Callable[[Message], re.Pattern[str]] = lambda m: (  # noqa: E731
            self._own if m["role"] == "assistant" else self._all
        )
        messages = [hidden(message, patterns(message)) for message in case.messages[: sample.messages]]
        others = {
            "tools": hidden(case.tools or [], self._all) or None,
            "kwargs": hidden(case.kwargs, self._all),
        }
        text = self.render(replace(case, **others), messages)
        if len(text) != len(sample.text):
            raise Unknown("guards")
        places = [match.start() for match in re.finditer(_HIDDEN, text)]
        found: list[Span] = []
        for place in places:
            if not found or place >= found[-1][1]:
                match = self._all.match(sample.text, place)
                if match is None:
                    raise Unknown("guards")
                found.append(match.span())
        return found

    def in_names(self, case: Case) -> bool:
        """Whether a control token of the row stands in a name, of which a template may make anything."""

        def found(value: Any, key: str = "") -> bool:
            if isinstance(value, Mapping):
                return any(self._all.search(name) or found(item, name) for name, item in value.items())
            if isinstance(value, list):
                return any(found(item, key) for item in value)
            return isinstance(value, str) and key in _NAMES and bool(self._all.search(value))

        return any(found(value) for value in (case.messages, case.tools, case.kwargs))

    def _encode(
        self, text: str, guards: Sequence[Span], spans: Sequence[Span]
    ) -> tuple[list[int], list[int]]:
        pieces: list[str] = []
        places: list[Span] = []
        at = 0
        while at < len(text):
            match = self._tokens.match(text, at)
            real = match is not None and not _touches(match.span(), guards)
            end = match.end() if match is not None and real else at + 1
            pieces.append(self._twins[text[at:end]] if real else text[at])
            places.append((at, end))
            at = end
        encoding = self._tokenizer.encode("".join(pieces), add_special_tokens=False)
        flags = [int(_touches((places[a][0], places[b - 1][1]), spans)) for a, b in encoding.offsets]
        return encoding.ids, [0, *flags[1:]]


def as_json(text: str) -> str:
    """The text as it stands between JSON's quotation marks."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _touches(place: Span, spans: Sequence[Span]) -> bool:
    return any(place[0] < end and begin < place[1] for begin, end in spans if begin < end)


def _any_of(texts: Any) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))))
