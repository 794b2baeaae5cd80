"""The plan: who gets how many bytes, and whether it fits, before any input is read.

A part of a run states a `Need`: the bytes that it takes, whether they are capped (a table, a buffer or a
cache that can't grow beyond) or watched (somebody else's code whose use we predict but can't bound), and how
far it could use more. `make_plan` adds them up with what the process holds already. What doesn't fit is
refused here, with the number that would fit. What is left over goes to the parts that can use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from krill.budget.machine import MAPPED, PRIVATE, available_bytes, require_address_space
from krill.budget.size import format_size, parse_size
from krill.errors import BudgetError

# What the same program holds at its start differs from one time to the next: by 2 MB on a busy machine.
# What it loads after its first plan, such as templates, takes up to 3 MB.
_MARGIN = 6 * 10**6
# `auto` is half of what the process may use: the other half is the page cache that makes reading fast.
AUTO_FRACTION = 2


class Kind(StrEnum):
    """How firmly a share holds."""

    CAPPED = "capped"
    WATCHED = "watched"


@dataclass(frozen=True, slots=True)
class Need:
    """What one part of a run asks for.

    `useful` is the most that would still speed it up, `expected` what this input will make it touch of its
    bytes (for the prediction; by default all of them; a function of its share where that matters), and
    `remedy` what the user can change to need less. Needs with the same `during` are held at once; parts of
    different stages are not.
    """

    name: str
    minimum: int
    kind: Kind = Kind.CAPPED
    useful: int = 0
    expected: int | Callable[[int], int] | None = None
    during: str = "always"
    remedy: str = ""

    def expected_of(self, share: int) -> int:
        """What it will touch of a share."""
        expected = self.expected(share) if callable(self.expected) else self.expected
        return share if expected is None else min(share, expected)


@dataclass(frozen=True, slots=True)
class Share:
    name: str
    size: int
    kind: Kind
    expected: int
    during: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A run's memory, shared out."""

    limit: int
    base: int
    shares: tuple[Share, ...] = field(default=())
    before: int = 0
    """The most that the process held until the plan was made, as when a model was loaded."""
    least: int = 0
    """The smallest budget that the plan could have been made with."""

    def share(self, name: str) -> int:
        """The bytes of the part `name`: the only way to learn what it may use."""
        for share in self.shares:
            if share.name == name:
                return share.size
        raise KeyError(name)

    def has(self, name: str) -> bool:
        """Whether it was made with the part `name`."""
        return any(share.name == name for share in self.shares)

    def expecting(self, needs: Sequence[Need]) -> Plan:
        """The same, with what is known meanwhile of how much of each share this input will touch, and no
        share larger than is useful for it."""
        known = {need.name: need for need in needs if need.expected is not None}

        def update(share: Share) -> Share:
            need = known.get(share.name)
            if need is None:
                return share
            size = min(share.size, max(need.minimum, need.useful)) if need.useful else share.size
            return replace(share, size=size, expected=need.expected_of(size))

        return replace(self, shares=tuple(map(update, self.shares)))

    @property
    def predicted_peak(self) -> int:
        """What the process will hold at its fullest moment: `VmHWM`, as the kernel will report it."""
        return max(self.before, self.base + max(self._held(stage, expected=True) for stage in self._stages()))

    @property
    def worst_peak(self) -> int:
        """The same if every part fills its share."""
        return max(
            self.before, self.base + max(self._held(stage, expected=False) for stage in self._stages())
        )

    def fullest_stage(self) -> str:
        """The stage that needs most if every part fills its share."""
        return max(self._stages(), key=lambda stage: self._held(stage, expected=False))

    def to_json(self) -> dict[str, Any]:
        return {
            "limit": self.limit,
            "base": self.base,
            "predicted_peak": self.predicted_peak,
            "least": self.least,
            "shares": [
                {
                    "name": s.name,
                    "bytes": s.size,
                    "expected": s.expected,
                    "kind": s.kind.value,
                    "during": s.during,
                }
                for s in self.shares
            ],
        }

    def _stages(self) -> list[str]:
        return list(dict.fromkeys(share.during for share in self.shares)) or ["always"]

    def held(self, stage: str) -> int:
        """What the process holds during a stage if every part fills its share; `always` is the fullest."""
        return self.worst_peak if stage == "always" else self.base + self._held(stage, expected=False)

    def _held(self, stage: str, *, expected: bool) -> int:
        return sum(
            share.expected if expected else share.size
            for share in self.shares
            if share.during in ("always", stage)
        )


def resolve_limit(memory: str | int) -> int:
    """The budget in bytes; `auto` is half of what this process may use now."""
    if isinstance(memory, str) and memory.strip().lower() == "auto":
        return available_bytes() // AUTO_FRACTION
    limit = parse_size(memory, name="memory")
    if limit == 0:
        raise BudgetError("the memory budget is 0 bytes", hint="state one, such as --memory 512MB, or auto")
    require_address_space(MAPPED, PRIVATE, limit)
    return limit


def make_plan(limit: int, base: int, needs: Sequence[Need], *, reserve: int = 0, before: int = 0) -> Plan:
    """Share `limit` out over `needs` on top of `base`, or refuse; so many bytes are left free."""
    minimum = Plan(limit, base, tuple(_share(need, need.minimum) for need in needs), before)
    least = minimum.worst_peak + reserve
    if least > limit:
        raise _refusal(minimum, needs, reserve)
    shares = []
    for need in needs:
        # Parts of different stages never hold their bytes at once, so each stage has all that it leaves.
        spare = limit - reserve - minimum.held(need.during)
        rivals = [
            other.useful - other.minimum
            for other in needs
            if "always" in (need.during, other.during) or need.during == other.during
        ]
        shares.append(_share(need, need.minimum + _extra(spare, need.useful - need.minimum, rivals)))
    return Plan(limit, base, tuple(shares), before, least)


def _extra(spare: int, wanted: int, rivals: list[int]) -> int:
    """An equal part of what is left, up to what is `wanted`; `rivals` want so much, the asking one among
    them, and what one of them has no use for is for the others."""
    wanting = sorted(want for want in rivals if want > 0)
    for done, want in enumerate(wanting):
        part = spare // (len(wanting) - done)
        if part <= want or want >= wanted:
            return max(0, min(part, wanted))
        spare -= want
    return 0


def _share(need: Need, size: int) -> Share:
    return Share(need.name, size, need.kind, need.expected_of(size), need.during)


def _refusal(plan: Plan, needs: Sequence[Need], reserve: int) -> BudgetError:
    when_full = ("always", plan.fullest_stage())
    mendable = [need for need in needs if need.remedy and need.during in when_full]
    mendable.sort(key=lambda need: need.minimum)
    fullest = plan.fullest_stage()
    held = [share for share in plan.shares if share.during in ("always", fullest)]
    parts = ", ".join(f"{share.name} {format_size(share.size)}" for share in held)
    when = "" if fullest == "always" else f" in the stage {fullest}"
    free = f", kept free {format_size(reserve)}" if reserve else ""
    hint = f"{memory_flag(plan.worst_peak + reserve)} would do"
    if plan.before == plan.worst_peak:
        return BudgetError(
            f"the budget is too small: loading the program took {format_size(plan.before)},"
            f" given {format_size(plan.limit)}",
            hint=hint,
        )
    if mendable:
        hint += f"; or {mendable[-1].remedy}"
    return BudgetError(
        f"the budget is too small: the plan needs {format_size(plan.worst_peak + reserve)}{when},"
        f" given {format_size(plan.limit)} (the program itself {format_size(plan.base)}, {parts}{free})",
        hint=hint,
    )


def memory_flag(needed: int) -> str:
    """The flag that gives a budget for `needed` bytes, also if the next start of the program holds more."""
    return f"--memory {-(-(needed + _MARGIN) // 10**6)}MB"
