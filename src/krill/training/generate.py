"""`krill generate` from end to end: the plan, the model, the prompt, the text as it comes.

In: a model's folder and a prompt. Out: each token with its text to a callback, and a summary. Held in
memory: what the plan says: the program with JAX, the weights, the cache of keys and values, the tokenizer;
and the tokens themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.budget import Meter, Need
from krill.errors import InputError, Interrupted
from krill.tokenizer.open import file_needs
from krill.training.xla import (
    inference_needs,
    inference_process,
    measured_budget,
    running_need,
    start_backend,
)

if TYPE_CHECKING:
    from krill.tokenizer.tokenizer import Tokenizer
    from krill.training.decoding import DecodingSizes, SampledTokens, Sampling
    from krill.training.saved_model import SavedModel


# What decoders show where bytes are no character, or not one yet.
_INCOMPLETE: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """A prompt, and how it is continued."""

    model: str | Path
    prompt: str
    """The text that is continued or, in a chat, what the user says first."""
    checkpoint: str | int | None = None
    max_tokens: int = 200
    samples: int = 1
    seed: int = 0
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    chat_template: str | None = None
    """Talk to the model in this template; None continues the prompt as it is."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    chat_template_date: str | None = None
    """What the template takes for today; None is today."""

    @property
    def sampling(self) -> Sampling:
        from krill.training.decoding import Sampling

        return Sampling(self.temperature, self.top_k, self.top_p)


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """One token of a sample. `shown` is the text that became certain with it, `text` is its own."""

    sample: int
    id: int
    text: str
    shown: str
    probability: float
    entropy: float


OnToken = Callable[[GeneratedToken], None]


@dataclass(slots=True)
class GeneratedSample:
    """One continuation; `end` is `eos` if the model ended it, else `length`."""

    text: str = ""
    end: str = "length"
    tokens: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GenerationSummary:
    """What was generated; `notes` are lines for the user."""

    request: GenerateRequest
    step: int | None
    prompt_tokens: int
    samples: list[GeneratedSample]
    notes: list[str]
    budget: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        figures = asdict(self)
        request = figures.pop("request")
        if request["chat_template"] is None:
            request = {key: value for key, value in request.items() if not key.startswith("chat_template")}
        return {**request, "model": str(request["model"]), **figures}


def run_generate(
    request: GenerateRequest,
    *,
    memory: str | int = "auto",
    threads: int | str = "auto",
    on_token: OnToken = lambda token: None,
    then: Iterable[str] = (),
    floor: int = 0,
) -> GenerationSummary:
    """Continue the prompt; `on_token` gets every token; `floor` is what the process held before. In a chat,
    `then` is what the user says next, asked for after each answer; the summary is of the last."""
    with inference_process("generating", memory, threads, floor) as meter:
        # Not at the top: they import JAX, whose threads are to be bounded before.
        from krill.training.saved_model import open_model

        saved = open_model(request.model, checkpoint=request.checkpoint)
        try:
            return _generate(request, saved, meter, on_token, then)
        except KeyboardInterrupt:
            raise Interrupted("interrupted: the text ends here") from None


def _generate(
    request: GenerateRequest, saved: SavedModel, meter: Meter, on_token: OnToken, then: Iterable[str]
) -> GenerationSummary:
    start_backend()
    base = meter.used
    file = saved.require_tokenizer()
    needs = [*inference_needs(saved.shape), *file_needs(file, len(request.prompt.encode()) + 1, 1)]
    plan = meter.plan(needs, base)
    tokenizer = saved.open_tokenizer(plan)

    def continued(prompt: list[int], stops: Container[int | None]) -> GenerationSummary:
        return _continue(request, saved, meter, on_token, base, needs, tokenizer, prompt, stops)

    if request.chat_template is None:
        return continued(_prompt_ids(tokenizer, request.prompt), (tokenizer.eos_id,))
    from krill.chat import ChatOptions
    from krill.training.chat import Chat

    options = ChatOptions(
        chat_template=request.chat_template,
        chat_template_kwargs=request.chat_template_kwargs,
        date=request.chat_template_date or date.today().isoformat(),
    )
    chat = Chat.open(file, tokenizer, options)
    for said in chain([request.prompt], then):
        summary = continued(chat.ask(said), chat.stops)
        chat.answer(summary.samples[0].text)
    return summary


def _continue(
    request: GenerateRequest,
    saved: SavedModel,
    meter: Meter,
    on_token: OnToken,
    base: int,
    needs: Sequence[Need],
    tokenizer: Tokenizer,
    prompt: list[int],
    stops: Container[int | None],
) -> GenerationSummary:
    """What the model adds to a prompt until it writes one of `stops`."""
    from krill.training.decoding import compile_programs, find_sizes, generate_tokens

    sizes = find_sizes(
        prompt=len(prompt), max_tokens=request.max_tokens, samples=request.samples, context=saved.context
    )
    programs = compile_programs(saved.shape, sizes, request.sampling)
    running = running_need(programs.held_bytes, remedy="ask for fewer --samples or --max-tokens")
    plan = meter.plan([*needs, running], base)
    notes = _notes(len(prompt), request.max_tokens, sizes, saved.context)
    writers = [_SampleWriter(number, tokenizer, on_token, stops) for number in range(request.samples)]
    steps = generate_tokens(saved.model, programs, prompt, seed=request.seed, max_tokens=request.max_tokens)
    for number, chosen in enumerate(steps, 1):
        for writer in writers:
            writer.take(chosen, last=number == request.max_tokens)
        if all(writer.ended for writer in writers):
            break
    samples = [writer.sample for writer in writers]
    return GenerationSummary(request, saved.step, len(prompt), samples, notes, measured_budget(plan, meter))


class TextStream:
    """Text of tokens as they come; `decode` gives the text of some ids.

    A token may end inside a character: what is incomplete waits for the next one, so that all pieces together
    are exactly the text of all ids. Holds the ids since the last whole character.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        # Ids that were shown last, and those that wait. Some decoders treat the first id of a text
        # differently, so new text is what an id adds to the ids before it.
        self._shown: list[int] = []
        self._waiting: list[int] = []

    def add(self, token: int) -> str:
        """The text that is certain after one more token; may be empty."""
        self._waiting.append(token)
        return self._take(final=False)

    def end(self) -> str:
        """The rest; bytes that are not a character become U+FFFD."""
        return self._take(final=True)

    def _take(self, *, final: bool) -> str:
        if not self._waiting:
            return ""
        together = self._decode([*self._shown, *self._waiting])
        if together.endswith(_INCOMPLETE) and not final:
            return ""
        new = together[len(self._decode(self._shown)) :]
        self._shown, self._waiting = self._waiting, []
        return new


class _SampleWriter:
    """Makes a sample's tokens into its text."""

    def __init__(
        self, number: int, tokenizer: Tokenizer, on_token: OnToken, stops: Container[int | None]
    ) -> None:
        self._number = number
        self._stops = stops
        self._tokenizer = tokenizer
        self._listen = on_token
        self._stream = TextStream(lambda ids: tokenizer.decode(ids, skip_special_tokens=True))
        self.sample = GeneratedSample()
        self.ended = False

    def take(self, chosen: SampledTokens, *, last: bool) -> None:
        """This sample's token of one step, unless it has ended."""
        if self.ended:
            return
        identity = int(chosen.tokens[self._number])
        self.ended = identity in self._stops
        shown = "" if self.ended else self._stream.add(identity)
        if self.ended or last:
            shown += self._stream.end()
        token = GeneratedToken(
            self._number,
            identity,
            self._tokenizer.decode([identity]),
            shown,
            float(chosen.probability[self._number]),
            float(chosen.entropy[self._number]),
        )
        self.sample.text += shown
        self.sample.tokens.append({name: getattr(token, name) for name in _KEPT})
        if self.ended:
            self.sample.end = "eos"
        self._listen(token)


_KEPT = ("id", "text", "probability", "entropy")


def _prompt_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    ids: list[int] = tokenizer.encode(prompt).tolist()
    # Some tokenizers end every text by themselves; then nothing would follow.
    while ids and ids[-1] == tokenizer.eos_id and not prompt.endswith(str(tokenizer.eos_token)):
        ids.pop()
    if not ids:
        raise InputError(
            "the prompt is empty: a model continues text, it can't begin one",
            hint='give --prompt "Once upon a time"',
        )
    return ids


def _notes(prompt: int, max_tokens: int, sizes: DecodingSizes, context: int) -> list[str]:
    seen = sizes.positions - 1
    notes = []
    if prompt > seen:
        notes.append(f"the prompt has {prompt:,} tokens, the model sees the last {seen:,} of them")
    if prompt + max_tokens > context:
        notes.append(
            f"the model was trained on {context:,} tokens: whenever these are full, it goes on from the last"
            f" {sizes.kept:,}"
        )
    return notes
