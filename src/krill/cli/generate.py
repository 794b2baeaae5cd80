"""`krill generate`, also as the seed's `krill inference`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from krill.cli.options import BudgetOptions, OutputOptions, Switch, at_least, load_if_config
from krill.cli.streams import standard_output

if TYPE_CHECKING:
    from krill.training.generate import GeneratedToken, GenerationSummary

_Positive = at_least(1)


def generate(
    model: str,
    /,
    *,
    prompt: str | None = None,
    max_tokens: Annotated[int, _Positive] = 200,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: Annotated[int, at_least(0)] = 0,
    samples: Annotated[int, _Positive] = 1,
    inspect: Switch = False,
    chat: Switch = False,
    chat_template: str | None = None,
    checkpoint: str | None = None,
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008  a frozen value, never changed
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Continue a prompt with a trained model; the text appears as it is made.

    Only the text goes to standard output. A prompt comes from --prompt, or from standard input. The same seed
    gives the same text. Beyond the context that the model was trained on, it goes on from the newer half.

    Parameters
    ----------
    model
        The folder of a model: `train.output_dir`, finished or not, or a Llama model with tied embeddings.
        Or the config (YAML) that it was trained with.
    prompt
        The text to continue; without it, all of standard input.
    max_tokens
        The most tokens to add; a sample ends before where the model ends its text.
    temperature
        0 takes the likeliest token each time; below 1 rare ones are rarer, above 1 they are less so.
    top_k
        Choose among so many of the likeliest tokens.
    top_p
        Choose among the likeliest tokens that have this probability together.
    seed
        Which draw: another seed gives another text.
    samples
        How many continuations; several are shown when they are all done.
    inspect
        Show each token with its probability and the model's entropy before it, in bits.
    chat
        Talk to the model in its chat template: --prompt is what you say, or each line of standard input in
        turn, which the model answers with all that was said before.
    chat_template
        With --chat, another template than that of the model's tokenizer: chatml, or the path of a .jinja.
        Its variables and its date are those of the config, if MODEL is one; else the date is today's.
    checkpoint
        Instead of the finished model: latest, best, or the number of a step.
    """
    from krill.cli.screen import print_json, print_notices, warn_over_budget
    from krill.errors import ConfigError
    from krill.training.generate import GenerateRequest, run_generate

    if chat_template is not None and not chat:
        raise ConfigError("--chat-template is given without --chat", hint="add --chat")
    if chat and samples > 1:
        raise ConfigError(
            f"--samples is `{samples}`, and a chat goes on from one answer", hint="leave it out"
        )
    config = load_if_config(model)
    lines = _said() if chat and prompt is None else iter(())
    if chat and prompt is None:
        prompt = next(lines, "")
    if chat and chat_template is None:
        chat_template = "tokenizer_default" if config is None else config.chat_template
    memory, threads = budget.resolve(config)
    request = GenerateRequest(
        model=model if config is None else config.train.output_dir,
        prompt=sys.stdin.buffer.read().decode("utf-8", "replace") if prompt is None else prompt,
        checkpoint=checkpoint,
        max_tokens=max_tokens,
        samples=samples,
        seed=seed,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        chat_template=chat_template,
        chat_template_kwargs={} if config is None else config.chat_template_kwargs,
        chat_template_date=None if config is None else config.chat_template_date,
    )
    streams = samples == 1 and not display.json
    done = run_generate(
        request,
        memory=memory,
        threads=threads,
        on_token=(_show_token if inspect else _show_text) if streams else lambda token: None,
        then=_after_newline(lines) if streams and not inspect else lines,
    )
    if display.json:
        print_json(done.to_json())
    elif streams:
        print("", end="" if inspect else "\n")
    else:
        _print_samples(done, inspect=inspect)
    if not display.quiet:
        print_notices(done.notes)
    warn_over_budget(done.budget)


def _said() -> Iterator[str]:
    """Lines of standard input that say something."""
    for line in sys.stdin.buffer:
        text = line.decode("utf-8", "replace").strip()
        if text:
            yield text


def _after_newline(lines: Iterator[str]) -> Iterator[str]:
    """The same, each after the answer's line has ended."""
    for line in lines:
        print(flush=True)
        yield line


def _show_text(token: GeneratedToken) -> None:
    output = standard_output()
    output.write_data(token.shown)
    output.flush()


def _show_token(token: GeneratedToken) -> None:
    print(_format_token(token.probability, token.entropy, token.text), flush=True)


def _format_token(probability: float, entropy: float, text: str) -> str:
    return f"{probability:8.2%} {entropy:6.2f} bits  {text!r}"


def _print_samples(done: GenerationSummary, *, inspect: bool) -> None:
    for number, sample in enumerate(done.samples, 1):
        print(f"--- sample {number}: {len(sample.tokens)} tokens")
        if inspect:
            for token in sample.tokens:
                print(_format_token(token["probability"], token["entropy"], token["text"]))
        else:
            standard_output().write_data(f"{sample.text}\n")
