"""Which template is taken, what it may do, and what ends it."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_models import TRL_TEMPLATES, make_model, tokenizer_json
from chat_rows import SYSTEM, TOOLS, Row, assistant, call, result, turns, user
from krill.chat import REASONS, ChatDrop, ChatFormat, ChatOptions, ChatRenderer
from krill.chat.blocks import render_row
from krill.chat.sandbox import CompiledTemplate
from krill.chat.template import special_tokens
from krill.errors import ConfigError
from properties import tried

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}"
    "{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
)
ROW = {"messages": [user("a"), assistant("b")]}


def open_source(folder: Path, source: str | None, **options: Any) -> ChatRenderer:
    return ChatRenderer.open(make_model(folder, source), ChatOptions(**options))


def text_of(renderer: ChatRenderer, row: Row = ROW) -> str:
    rendered = renderer.render(row, ChatFormat())
    assert isinstance(rendered, list), rendered
    return rendered[0].text.decode()


def named(text: str) -> str:
    """A template that shows which one it is."""
    return f"{text} {CHATML}"


def test_files_go_before_the_config_and_tool_use_is_for_tools(tmp_path: Path) -> None:
    config = {
        "chat_template": [
            {"name": "default", "template": named("config")},
            {"name": "rag", "template": named("rag")},
        ]
    }
    model = make_model(tmp_path, None, **config)
    assert text_of(ChatRenderer.open(model, ChatOptions())).startswith("config")
    assert text_of(ChatRenderer.open(model, ChatOptions(chat_template="rag"))).startswith("rag")
    (model / "chat_template.jinja").write_text(named("file"))
    (model / "additional_chat_templates").mkdir()
    with_tools = named(
        "{{ tools[0].x }}{% for tool in tools %}{{ tool.function.name }}{% endfor %}"
    )  # asks for them
    (model / "additional_chat_templates" / "tool_use.jinja").write_text(with_tools)
    renderer = ChatRenderer.open(model, ChatOptions())
    assert text_of(renderer).startswith("file")
    assert text_of(renderer, {**ROW, "tools": TOOLS}).startswith("look_up")


def test_a_path_and_a_built_in_name_are_taken(tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text(named("own"))
    model = make_model(tmp_path / "model", named("model"))
    assert text_of(ChatRenderer.open(model, ChatOptions(chat_template=str(own)))).startswith("own")
    built_in = ChatRenderer.open(model, ChatOptions(chat_template="chatml"))
    rendered = built_in.render({"messages": [SYSTEM, *ROW["messages"]]}, ChatFormat())
    assert isinstance(rendered, list)
    (chat,) = rendered
    assert chat.text == (
        b"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
        b"<|im_start|>assistant\nb<|im_end|>\n"
    )
    assert [chat.text[begin:end] for begin, end in chat.trained] == [b"b<|im_end|>"]
    with_tools = built_in.render(
        {"messages": [user("a"), call(x=1), result("2"), assistant("b")]}, ChatFormat()
    )
    assert isinstance(with_tools, ChatDrop)


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (None, {}, "has no chat template"),
        (None, {"chat_template": "missing.jinja"}, "can't read the chat template"),
        (CHATML, {"chat_template": "nonsense"}, "no template has that name"),
        ("{% for %}", {}, "is not a Jinja template"),
        ("{{ raise_exception('never') }}", {}, "can't render a question and its answer: never"),
        ("{{ messages[0].content.nothing.more }}", {}, "can't render a question and its answer"),
        ("nothing", {}, "leaves out the contents"),
        (CHATML + "<|unheard_of|>", {}, r"writes `<\|unheard_of\|>`"),
        (CHATML.replace("im_end", "im_stop"), {}, r"writes `<\|im_stop\|>`"),
        ("{{ strftime_now('%Y') }}" + CHATML, {}, "today's date"),
        (CHATML, {"date": "yesterday"}, "can't be read"),
        ("{{ ''.__class__.__mro__ }}" + CHATML, {}, "may not"),
        ("{% set ns = namespace(_x=1) %}" + CHATML, {}, "may not"),
        ("{% set _ = messages.append(1) %}" + CHATML, {}, "may not"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", {}, "is nested too deeply"),
        ("{{ messages" + ".a" * 5000 + " }}", {}, "is nested too deeply"),
        ("{% if 1 %}" + "{% elif 1 %}" * 6000 + "{% endif %}", {}, "template: it"),
        ("{% for m in messages %}" * 30 + "{% endfor %}" * 30, {}, "too many statically nested blocks"),
        ("{{ " + "9" * 5000 + " }}", {}, "is not a Jinja template: Exceeds the limit"),
        ("{% break %}", {}, "'break' outside loop"),
        ("{{ range(a=1, a=2) }}", {}, "keyword argument repeated"),
        ("{{ a }}" * 7000, {}, "more than 20,000 names"),
    ],
)
def test_a_template_that_does_not_fit_is_refused_before_reading(
    source: str | None, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        open_source(tmp_path, source, **options)
    assert error.value.hint


def test_templates_in_a_config_may_be_noise_and_not_of_any_size(tmp_path: Path) -> None:
    noise = [{"name": ["default"], "template": "a"}, 5, {"name": "default", "template": named("config")}]
    model = make_model(tmp_path / "noise", None, chat_template=noise)
    assert text_of(ChatRenderer.open(model, ChatOptions())).startswith("config")
    model = make_model(tmp_path / "large", None, chat_template="a" * 1_000_001)
    with pytest.raises(ConfigError, match="more than 1,000,000 characters together"):
        ChatRenderer.open(model, ChatOptions())
    model = make_model(tmp_path / "many", CHATML)
    (model / "additional_chat_templates").mkdir()
    for number in range(3):
        (model / "additional_chat_templates" / f"{number}.jinja").write_text("a" * 400_000)
    with pytest.raises(ConfigError, match="more than 1,000,000 characters together"):
        ChatRenderer.open(model, ChatOptions())


def test_several_templates_without_a_default_are_named(tmp_path: Path) -> None:
    config = {
        "chat_template": [{"name": "rag", "template": CHATML}, {"name": "tool_use", "template": CHATML}]
    }
    with pytest.raises(ConfigError, match="no default") as error:
        ChatRenderer.open(make_model(tmp_path, None, **config), ChatOptions())
    assert "`rag`" in str(error.value.hint)


WRITES_TOO_MUCH = [
    "{{ 'x' * 999999999 }}",
    "{% for i in range(99999) %}{{ 'xxxxxxxxxx' * 100 }}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x'|safe) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{{ 'x'.ljust(999999999) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ 9 ** 999999999 }}",
    "{% set x = [1] * 999999999 %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{{ 'x' | center(999999999) }}",
    "{{ (['x'] * 99999) | join('y' * 99999) }}",
    "{{ ('y' * 99999).join(['x'] * 99999) }}",
    "{{ ('x' * 99999) | replace('x', 'y' * 99999) }}",
    "{{ ('x' * 99999).replace('x', 'y' * 99999) }}",
    "{{ ('\n' * 99999) | indent(99999, true, true) }}",
    "{{ ('x ' * 99999) | wordwrap(1, true, 'y' * 99999) }}",
    "{{ [1] | batch(999999999, 'x') | list | length }}",
    "{{ [1] | slice(999999999) | list | length }}",
    "{{ ('\t' * 99999).expandtabs(99999) }}",
    "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
    "{{ '{:999999999d}'.format(1) }}",
    "{{ ('{:9999d}' * 99999).format(*range(99999)) }}",
    "{{ '%999999999d' | format(1) }}",
    "{{ '%*d' | format(999999, 1) }}{{ '%*d' % (999999, 1) }}",
    "{{ ('{:{}d}' * 20).format(*([99999] * 40)) }}",
    "{{ '%.999999999f' % 1.5 }}",
    "{{ range(99999) | list | tojson(indent=99999) }}",
    *(
        "{% set ns = namespace(all=none) %}{% for i in range(9999) %}{% set ns.all = "
        + piled
        + " %}{% endfor %}"
        for piled in (
            "(ns.all or []) + [loop.index ~ 'x' * 99999]",
            "[ns.all, loop.index ~ 'x' * 99999]",
            "(ns.all, loop.index ~ 'x' * 99999)",
            "{'last': ns.all, 'text': loop.index ~ 'x' * 99999}",
            "namespace(last=ns.all, text=loop.index ~ 'x' * 99999)",
        )
    ),
]
TAKES_TOO_LONG = [
    "{% set ns = namespace(all=[]) %}{% for i in range(99999) %}{% set ns.all = ns.all + [''] %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
]


# Small in memory, and endless for whoever writes or compares it.
DOUBLES = [
    *(
        "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
        + f"{{% set ns.a = {doubled} %}}{{% set ns.b = {doubled.replace('ns.a', 'ns.b')} %}}"
        + "{% endfor %}{{ ns.a == ns.b }}"
        for doubled in (
            "[ns.a, ns.a]",
            "(ns.a, ns.a)",
            "{'a': ns.a, 'b': ns.a}",
            "[ns.a] * 2",
            "[ns.a] + [ns.a]",
            "dict(a=ns.a, b=ns.a)",
            "[1] | batch(3, ns.a) | list",
            "[1, 2, 3, 4] | slice(3, ns.a) | list",
        )
    ),
    "{% set a = [1] %}" + "{% set a = [a, a] %}" * 60 + "{{ a | string | length }}",
    "{% macro m(n) %}{{ m(n - 1, varargs, varargs) if n else varargs }}{% endmacro %}{{ m(60, 1) }}",
    "{% macro m(n) %}{{ m(n - 1, a=kwargs, b=kwargs) if n else kwargs }}{% endmacro %}{{ m(60) }}",
]


@pytest.mark.parametrize("source", [*WRITES_TOO_MUCH, *TAKES_TOO_LONG])
def test_a_template_that_loops_or_writes_gigabytes_is_ended(source: str, tmp_path: Path) -> None:
    guarded = "{% if messages[0].content == 'evil' %}" + source + "{% endif %}" + CHATML
    renderer = open_source(tmp_path, guarded, max_rendered_bytes=1_000_000)
    tracemalloc.start()
    rendered = renderer.render({"messages": [user("evil"), assistant("b")]}, ChatFormat())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(rendered, ChatDrop)
    assert most < 30 * 10**6  # it is told before it is made
    expected = "template_too_many_steps" if source in TAKES_TOO_LONG else "template_too_long"
    assert rendered.reason == expected
    assert text_of(renderer).endswith("b<|im_end|>")


@pytest.mark.parametrize("source", DOUBLES)
def test_lists_that_hold_others_twice_and_twice_again_are_ended(source: str) -> None:
    template = CompiledTemplate(source, None, 50_000)
    with pytest.raises(ChatDrop, match=r"in a list or object|a text or list of"):
        template.render({"messages": []})


def test_a_template_may_collect_texts_and_messages(tmp_path: Path) -> None:
    collects = (
        "{% set ns = namespace(all=[], own=none) %}{% set ns.own = ns %}"
        "{% for m in messages %}{% set ns.all = ns.all + [m, m.content] %}{% endfor %}"
    )
    plain, collecting = (
        open_source(tmp_path / name, source, max_rendered_bytes=1_000_000)
        for name, source in (("plain", CHATML), ("collecting", collects + CHATML))
    )
    row = {"messages": [user("x" * 300_000), assistant("y" * 300_000)] * 1}
    assert collecting.render(row, ChatFormat()) == plain.render(row, ChatFormat())


def test_a_row_that_the_template_refuses_is_left_out_with_what_it_said(tmp_path: Path) -> None:
    alternate = "{% if messages[0].role != 'user' %}{{ raise_exception('users begin') }}{% endif %}" + CHATML
    rendered = open_source(tmp_path, alternate).render({"messages": [assistant("b")]}, ChatFormat())
    assert isinstance(rendered, ChatDrop)
    assert (rendered.reason, rendered.detail) == ("template_error", "users begin")


def test_a_hundred_thousand_messages_are_one_text_or_a_reason(tmp_path: Path) -> None:
    messages = turns(100_000)
    marked = open_source(tmp_path / "marked", CHATML).render({"messages": messages}, ChatFormat())
    assert isinstance(marked, list) and len(marked[0].trained) == 50_000
    source = CHATML.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    asking = source + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    unmarked = open_source(tmp_path / "unmarked", asking).render({"messages": messages}, ChatFormat())
    assert isinstance(unmarked, ChatDrop) and unmarked.reason == "too_many_turns"
    fewer = turns(4000)
    placed = open_source(tmp_path / "fewer", asking).render({"messages": fewer}, ChatFormat())
    assert placed == open_source(tmp_path / "few", CHATML).render({"messages": fewer}, ChatFormat())
    rewriting = asking.replace("{{ m.content }}", "{{ m.content }}{{ '.' if loop.last }}")
    rewritten = open_source(tmp_path / "rewritten", rewriting, rewritten_turns="unroll")
    dropped = rewritten.render({"messages": messages}, ChatFormat())
    assert isinstance(dropped, ChatDrop) and dropped.reason == "too_many_turns"


@pytest.mark.parametrize(
    ("often", "placed"),
    [("loop.index0 % 8 == 5", True), ("loop.index0 == 271", False), ("loop.index0 == 299", True)],
)
def test_of_many_turns_each_looks_like_one_that_was_rendered_by_itself(
    often: str, placed: bool, tmp_path: Path
) -> None:
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}{{ ' again' if "
        + often
        + " }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant"
        "{% for m in messages + [1] %}{{ ' again' if loop.last and "
        + often
        + " }}{% endfor %}{{ '\n' }}{% endif %}"
    )
    rendered = open_source(tmp_path, source).render({"messages": turns(300)}, ChatFormat())
    if not placed:
        assert isinstance(rendered, ChatDrop) and rendered.reason == "too_many_turns"
        return
    assert isinstance(rendered, list)
    (chat,) = rendered
    assert [chat.text[begin:end].decode() for begin, end in chat.trained] == [
        f"{message['content']}<|im_end|>" for message in turns(300)[1::2]
    ]


def test_text_that_is_not_unicode_is_a_reason(tmp_path: Path) -> None:
    for source in (CHATML, CHATML.replace("{% generation %}", "").replace("{% endgeneration %}", "")):
        source += "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        rendered = open_source(tmp_path, source).render(
            {"messages": [user("a\ud800"), assistant("b")]}, ChatFormat()
        )
        assert isinstance(rendered, ChatDrop) and rendered.reason == "invalid_unicode"


def test_markers_in_a_variable_are_placed_where_it_is_written(tmp_path: Path) -> None:
    source = (
        "{% for m in messages %}"
        "{% set turn %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% endset %}"
        "<|im_start|>{{ m.role }}\n{{ turn if m.role == 'assistant' else m.content }}{% endfor %}"
    )
    rendered = open_source(tmp_path, source).render({"messages": turns(4)}, ChatFormat())
    assert isinstance(rendered, list)
    (chat,) = rendered
    assert [chat.text[begin:end].decode() for begin, end in chat.trained] == [
        f"{message['content']}<|im_end|>" for message in turns(4)[1::2]
    ]
    trimmed = open_source(tmp_path, source.replace("{{ turn if", "{{ turn | trim if"))
    assert isinstance(trimmed.render({"messages": turns(4)}, ChatFormat()), list)
    moved = trimmed.render({"messages": [user("a"), assistant(" b")]}, ChatFormat())
    assert isinstance(moved, ChatDrop) and moved.reason == "markers_not_placed"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("{% autoescape true %}", "{% endautoescape %}"),
        ("{% macro turn(m) %}", "{% endmacro %}{{ turn(m) }}"),
        ("{% filter replace('#', '') %}", "{% endfilter %}"),
        ("{% block turn scoped %}", "{% endblock %}"),
        ("{% for x in [1] recursive %}", "{% endfor %}"),
        ("{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}", "{% endfor %}"),
        ("{% generation %}", "{% endgeneration %}"),
    ],
)
def test_markers_are_found_wherever_they_stand_and_a_row_has_none(
    before: str, after: str, tmp_path: Path
) -> None:
    marked = "{% generation %}{% set m = m %}{{ m.content }}<|im_end|>{% endgeneration %}"
    source = CHATML.replace(
        "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}", before + marked + after
    )
    rendered = open_source(tmp_path, source).render({"messages": turns(4)}, ChatFormat())
    assert isinstance(rendered, list)
    (chat,) = rendered
    assert chat.text.decode() == text_of(open_source(tmp_path, CHATML), {"messages": turns(4)})
    assert [chat.text[begin:end].decode() for begin, end in chat.trained] == [
        f"{message['content']}<|im_end|>" for message in turns(4)[1::2]
    ]


def test_noncharacters_of_a_row_are_not_taken_for_markers(tmp_path: Path) -> None:
    renderer = open_source(tmp_path, CHATML)
    rendered = renderer.render({"messages": [user("\ufdd0"), assistant("\ufdd1")]}, ChatFormat())
    assert isinstance(rendered, list)
    (chat,) = rendered
    assert "<|im_start|>user\n\ufdd0<|im_end|>" in chat.text.decode()
    assert [chat.text[begin:end].decode() for begin, end in chat.trained] == ["\ufdd1<|im_end|>"]


def test_what_a_block_sets_stays_in_it_and_sums_are_pythons(tmp_path: Path) -> None:
    source = (
        "{% set x = 1 %}{% generation %}{% set x = 2 %}{% endgeneration %}{{ x + 1 + 1 }}"
        "{{ ('<' | e) + '<' + 'b' }}{{ ([1] + [2]) | length }}"
        "{{ messages[0].missing }}{{ 'ab'.upper() + '!' }} "
    )
    assert text_of(open_source(tmp_path, source + CHATML)).startswith("3&lt;&lt;b2AB! ")
    undefined = "{{ messages[0].missing + 'a' }}"
    with pytest.raises(ConfigError, match="has no attribute 'missing'"):
        open_source(tmp_path, undefined + CHATML)


def test_the_date_is_the_configs(tmp_path: Path) -> None:
    renderer = open_source(tmp_path, "{{ strftime_now('%d %b %Y') }}" + CHATML, date="2026-01-31")
    assert text_of(renderer).startswith("31 Jan 2026")


def test_kwargs_of_the_run_and_of_the_row_reach_the_template(tmp_path: Path) -> None:
    renderer = open_source(
        tmp_path, "{{ style }} {{ bos_token }}" + CHATML, chat_template_kwargs={"style": "run"}
    )
    assert text_of(renderer).startswith("run <|begin|>")
    assert text_of(renderer, {**ROW, "chat_template_kwargs": {"style": "row"}}).startswith("row <|begin|>")


def test_a_stop_token_other_than_eos_is_warned_of(tmp_path: Path) -> None:
    (warning,) = open_source(tmp_path, CHATML).warnings
    assert "`<|im_end|>`" in warning and "`<|stop|>`" in warning
    model = make_model(tmp_path, CHATML, eos_token="<|im_end|>")
    assert ChatRenderer.open(model, ChatOptions()).warnings == ()
    (warning,) = open_source(tmp_path, CHATML.replace("<|im_end|>", "")).warnings
    assert "no stop token" in warning


def test_a_tokenizer_that_is_not_native_is_named(tmp_path: Path) -> None:
    parsed = json.loads(tokenizer_json())
    parsed["pre_tokenizer"] = {"type": "Unheard"}
    model = make_model(tmp_path, CHATML, json.dumps(parsed))
    with pytest.raises(ConfigError, match="native"):
        ChatRenderer.open(model, ChatOptions())


def test_special_tokens_have_the_names_that_templates_know(tmp_path: Path) -> None:
    settings = {
        "pad_token": {"content": "<pad>"},
        "extra_special_tokens": {"image_token": "<image>"},
        "unk_token": None,
    }
    found = special_tokens(make_model(tmp_path, None, **settings))
    assert found == {
        "bos_token": "<|begin|>",
        "eos_token": "<|stop|>",
        "pad_token": "<pad>",
        "image_token": "<image>",
    }


def test_a_row_that_is_nested_too_deeply_is_a_reason(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = [deep]
    for row in ({**ROW, "tools": [{"f": deep}]}, {"messages": [user("a"), assistant("b", more=deep)]}):
        rendered = open_source(tmp_path, CHATML).render(row, ChatFormat())
        assert isinstance(rendered, ChatDrop) and rendered.reason == "too_deep"


def test_a_row_whose_numbers_or_depths_no_reader_takes_is_a_reason(tmp_path: Path) -> None:
    renderer = open_source(tmp_path, CHATML)
    surrogate = b'{"text": "\\ud800", "x": '
    for value, reason in ((b"9" * 5000, "bad_value"), (b"[" * 50_000 + b"]" * 50_000, "too_deep")):
        found = render_row(renderer, surrogate + value + b"}", ChatFormat())
        assert isinstance(found, ChatDrop)
        assert found.reason == reason


def test_a_text_is_measured_in_bytes(tmp_path: Path) -> None:
    renderer = open_source(tmp_path, CHATML, max_rendered_bytes=1000)
    for letter, fits in (("a", True), ("🦐", False)):
        rendered = renderer.render({"messages": [user(letter * 800), assistant("b")]}, ChatFormat())
        assert isinstance(rendered, list) == fits


names = st.sampled_from(
    ["role", "content", "tool_calls", "function", "arguments", "name", "weight", "reasoning"]
)
texts = st.sampled_from(
    ["user", "assistant", "tool", "", "<|im_end|>", "{", "\ufdd0\ufdd2", '\U0001fffe"9\U0001ffff']
)
values = st.recursive(
    st.none() | st.integers(0, 2) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
messages = st.fixed_dictionaries(
    {"role": texts, "content": texts}, optional={"tool_calls": values, "name": values}
)


@pytest.fixture(scope="module", params=["qwen2_5", "qwen2_5_training"])
def renderer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ChatRenderer:
    source = next(path.read_text() for path in TRL_TEMPLATES if path.stem == request.param)
    return open_source(tmp_path_factory.mktemp("model"), source)


@tried(100)
@given(st.lists(messages, max_size=5), values)
def test_any_messages_are_rendered_or_have_a_reason(
    renderer: ChatRenderer, some: list[Row], tools: Any
) -> None:
    rendered = renderer.render({"messages": some, "tools": tools}, ChatFormat())
    if isinstance(rendered, ChatDrop):
        assert rendered.reason in REASONS
        return
    for chat in rendered:
        ends = [position for span in chat.trained for position in span]
        assert ends == sorted(ends) and ends[0] >= 0 and ends[-1] <= len(chat.text)
