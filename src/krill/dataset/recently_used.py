"""A bounded memory of what was used last.

Comes in: a key and how to load its value. Goes out: the value, loaded or remembered. Held in memory: values
whose weights add up to at most the capacity; those unused for longest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class RecentlyUsed(Generic[Value]):
    """Thread-safe. Values load outside the lock: two threads may load the same one, and either is right."""

    def __init__(self, capacity: int, weigh: Callable[[Value], int]) -> None:
        self.weight = 0
        self._capacity = capacity
        self._weigh = weigh
        self._lock = Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable, load: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = load()
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self.weight += self._weigh(value)
                while self.weight > self._capacity:
                    _, oldest = self._values.popitem(last=False)
                    self.weight -= self._weigh(oldest)
        return value

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self.weight = 0
