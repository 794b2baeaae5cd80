"""Hostile chat templates, conversations, and what stands beside the tokenizers that have templates."""

from __future__ import annotations

import json
import os
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
    yield from _rows()
    yield from _keys()
    yield from _files()


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
    }  # fmt: skip
    for name, template in kinds.items():
        yield chat(f"template-{name}", template)
    for name in ("of-forty-loops", "of-brackets", "of-a-long-number", "of-outputs"):
        yield chat(f"template-{name}-estimate", kinds[name], verb="estimate")
        beside = json.dumps({"eos_token": "<|im_end|>", "chat_template": kinds[name]})

        def put(folder: Path, beside: str = beside) -> None:
            (folder / "model" / "tokenizer_config.json").write_text(beside)

        yield chat(f"template-{name}-beside", None, put=put)


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
        "a-macro-twice-of-itself": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(90) }}",
        "a-loop-of-itself": "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "a-large-power": "{{ 9 ** 9 ** 9 }}",
        "a-large-power-of-a-fraction": "{{ 9.5 ** 9999 }}",
        "a-large-shift": "{{ 2 * 2 ** 9000000 }}",
        "a-factorial": "{% set ns = namespace(a=1) %}{% for b in range(1, 90000) %}{% set ns.a = ns.a * b %}{% endfor %}{{ ns.a }}",
        "a-number-as-text": "{{ (10 ** 9000)|string }}",
        "a-text-doubled": "{% set ns = namespace(a='aa') %}{% for b in range(99) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "a-list-doubled": "{% set ns = namespace(a=[1]) %}{% for b in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
        "a-list-doubled-in-place": "{% set ns = namespace(a=[1]) %}{% for b in range(99) %}{% set ns.a = ns.a * 2 %}{% endfor %}",
        "a-list-of-lists-written": "{% set ns = namespace(a=[1]) %}{% for b in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
        "a-list-of-lists-as-json": "{% set ns = namespace(a=[1]) %}{% for b in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a|tojson }}",
        "a-list-of-lists-printed": "{% set ns = namespace(a=[1]) %}{% for b in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a|pprint }}",
        "a-list-of-lists-as-text": "{% set ns = namespace(a=[1]) %}{% for b in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a|string|length }}",
        "a-list-of-lists-compared": "{% set ns = namespace(a=[1], b=[1]) %}{% for c in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
        "a-list-of-lists-formatted": "{% set ns = namespace(a=[1]) %}{% for b in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ '%s' % (ns.a,) }}",
        "a-list-of-lists-joined": "{% set ns = namespace(a=[1]) %}{% for b in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a|join(',') }}",
        "a-deep-list": "{% set ns = namespace(a=[1]) %}{% for b in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a|tojson }}",
        "a-deep-list-as-text": "{% set ns = namespace(a=[1]) %}{% for b in range(9999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
        "a-deep-list-compared": "{% set ns = namespace(a=[1], b=[1]) %}{% for c in range(9999) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
        "a-deep-concatenation": "{% set ns = namespace(a={}) %}{% for b in range(99999) %}{% set ns.a = {'a': ns.a} %}{% endfor %}{{ ns.a|string|length }}",
        "padding": "{{ 'a'.ljust(10**9) }}", "padding-right": "{{ 'a'.rjust(10**9) }}",
        "padding-zeros": "{{ 'a'.zfill(10**9) }}", "padding-filter": "{{ 'a'|center(10**9) }}",
        "padding-by-name": "{{ 'a'.ljust(width=10**9) }}", "padding-format": "{{ '%999999999d' % 1 }}",
        "padding-format-of-a-message": "{{ messages[0].content % 1 }}",
        "padding-format-fraction": "{{ '%.999999999f' % 1 }}", "padding-fields": "{{ '{:>999999999}'.format(1) }}",
        "padding-nested-fields": "{{ '{:>{}}'.format(1, 999999999) }}",
        "padding-filter-format": "{{ '%999999999s'|format(1) }}", "padding-star": "{{ '%*d' % (999999999, 1) }}",
        "indenting": "{{ ('a\\n' * 9000)|indent(10**6) }}", "indenting-json": "{{ messages|tojson(indent=10**9) }}",
        "indenting-json-by-text": "{{ messages|tojson(indent='a' * 9) }}",
        "indenting-json-below-nothing": "{{ messages|tojson(indent=-1) }}",
        "separating-json": "{{ range(9999)|list|tojson(separators=('a' * 90000, 'b')) }}",
        "replacing": "{{ ('a' * 9999).replace('', 'b' * 9999) }}",
        "replacing-filter": "{{ ('a' * 9999)|replace('a', 'b' * 9999) }}",
        "joining": "{{ range(9999)|join('a' * 9999) }}", "joining-method": "{{ ('a' * 9999).join('b' * 9999) }}",
        "translating": "{{ ('a' * 9999).translate({97: 'b' * 9999}) }}",
        "tabs": "{{ ('\\t' * 9999).expandtabs(99999) }}",
        "words-of-nonsense": "{{ lipsum(n=99999) }}", "words-of-nonsense-long": "{{ lipsum(n=1, min=10**9, max=10**9+1) }}",
        "batches": "{{ [1]|batch(10**9, 1)|list }}", "slices": "{{ [1]|slice(10**9)|list }}",
        "wrapping": "{{ ('a' * 99999)|wordwrap(1, true, 'b' * 99999) }}",
        "urls": "{{ ('http://a.b ' * 9999)|urlize(rel='a' * 9999) }}",
        "attributes-of-xml": "{{ {'a b': 1}|xmlattr }}", "grouping": "{{ messages|groupby('role')|list }}",
        "sorting": "{{ [1, 'a', none]|sort }}", "summing": "{{ messages|sum }}", "summing-lists": "{{ [[1]]|sum(start=[]) }}",
        "random": "{{ messages|random }}", "dividing-by-nothing": "{{ 1 / 0 }}",
        "rounding": "{{ 1e308|round(-400) }}", "fractions": "{{ 1e308 * 10 }}",
        "an-unhashable-key": "{{ {[]: 1} }}", "an-index-of-text": "{{ 'a'['b'] }}",
        "iterating-a-number": "{% for a in 5 %}{% endfor %}", "unpacking": "{% for a, b in [1] %}{% endfor %}",
        "calling-text": "{{ 'a'() }}", "calling-nothing": "{{ nothing() }}",
        "raising-nothing": "{{ raise_exception() }}", "raising-escapes": "{{ raise_exception('" + OBEYED + "') }}",
        "raising-a-megabyte": "{{ raise_exception('a' * 200000) }}",
        "raising-a-number": "{{ raise_exception(5) }}",
        "bytes": "{{ 'a'.encode() }}", "bytes-joined": "{{ 'a'.encode().join([]) }}",
        "case": "{{ ('ŉ' * 99999).upper() }}", "decoding": "{{ 'a'.encode('utf-16').decode('latin-1') }}",
        "encoding-none-such": "{{ 'a'.encode('none such') }}", "encoding-zip": "{{ 'a'.encode('zip') }}",
        "all-of-a-generator": "{{ range(99999)|map('string')|join }}",
        "selecting-by-itself": "{{ range(99999)|select('in', range(99999)|list)|list|length }}",
        "unique": "{{ range(99999)|unique|list|length }}",
        "a-search-in-long-texts": "{{ ('a' * 99999 ~ 'b') in ('a' * 99999) * 2 }}",
        "today-of-a-wide-field": "{{ strftime_now('%99999d') }}", "today-in-none-such": "{{ strftime_now('%') }}",
        "today-of-a-nul": "{{ strftime_now('a\\0b') }}", "today-of-a-surrogate": "{{ strftime_now('\\ud800') }}",
        "a-debugger": "{% debug %}", "translations": "{% trans %}a{% endtrans %}",
        "a-do": "{% do messages.append(1) %}", "an-autoescape": "{% autoescape true %}{{ messages }}{% endautoescape %}",
        "a-with": "{% with a = messages %}{{ a }}{% endwith %}", "a-joiner": "{{ joiner('a' * 90000)() }}",
        "a-cycler-of-nothing": "{{ cycler() }}", "a-cycler": "{{ cycler(1, 2).next() }}",
        "a-namespace-of-pairs": "{{ namespace([('_a', 1)]) }}", "a-namespace-of-numbers": "{{ namespace(5) }}",
        "a-dictionary-of-nothing": "{{ dict(5) }}", "keys-from-nowhere": "{{ dict.fromkeys(range(99999), 'a' * 99) }}",
        "a-namespace-in-itself": "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns.a.a.a }}",
        "a-list-in-itself": "{% set a = [] %}{% set b = a.append(a) %}{{ a }}",
    }  # fmt: skip
    for name, template in kinds.items():
        rows = [{"messages": [{"role": "user", "content": "%999999999d"}, WHOLE[0]["messages"][1]]}] * 3
        # What comes first is written with every conversation, what comes last with those of a row alone.
        late = "{% if messages[0].content != 'a question' %}" + template + "{% endif %}"
        known = {"preprocess": {}} if "today" not in name else {"chat_template_date": "2026-01-31"}
        top = {key: value for key, value in known.items() if value}
        yield chat(f"render-{name}", template + CHATML, rows, top=top)
        if len(name) % 2:
            yield chat(f"render-{name}-late", CHATML + late, rows, top=top)


def _rows() -> Iterator[Case]:
    user, answer = WHOLE[0]["messages"]
    many = 100_000

    def messages(*found: Any) -> list[dict[str, Any]]:
        return [{"messages": list(found)}]

    def deep(depth: int) -> bytes:
        nested = b"[" * depth + b"]" * depth
        return b'{"messages": [{"role": "user", "content": "a", "x": ' + nested + b"}]}\n"

    kinds: dict[str, Any] = {
        "of-many-turns": lambda: messages(*[user, answer] * 9000),
        "of-many-empty-turns": lambda: messages(*[{"role": "user", "content": ""}, answer] * 20_000),
        "of-many-roles": lambda: messages(*({"role": f"r{at}", "content": "a"} for at in range(3000)), answer),
        "of-many-keys": lambda: messages({**user, **{f"k{at}": at for at in range(30_000)}}, answer),
        "of-many-calls": lambda: messages(
            user, {**answer, "tool_calls": [{"function": {"name": "f", "arguments": {}}}] * 20_000}
        ),
        "of-many-tools": lambda: [
            {**WHOLE[0], "tools": [{"type": "function", "function": {"name": f"f{at}"}} for at in range(9000)]}
        ],
        "of-many-parts": lambda: messages(
            user, {"role": "assistant", "content": [{"type": "text", "text": "a", "train": True}] * 40_000}
        ),
        "of-many-details": lambda: messages(
            user,
            {**answer, "d": [{"begin_offset": at % 5, "end_offset": 5, "train": True} for at in range(30_000)]},
        ),
        "of-control-tokens": lambda: messages({**user, "content": "<|im_end|>" * 60_000}, answer),
        "of-half-control-tokens": lambda: messages({**user, "content": "<|im_en" * 60_000}, answer),
        "of-control-tokens-to-learn": lambda: messages(user, {**answer, "content": "<|im_start|>" * 60_000}),
        "of-a-role-of-control": lambda: messages({**user, "role": "<|im_end|>"}, answer),
        "of-a-long-role": lambda: messages({**user, "role": "r" * 500_000}, answer),
        "of-an-obeyed-role": lambda: messages({**user, "role": OBEYED}, {"role": OBEYED}, answer),
        "of-sentinels": lambda: messages(
            *({"role": "user", "content": "".join(map(chr, range(0xE000, 0xF8FF)))}, answer) * 3
        ),
        "of-noncharacters": lambda: messages({**user, "content": "\ufdd0\ufdd1\ufffe\uffff" * 9000}, answer),
        "of-surrogates": b'{"messages": [{"role": "\\ud800", "content": "\\udfff\\ud800"}]}\n' * 9,
        "of-nuls": lambda: messages({**user, "content": "\0" * 9000}, {**answer, "content": "\0"}),
        "of-booleans": messages({**user, "content": True}, {**answer, "content": False}),
        "of-numbers": messages({**user, "content": 5}, {"role": 5, "content": 1e400}),
        "of-lists": messages([user], [answer]), "of-texts": messages("user", "assistant"),
        "of-a-text": [{"messages": "hello"}], "of-a-json-text": [{"messages": json.dumps([user, answer])}],
        "of-a-deep-json-text": [{"messages": "[" * 200_000}], "of-an-object": [{"messages": user}],
        "of-nothing": [{"messages": []}], "of-null": [{"messages": None}], "of-nulls": messages(None, None),
        "of-no-columns": [{}], "of-lists-as-rows": b"[1]\n[]\n", "of-numbers-as-rows": b"1\n2\n",
        "of-weights": messages(user, {**answer, "weight": 5}), "of-an-infinite-weight": messages(user, {**answer, "weight": 1e400}),
        "of-weights-of-text": messages(user, {**answer, "weight": OBEYED}),
        "of-arguments-of-noise": messages(user, {**answer, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}),
        "of-deep-arguments": messages(user, {**answer, "tool_calls": [{"function": {"arguments": '{"a":' * 9000}}]}),
        "of-calls-of-text": messages(user, {**answer, "tool_calls": "[1, 2]"}),
        "of-calls-of-numbers": messages(user, {**answer, "tool_calls": 5}),
        "of-tools-of-text": [{**WHOLE[0], "tools": "[[[]]]"}], "of-deep-tools": [{**WHOLE[0], "tools": "[" * 9000 + "]" * 9000}],
        "of-kwargs-of-text": [{**WHOLE[0], "chat_template_kwargs": "[]"}],
        "of-kwargs-that-hide": [{**WHOLE[0], "chat_template_kwargs": {
            "messages": 5, "tools": 5, "add_generation_prompt": 5, "raise_exception": 5, "namespace": 5,
            "range": 5, "dict": 5, "loop": 5, "self": 5, "bos_token": 5, "eos_token": [], "environment": 5,
            "context": 5, "caller": 5, "_added": 5, "": 5, "a b": 5, OBEYED: 5, "l_1_message": 5,
        }}],
        "of-many-kwargs": lambda: [{**WHOLE[0], "chat_template_kwargs": {f"k{at}": 1 for at in range(30_000)}}],
        "of-images": messages({**user, "content": [{"type": "image", "image": "a" * 500_000}]}, answer),
        "of-a-reasoning-of-numbers": messages(user, {**answer, "reasoning_content": 5}),
        "of-plain-text": [{"text": "a" * 500_000}], "of-a-prompt": [{"prompt": "a", "completion": ""}],
        "of-prompts-of-messages": [{"prompt": [user], "completion": []}],
        "of-alpaca": [{"instruction": 5, "output": "a"}], "of-alpaca-of-escapes": [{"instruction": OBEYED, "output": OBEYED}],
        "of-all-forms": [{"messages": [], "conversations": [], "prompt": "a", "completion": "b", "text": "c"}],
        "of-duplicate-keys": b'{"messages": [], "messages": [{"role": "user", "role": "assistant", "content": "a"}]}\n',
        "of-many-small": lambda: [{"messages": []}] * many, "deep": deep(900), "deeper": deep(9000),
        "deepest": deep(200_000), "of-digits": b'{"messages": [{"role": "user", "content": ' + b"9" * 9000 + b"}]}\n",
        "of-columns-of-escapes": [{OBEYED: 1}] * 20, "of-long-columns": [{"c" * 100_000: 1}] * 20,
        "of-many-columns": lambda: [{f"c{at}": 1 for at in range(30_000)}] * 5,
    }  # fmt: skip
    for name, rows in kinds.items():
        yield chat(f"rows-{name}", rows=rows)
        if len(name) % 3 == 0:
            yield chat(f"rows-{name}-strict", rows=rows, more={"on_error": "fail", "max_untrained": 0.2})
        marked = CHATML.replace("{{ message.content }}", "{% generation %}{{ message.content }}{% endgeneration %}")
        if len(name) % 3 == 1:
            yield chat(f"rows-{name}-marked", marked, rows)
        if len(name) % 3 == 2:
            more = {"rewritten_turns": "unroll", "overflow": "turn", "dedup": "minhash"}
            yield chat(f"rows-{name}-unrolled", rows=rows, more=more)


def _keys() -> Iterator[Case]:
    """Keys of the config that are of conversations alone."""
    datasets: dict[str, Any] = {
        "field-absent": {"field_messages": "none such"}, "field-of-escapes": {"field_messages": OBEYED},
        "field-empty": {"field_messages": ""}, "mapped-to-itself": {"message_property_mappings": {"role": "content", "content": "role"}},
        "mapped-to-nothing": {"message_property_mappings": {"role": "none", "content": "none"}},
        "mapped-to-one": {"message_property_mappings": {"role": "content", "content": "content"}},
        "roles-of-all": {"roles": {"assistant": ["user", "assistant", "system"]}},
        "roles-empty": {"roles": {"": ["user"]}}, "roles-of-escapes": {"roles": {OBEYED: ["user"]}},
        "nobody-is-trained": {"roles_to_train": []}, "strangers-are-trained": {"roles_to_train": [OBEYED]},
        "training-field-of-content": {"message_field_training": "content"},
        "training-field-of-role": {"message_field_training": "role"},
        "detail-field-of-content": {"message_field_training_detail": "content"},
        "form-wrong": {"form": "alpaca"}, "form-unknown": {"form": OBEYED}, "eos-unknown": {"train_on_eos": "some"},
        "a-slice": {"split": "train[:50%]"}, "columns": {"columns": "*"}, "a-separator": {"separator": "\n"},
        "a-text-column": {"text_column": "messages"},
    }  # fmt: skip
    for name, keys in datasets.items():
        source = {"path": "input.jsonl", "type": "chat_template", **keys}
        yield chat(f"keys-{name}", top={"datasets": [source]})
    tops: dict[str, Any] = {
        "kwargs-that-hide": {"chat_template_kwargs": {"messages": [], "raise_exception": 1, "range": 2}},
        "kwargs-deep": {"chat_template_kwargs": {"a": json.loads("[" * 90 + "]" * 90)}},
        "kwargs-a-list": {"chat_template_kwargs": [1]}, "kwargs-of-dates": {"chat_template_kwargs": {"a": "2026-01-31"}},
        "date-of-noise": {"chat_template_date": "yesterday"}, "date-of-year-nought": {"chat_template_date": "0000-00-00"},
        "date-far": {"chat_template_date": "99999-01-01"}, "template-a-folder": {"chat_template": "model"},
        "template-absent": {"chat_template": "none.jinja"}, "template-named": {"chat_template": OBEYED},
        "template-a-nul": {"chat_template": "a\0.jinja"}, "template-a-device": {"chat_template": "/dev/zero"},
        "template-the-input": {"chat_template": "input.jsonl"}, "template-of-300-letters": {"chat_template": "a" * 300},
        "template-itself": {"chat_template": "{{ messages }}"},
        "tokenizer-of-bytes": {"tokenizer": {"builtin": "bytes"}},
    }  # fmt: skip
    for name, top in tops.items():
        yield chat(f"keys-{name}", top=top)
    several: dict[str, Any] = {
        "rows-of-one-token": {"sequence_len": 1}, "rows-of-two": {"sequence_len": 2, "overflow": "turn"},
        "no-packing": {"packing": "none", "sequence_len": 100_000}, "wrapped": {"packing": "wrapped"},
        "tiny-documents": {"max_document_bytes": 100}, "units-of-one": {"unit_bytes": 1},
        "text-output": {"output": "both"}, "rejected": {"rejected": True, "statistics": True},
        "control-dropped": {"special_in_content": "drop"}, "control-allowed": {"special_in_content": "allow"},
        "never-untrained": {"max_untrained": 0}, "untrained-below": {"max_untrained": -1},
        "near-duplicates": {"dedup": {"method": "minhash", "verify": 0.5, "clusters": True}},
        "split-and-shuffled": {"split": {"validation": 0.5}, "shuffle": True}, "few-tokens": {"max_tokens": 1},
    }  # fmt: skip
    for name, more in several.items():
        rows = [{"messages": [{"role": "user", "content": "<|im_end|>"}, WHOLE[0]["messages"][1]]}, *WHOLE]
        yield chat(f"keys-{name}", rows=rows, more=more)


def _files() -> Iterator[Case]:
    """What stands where templates are looked for."""

    def template(write: Callable[[Path], object]) -> Put:
        def put(folder: Path) -> None:
            write(folder / "model" / "chat_template.jinja")

        return put

    def many(folder: Path) -> None:
        place = folder / "model" / "additional_chat_templates"
        place.mkdir()
        for at in range(400):
            (place / f"{at}.jinja").write_text("a" * 900_000)
        (place.parent / "chat_template.jinja").write_text(CHATML)

    def beside(value: Any) -> Put:
        def put(folder: Path) -> None:
            said = {"eos_token": "<|im_end|>", "chat_template": value}
            (folder / "model" / "tokenizer_config.json").write_text(json.dumps(said))

        return put

    places: dict[str, Put] = {
        "a-fifo": template(os.mkfifo), "a-folder": template(Path.mkdir),
        "a-device": template(lambda path: path.symlink_to("/dev/zero")),
        "a-loop": template(lambda path: path.symlink_to(path.name)),
        "a-hole": template(lambda path: (path.touch(), os.truncate(path, 10**12))),
        "many": many, "beside-a-number": beside(5), "beside-numbers": beside([5, {"name": []}]),
        "beside-no-default": beside([{"name": OBEYED, "template": CHATML}]),
        "beside-unhashable": beside([{"name": {}, "template": CHATML}]),
        "beside-megabytes": beside("{{ a }}" * 3_000_000), "beside-megabytes-of-text": beside("a" * 40_000_000),
        "beside-many": beside([{"name": f"n{at}", "template": CHATML} for at in range(50_000)]),
        "beside-a-surrogate": beside("\ud800" + CHATML),
        "more-is-a-file": lambda folder: (folder / "model" / "additional_chat_templates").touch(),
        "more-is-a-fifo": lambda folder: (
            (folder / "model" / "additional_chat_templates").mkdir(),
            os.mkfifo(folder / "model" / "additional_chat_templates" / "tool_use.jinja"),
        ),
        "a-map-of-special-tokens": lambda folder: (folder / "model" / "special_tokens_map.json").write_text(
            json.dumps({"bos_token": {"content": OBEYED}, "eos_token": "none such", "_token": "a", "loop_token": 5})
        ),
    }  # fmt: skip
    for name, put in places.items():
        yield chat(f"file-{name}", None if "more" not in name else CHATML, put=put)
        if len(name) % 2:
            yield chat(f"file-{name}-estimate", None if "more" not in name else CHATML, put=put, verb="estimate")
