"""The keys of a source of documents, and of how conversations are read from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from krill.config.extract import ExtractConfig
from krill.config.fields import CountOrNone, Names, PathText, Positive, Section, Text, key
from krill.config.messages import SectionFault, one_of


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_lists(value: Any) -> Any:
    return {name: _as_list(names) for name, names in value.items()} if isinstance(value, Mapping) else value


NamesOrOne = Annotated[Names, BeforeValidator(_as_list)]
CHAT: Final = "chat_template"


class DatasetConfig(Section):
    """One source of documents."""

    path: PathText = Field(
        description="File, glob, folder or URL to read; what is not found locally is taken as a Hugging "
        "Face hub id."
    )
    paths_file: PathText | None = key(
        None,
        "File or URL that names the files to read, one a line, below `path`; `.gz` is unfolded. Common Crawl "
        "publishes such lists as `warc.paths.gz`.",
    )
    format: (
        Literal["text", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "warc", "html", "zip", "tar"]
        | None
    ) = key(
        None,
        "What all files of this source are, whatever they are called; `null` goes by their names. `zip` and "
        "`tar` are archives of HTML.",
    )
    split: Text = key(
        "train", "Split to read, or a slice of it such as `train[:10%]` or `train[1000:2000]` (documents)."
    )
    text_column: Text = key("text", "Column or JSON key that holds the document's text.")
    separator: str | None = key(
        None,
        "Plain text only: a file is split into documents at this text. `null` means the first of "
        "`tokenizer.special_tokens`; an empty text makes each file one document. At most 1,000 bytes.",
    )
    columns: NamesOrOne = key(
        (),
        'Other columns to carry along into the text output; "*" for all that the first file has. Web pages '
        "have `url`, `date`, `id`, `content_type` and `title`.",
    )
    extract: ExtractConfig = Field(
        default_factory=ExtractConfig, description="How the text of web pages is found; see [web](web.md)."
    )
    skip_urls: NamesOrOne = key((), "Addresses of web pages to leave out; each is compared as a whole.")
    weight: Annotated[float | None, Positive(words=(None,))] = key(
        None,
        "Share of this source in a mixture, relative to the other weights: each source is then packed on its "
        "own, and the loader mixes them. `null`: sources follow each other.",
    )
    max_tokens: CountOrNone = key(
        None,
        "Tokens to take from this source at most, in whole documents from its beginning; `null` for all.",
    )
    type: Literal["completion", "chat_template"] = key(
        "completion",
        "`completion` is plain text; `chat_template` is conversations, which the chat template renders. All "
        "sources of a run have the same type. See [chat](chat.md) for this and the keys that follow.",
    )
    form: Literal["messages", "conversations", "alpaca", "prompt_completion", "text"] | None = key(
        None,
        "What a row of conversations looks like: OpenAI's `messages`, ShareGPT's `conversations`, `alpaca`, "
        "`prompt_completion` or `text`; `null` finds it by the row's keys.",
    )
    field_messages: Text | None = key(None, "Key of the list of messages; `null` is that of the form.")
    message_property_mappings: dict[Text, Text] = key(
        {}, "What a message calls its properties, such as `{role: from, content: value}`."
    )
    roles: Annotated[dict[Text, NamesOrOne], BeforeValidator(_as_lists)] = key(
        {}, "Other names of roles, such as `{user: [human], assistant: [gpt]}`, which are known anyway."
    )
    roles_to_train: NamesOrOne = key(
        ("assistant",),
        "Roles whose turns are learned; of others than `assistant`, the content and the stop token right "
        "behind it.",
    )
    train_on_eos: Literal["all", "turn", "last", "none"] = key(
        "turn",
        "Which stop tokens are learned: `turn` those of learned turns, `last` the last of these, `all` these "
        "tokens wherever the template writes them, `none`.",
    )
    drop_system_message: bool = key(False, "Leave out system messages.")
    message_field_training: Text | None = key(
        None, "Key of a message that says, as `true` or `false`, whether it is learned, whatever its role."
    )
    message_field_training_detail: Text | None = key(
        None, "Key of a message that lists which of its characters are learned, whatever its role."
    )

    @model_validator(mode="after")
    def _columns_do_not_clash(self) -> Self:
        taken = [name for name in self.columns if name in {self.text_column, "text", "position"}]
        if taken:
            raise SectionFault(
                f"`columns` must not name {one_of(taken)}: the text is there anyway, "
                "and Krill has its own columns `text` and `position`"
            )
        return self


WEB_KEYS: Final = ("paths_file", "format", "extract", "skip_urls")
"""Keys of a source that came with web pages."""

CHAT_KEYS: Final = (
    "form",
    "field_messages",
    "message_property_mappings",
    "roles",
    "roles_to_train",
    "train_on_eos",
    "drop_system_message",
    "message_field_training",
    "message_field_training_detail",
)
"""Keys of a source that say something of conversations alone."""
