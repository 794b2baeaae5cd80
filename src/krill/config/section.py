"""What every part of the config is: a model that stays as it was checked."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the config: frozen, without keys that are not declared."""

    # Built when first used: a config is checked as a whole, so most sections need no validator of their own.
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), defer_build=True)

    shorthand: ClassVar[str | None] = None
    """The key that a plain value in place of the section sets: `dedup: exact`."""
