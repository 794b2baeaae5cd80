"""Conversations for tests of chat data."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

SYSTEM = {"role": "system", "content": "Be brief."}
CALL_ID = "call00000"  # nine letters and digits, as Mistral's templates want
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": 'Says what "the weather" is.\nIn a city.',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Größe > 0, 你好"},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                },
                "required": ["city"],
            },
        },
    }
]


def user(content: str) -> Row:
    return {"role": "user", "content": content}


def assistant(content: str, **more: Any) -> Row:
    return {"role": "assistant", "content": content, **more}


def call(**arguments: Any) -> Row:
    function = {"name": "look_up", "arguments": arguments}
    return assistant("", tool_calls=[{"id": CALL_ID, "type": "function", "function": function}])


def result(content: str) -> Row:
    return {"role": "tool", "name": "look_up", "tool_call_id": CALL_ID, "content": content}


def turns(count: int) -> list[Row]:
    """So many messages, of a user and an assistant in turn."""
    return [(assistant if number % 2 else user)(f"Text {number}, größer 你好 🦐?") for number in range(count)]


CONVERSATIONS: dict[str, Row] = {
    "one turn": {"messages": turns(2)},
    "three turns": {"messages": turns(6)},
    "a system message": {"messages": [SYSTEM, *turns(4)]},
    "whitespace": {
        "messages": [user("  indented\n\n"), assistant("\n\nyes \t"), user("\r\n?"), assistant(" ok\n")]
    },
    "reasoning": {"messages": [user("2 + 2?"), assistant("4", reasoning_content="Two and two.\nFour.")]},
    "reasoning twice": {
        "messages": [
            user("2 + 2?"),
            assistant("4", reasoning_content="Two and two."),
            user("And 3?"),
            assistant("7", reasoning_content="Four and three."),
        ]
    },
    "a think block": {"messages": [user("2 + 2?"), assistant("<think>\nFour.\n</think>\n\n4")]},
    "tools": {
        "messages": [
            SYSTEM,
            user("Weather?"),
            call(city='Par"is', days=3, exact=True),
            result('{"C": 21}'),
            assistant("21 °C"),
        ],
        "tools": TOOLS,
    },
    "two calls": {
        "messages": [
            user("Both?"),
            call(city="Oslo"),
            result("1"),
            call(city="Rom", unit="C"),
            result("20"),
            assistant("1 and 20"),
            user("Thanks"),
            assistant("Welcome"),
        ],
        "tools": TOOLS,
    },
    "many turns": {"messages": turns(40)},
    "markup": {"messages": [user("<b>a</b> & <tool_response> <|x|>"), assistant("if a < b and b > c: <i>")]},
}
