"""What is to be exported, and how: options that shape the files, checked before anything is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from krill.errors import ConfigError

Format = Literal["parquet", "megatron", "bin", "datatrove", "mds", "litdata", "litdata-tokens", "jsonl"]
Split = Literal["train", "validation", "all"]
What = Literal["tokens", "text"]
LineUnit = Literal["rows", "documents"]
Dtype = Literal["auto", "uint16", "uint32", "int32"]

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
# The types that each format's readers take for tokens; in the others tokens keep the type that they have.
_DTYPES: Final[dict[Format, tuple[Dtype, ...]]] = {
    "bin": ("auto", "uint16", "uint32"),
    "megatron": ("auto", "uint16", "int32"),
    "datatrove": ("auto", "uint16", "uint32"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """`what` None is tokens where there are some; `lines` None is documents where they are decoded."""

    to: Format
    split: Split = "all"
    what: What | None = None
    text: bool = False
    lines: LineUnit | None = None
    dtype: Dtype = "auto"

    @property
    def by_documents(self) -> bool:
        """Whether lines are documents, put together again from rows."""
        return self.lines == "documents" or (self.lines is None and self.text)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def check(self) -> None:
        """Refuse unknown values, and options that the format does not have."""
        for name, value, known in (
            ("to", self.to, FORMATS),
            ("split", self.split, get_args(Split)),
            ("what", self.what, (None, *get_args(What))),
            ("lines", self.lines, (None, *get_args(LineUnit))),
            ("dtype", self.dtype, _DTYPES.get(self.to, ("auto",))),
        ):
            if value not in known:
                names = ", ".join(str(choice) for choice in known if choice is not None)
                where = f" for --to {self.to}" if name == "dtype" else ""
                raise ConfigError(f"--{name} is `{value}`", hint=f"choose one of {names}{where}")
        if self.to == "jsonl":
            self._check_lines()
        elif self.text or self.lines is not None:
            option = "--text" if self.text else "--lines"
            raise ConfigError(
                f"{option} is for JSON lines, not for {self.to}", hint="leave it out, or say --to jsonl"
            )
        if self.what == "text" and self.to != "jsonl":
            raise ConfigError(
                f"documents can't be written as {self.to}: it holds tokens",
                hint="say --to jsonl; as Parquet they are in the dataset's folder already, text-*.parquet",
            )

    def _check_lines(self) -> None:
        if self.what == "text" and (self.text or self.lines == "rows" or self.split != "all"):
            raise ConfigError(
                "--what text writes the documents that were kept, all of them, one a line",
                hint="leave out --text, --lines and --split, or say --what tokens",
            )
        if self.text and self.lines == "rows":
            raise ConfigError(
                "--text writes a document a line: a row may begin or end inside a character",
                hint="leave out --lines rows",
            )
