"""Hostile chat templates: hard to read, to compile, to render; `chat` is a case of any hostile chat data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import FAULTS, OUTPUT, Case, words

from chat_jobs import write_tokenizer

OBEYED = "\x1b]0;x\x07\x9b31m\u202e[/red]"
TURN = "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
CHATML = "{% for message in messages %}" + TURN + "{% endfor %}"
WHOLE = [
    {"messages": [{"role": "user", "content": f"question {at}"}, {"role": "assistant", "content": "krill"}]}
    for at in range(20)
]
ANY = FAULTS | {0}
MEMORY = 300_000_000
Put = Callable[[Path], object]


def cases() -> Iterator[Case]:
    yield from _templates()
    yield from _renderings()


def chat(
    name: str,
    template: str | bytes | None = CHATML,
    rows: object = WHOLE,
    numbers: frozenset[int] = ANY,
    *,
    put: Put | None = None,
    more: dict[str, Any] | None = None,
    top: dict[str, Any] | None = None,
    verb: str = "preprocess",
    **rest: Any,
) -> Case:
    """`krill preprocess` of conversations: their rows, or the bytes of the file, and a template."""

    def make(folder: Path) -> None:
        write_tokenizer(folder / "model")
        if template is not None:
            text = template if isinstance(template, bytes) else template.encode("utf-8", "surrogatepass")
            (folder / "model" / "chat_template.jinja").write_bytes(text)
        made = rows() if callable(rows) else rows
        if not isinstance(made, bytes):
            made = b"".join(json.dumps(row).encode() + b"\n" for row in made)
        (folder / "input.jsonl").write_bytes(made)
        if put is not None:
            put(folder)
        settings = {"prepared_path": OUTPUT, "sequence_len": 256, "on_error": "skip", "max_untrained": 1.0}
        config = {
            "datasets": [{"path": "input.jsonl", "type": "chat_template"}],
            "tokenizer": {"path": "model"},
            "preprocess": {**settings, **(more or {})},
            **(top or {}),
        }
        (folder / "config.yaml").write_text(json.dumps(config))

    arguments = words(verb, "config.yaml", memory="300MB")
    return Case(f"chat-{name}", make, arguments, numbers, memory=MEMORY, **rest)


def _templates() -> Iterator[Case]:
    """Templates that are hard to read or to compile."""
    loops = "".join(f"{{% for a{at} in messages %}}" for at in range(40)) + "{% endfor %}" * 40
    kinds: dict[str, str | bytes] = {
        "of-forty-loops": loops,
        "of-brackets": "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
        "of-lists": "{{ " + "[" * 20_000 + "]" * 20_000 + " }}",
        "of-nots": "{{ " + "not " * 20_000 + "1 }}",
        "of-minuses": "{{ " + "- " * 20_000 + "1 }}",
        "of-attributes": "{{ messages" + ".a" * 50_000 + " }}",
        "of-items": "{{ messages" + "[0]" * 50_000 + " }}",
        "of-calls": "{{ messages" + "()" * 50_000 + " }}",
        "of-filters": "{{ messages" + "|list" * 50_000 + " }}",
        "of-sums": "{{ 1" + "+1" * 50_000 + " }}",
        "of-differences": "{{ 1" + "-1" * 50_000 + " }}",
        "of-powers": "{{ 9" + "**9" * 5000 + " }}",
        "of-tildes": "{{ 1" + "~1" * 50_000 + " }}",
        "of-ands": "{{ 1" + " and 1" * 50_000 + " }}",
        "of-comparisons": "{{ 1" + " < 1" * 50_000 + " }}",
        "of-conditions": "{{ 1" + " if 1 else 1" * 20_000 + " }}",
        "of-ifs": "{% if 1 %}" * 9000 + "{% endif %}" * 9000,
        "of-elifs": "{% if 1 %}" + "{% elif 1 %}" * 20_000 + "{% endif %}",
        "of-macros": "".join(f"{{% macro a{at}() %}}{{% endmacro %}}" for at in range(9000)),
        "of-macros-in-macros": "{% macro a() %}" * 300 + "{% endmacro %}" * 300,
        "of-filter-blocks": "{% filter upper %}" * 300 + "{% endfilter %}" * 300,
        "of-blocks": "".join(f"{{% block a{at} %}}{{% endblock %}}" for at in range(9000)),
        "of-outputs": "{{ a }}" * 130_000,
        "of-variables": "".join(f"{{{{ a{at} }}}}" for at in range(60_000)),
        "of-sets": "".join(f"{{% set a{at} = 1 %}}" for at in range(30_000)),
        "of-strings": '{{ "a" }}' * 100_000,
        "of-one-name": "{{ " + "a" * 900_000 + " }}",
        "of-a-long-number": "{{ " + "9" * 9000 + " }}",
        "of-a-long-hexadecimal-number": "{{ 0x" + "f" * 90_000 + " }}",
        "of-an-infinite-number": "{{ 1e999999 }}",
        "of-arguments": "{{ range(" + ",".join("1" * 90_000) + ") }}",
        "of-keywords": "{{ range(" + ",".join(f"a{at}=1" for at in range(9000)) + ") }}",
        "of-one-keyword-twice": "{{ range(a=1, a=2) }}",
        "of-a-dictionary": "{{ {" + ",".join("1:1" for _ in range(90_000)) + "} }}",
        "of-surrogates": CHATML + '{{ "\\ud800" }}',
        "of-a-bad-escape": CHATML + '{{ "\\x" }}{{ "\\N{none such}" }}',
        "not-utf8": b"\xff\xfe{{ a }}",
        "with-a-mark": b"\xef\xbb\xbf" + CHATML.encode(),
        "of-nuls": CHATML + "\0{{ '\0' }}",
        "of-comments": "{#" + "a" * 900_000,
        "of-open-strings": "{{ '" + "\\" * 900_000,
        "of-raw": "{% raw %}" + "{{" * 400_000,
        "of-whitespace": "{{" + " " * 900_000 + "}}",
        "of-newlines": "\n" * 900_000,
        "of-tags": "{%" * 400_000,
        "of-marks-open": "{% generation %}",
        "of-marks-in-marks": "{% generation %}" * 300 + "a" + "{% endgeneration %}" * 300,
        "of-marks-closed": "{% endgeneration %}",
        "including": "{% include 'tokenizer.json' %}",
        "extending": "{% extends '/etc/passwd' %}",
        "extending-a-message": "{% extends messages[0].content %}",
        "importing": "{% import 'tokenizer.json' as a %}{{ a }}",
        "importing-from": "{% from 'tokenizer.json' import b %}{{ b }}",
        "of-keyword-names": "{% set None = 1 %}{% set True = 2 %}",
        "of-the-names-of-loops": "{% for loop in messages %}{{ loop }}{% endfor %}",
        "setting-messages": "{% set messages = 5 %}" + CHATML,
        "of-a-block-twice": "{% block a %}{% endblock %}{% block a %}{% endblock %}",
        "of-unknown-filters": "{{ messages|none_such }}",
        "of-unknown-tests": "{{ messages is none_such }}",
        "of-unknown-tags": "{% none_such %}",
        "breaking-out-of-nothing": "{% break %}",
        "going-on-with-nothing": "{% continue %}{% if 1 %}{% break %}{% endif %}",
        "of-too-large-a-file": "a" * 1_000_001,
        "of-nothing": "",
        "of-ligatures": "{% set ﬁ = 1 %}{{ ﬁ }}{{ fi }}",
    }
    for name, template in kinds.items():
        yield chat(f"template-{name}", template)
    for name in ("of-forty-loops", "of-brackets", "of-a-long-number", "of-outputs"):
        yield chat(f"template-{name}-estimate", kinds[name], verb="estimate")
        beside = json.dumps({"eos_token": "<|im_end|>", "chat_template": kinds[name]})

        def put(folder: Path, beside: str = beside) -> None:
            (folder / "model" / "tokenizer_config.json").write_text(beside)

        yield chat(f"template-{name}-beside", None, put=put)


def _grown(first: str, rounds: int, step: str, behind: str = "") -> str:
    """A template in which two values, `ns.a` and `ns.b`, grow round by round."""
    other = step.replace("ns.a", "ns.b")
    sets = f"{{% set ns.a = {step} %}}{{% set ns.b = {other} %}}"
    begin = f"{{% set ns = namespace(a={first}, b={first}) %}}"
    return f"{begin}{{% for c in range(9, {rounds}) %}}{sets}{{% endfor %}}{behind}"


def _renderings() -> Iterator[Case]:
    """Templates that are hard to render, or that reach for what is not theirs."""
    kinds = {
        "attributes": "{{ messages.__class__.__mro__ }}",
        "attributes-by-filter": "{{ messages|attr('__class__') }}",
        "attributes-by-map": "{{ messages|map(attribute='__class__')|list }}",
        "attributes-by-format": "{{ '{0.__class__}'.format(messages) }}",
        "attributes-by-format-map": "{{ '{a.__class__}'.format_map({'a': messages}) }}",
        "attributes-of-a-macro": "{% macro m() %}{% endmacro %}{{ m.__init__.__globals__ }}",
        "attributes-of-itself": "{{ self._TemplateReference__context }}",
        "attributes-of-a-loop": "{% for a in messages %}{{ loop.__init__.__globals__ }}{% endfor %}",
        "attributes-of-a-cycler": "{{ cycler.__init__.__globals__.os }}",
        "attributes-of-today": "{{ strftime_now.__globals__ }}",
        "attributes-of-nothing": "{{ nothing.__class__.__init__ }}",
        "a-change-of-messages": "{{ messages.append(1) }}{{ messages.clear() }}",
        "a-change-of-a-message": "{{ messages[0].update({'content': 5}) }}",
        "a-range": "{% for a in range(10**12) %}{% endfor %}",
        "ranges-in-ranges": "{% for a in range(99999) %}{% for b in range(99999) %}a{% endfor %}{% endfor %}",
        "a-macro-of-itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "a-macro-twice-of-itself": "{% macro m(n) %}{{ [m(n - 1), m(n - 1)] if n }}{% endmacro %}{{ m(90) }}",
        "a-loop-of-itself": "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "a-large-power": "{{ 9 ** 9 ** 9 }}",
        "a-large-power-of-a-fraction": "{{ 9.5 ** 9999 }}",
        "a-large-shift": "{{ 2 * 2 ** 9000000 }}",
        "a-factorial": _grown("2", 90_000, "ns.a * c", "{{ ns.a }}"),
        "a-number-as-text": "{{ (10 ** 9000)|string }}",
        "a-text-doubled": _grown("'aa'", 99, "ns.a ~ ns.a"),
        "a-list-doubled": _grown("[1]", 99, "ns.a + ns.a"),
        "a-list-doubled-in-place": _grown("[1]", 99, "ns.a * 2"),
        "a-list-of-lists-written": _grown("[1]", 60, "[ns.a, ns.a]", "{{ ns.a }}"),
        "a-list-of-lists-as-json": _grown("[1]", 60, "[ns.a, ns.a]", "{{ ns.a|tojson }}"),
        "a-list-of-lists-printed": _grown("[1]", 60, "[ns.a, ns.a]", "{{ ns.a|pprint }}"),
        "a-list-of-lists-as-text": _grown("[1]", 60, "[ns.a, ns.a]", "{{ ns.a|string|length }}"),
        "a-list-of-lists-compared": _grown("[1]", 60, "[ns.a, ns.a]", "{{ ns.a == ns.b }}"),
        "a-list-of-lists-formatted": _grown("[1]", 60, "[ns.a, ns.a]", "{{ '%s' % (ns.a,) }}"),
        "a-list-of-lists-joined": _grown("[1]", 60, "[ns.a, ns.a]", "{{ ns.a|join(',') }}"),
        "a-deep-list": _grown("[1]", 99999, "[ns.a]", "{{ ns.a|tojson }}"),
        "a-deep-list-as-text": _grown("[1]", 9999, "[ns.a]", "{{ ns.a }}"),
        "a-deep-list-compared": _grown("[1]", 9999, "[ns.a]", "{{ ns.a == ns.b }}"),
        "a-deep-concatenation": _grown("{}", 99999, "{'a': ns.a}", "{{ ns.a|string|length }}"),
        "padding": "{{ 'a'.ljust(10**9) }}",
        "padding-right": "{{ 'a'.rjust(10**9) }}",
        "padding-zeros": "{{ 'a'.zfill(10**9) }}",
        "padding-filter": "{{ 'a'|center(10**9) }}",
        "padding-by-name": "{{ 'a'.ljust(width=10**9) }}",
        "padding-format": "{{ '%999999999d' % 1 }}",
        "padding-format-of-a-message": "{{ messages[0].content % 1 }}",
        "padding-format-fraction": "{{ '%.999999999f' % 1 }}",
        "padding-fields": "{{ '{:>999999999}'.format(1) }}",
        "padding-nested-fields": "{{ '{:>{}}'.format(1, 999999999) }}",
        "padding-filter-format": "{{ '%999999999s'|format(1) }}",
        "padding-star": "{{ '%*d' % (999999999, 1) }}",
        "indenting": "{{ ('a\\n' * 9000)|indent(10**6) }}",
        "indenting-json": "{{ messages|tojson(indent=10**9) }}",
        "indenting-json-by-text": "{{ messages|tojson(indent='a' * 9) }}",
        "indenting-json-below-nothing": "{{ messages|tojson(indent=-1) }}",
        "separating-json": "{{ range(9999)|list|tojson(separators=('a' * 90000, 'b')) }}",
        "replacing": "{{ ('a' * 9999).replace('', 'b' * 9999) }}",
        "replacing-filter": "{{ ('a' * 9999)|replace('a', 'b' * 9999) }}",
        "joining": "{{ range(9999)|join('a' * 9999) }}",
        "joining-method": "{{ ('a' * 9999).join('b' * 9999) }}",
        "translating": "{{ ('a' * 9999).translate({97: 'b' * 9999}) }}",
        "tabs": "{{ ('\\t' * 9999).expandtabs(99999) }}",
        "words-of-nonsense": "{{ lipsum(n=99999) }}",
        "words-of-nonsense-long": "{{ lipsum(n=1, min=10**9, max=10**9+1) }}",
        "batches": "{{ [1]|batch(10**9, 1)|list }}",
        "slices": "{{ [1]|slice(10**9)|list }}",
        "wrapping": "{{ ('a' * 99999)|wordwrap(1, true, 'b' * 99999) }}",
        "urls": "{{ ('http://a.b ' * 9999)|urlize(rel='a' * 9999) }}",
        "attributes-of-xml": "{{ {'a b': 1}|xmlattr }}",
        "grouping": "{{ messages|groupby('role')|list }}",
        "sorting": "{{ [1, 'a', none]|sort }}",
        "summing": "{{ messages|sum }}",
        "summing-lists": "{{ [[1]]|sum(start=[]) }}",
        "random": "{{ messages|random }}",
        "dividing-by-nothing": "{{ 1 / 0 }}",
        "rounding": "{{ 1e308|round(-400) }}",
        "fractions": "{{ 1e308 * 10 }}",
        "an-unhashable-key": "{{ {[]: 1} }}",
        "an-index-of-text": "{{ 'a'['b'] }}",
        "iterating-a-number": "{% for a in 5 %}{% endfor %}",
        "unpacking": "{% for a, b in [1] %}{% endfor %}",
        "calling-text": "{{ 'a'() }}",
        "calling-nothing": "{{ nothing() }}",
        "raising-nothing": "{{ raise_exception() }}",
        "raising-escapes": "{{ raise_exception('" + OBEYED + "') }}",
        "raising-a-megabyte": "{{ raise_exception('a' * 200000) }}",
        "raising-a-number": "{{ raise_exception(5) }}",
        "bytes": "{{ 'a'.encode() }}",
        "bytes-joined": "{{ 'a'.encode().join([]) }}",
        "case": "{{ ('ŉ' * 99999).upper() }}",
        "decoding": "{{ 'a'.encode('utf-16').decode('latin-1') }}",
        "encoding-none-such": "{{ 'a'.encode('none such') }}",
        "encoding-zip": "{{ 'a'.encode('zip') }}",
        "all-of-a-generator": "{{ range(99999)|map('string')|join }}",
        "selecting-by-itself": "{{ range(99999)|select('in', range(99999)|list)|list|length }}",
        "unique": "{{ range(99999)|unique|list|length }}",
        "a-search-in-long-texts": "{{ ('a' * 99999 ~ 'b') in ('a' * 99999) * 2 }}",
        "today-of-a-wide-field": "{{ strftime_now('%99999d') }}",
        "today-in-none-such": "{{ strftime_now('%') }}",
        "today-of-a-nul": "{{ strftime_now('a\\0b') }}",
        "today-of-a-surrogate": "{{ strftime_now('\\ud800') }}",
        "a-debugger": "{% debug %}",
        "translations": "{% trans %}a{% endtrans %}",
        "a-do": "{% do messages.append(1) %}",
        "an-autoescape": "{% autoescape true %}{{ messages }}{% endautoescape %}",
        "a-with": "{% with a = messages %}{{ a }}{% endwith %}",
        "a-joiner": "{{ joiner('a' * 90000)() }}",
        "a-cycler-of-nothing": "{{ cycler() }}",
        "a-cycler": "{{ cycler(1, 2).next() }}",
        "a-namespace-of-pairs": "{{ namespace([('_a', 1)]) }}",
        "a-namespace-of-numbers": "{{ namespace(5) }}",
        "a-dictionary-of-nothing": "{{ dict(5) }}",
        "keys-from-nowhere": "{{ dict.fromkeys(range(99999), 'a' * 99) }}",
        "a-namespace-in-itself": "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns.a.a.a }}",
        "a-list-in-itself": "{% set a = [] %}{% set b = a.append(a) %}{{ a }}",
    }
    for name, template in kinds.items():
        rows = [{"messages": [{"role": "user", "content": "%999999999d"}, WHOLE[0]["messages"][1]]}] * 3
        # What comes first is written with every conversation, what comes last with those of a row alone.
        late = "{% if messages[0].content != 'a question' %}" + template + "{% endif %}"
        known = {"preprocess": {}} if "today" not in name else {"chat_template_date": "2026-01-31"}
        top = {key: value for key, value in known.items() if value}
        yield chat(f"render-{name}", template + CHATML, rows, top=top)
        if len(name) % 2:
            yield chat(f"render-{name}-late", CHATML + late, rows, top=top)
