"""Damaged files for every reader of Krill's.

    python tests/fuzz [--seconds 600] [--count N] [--seed N] [--target NAME]
    python tests/fuzz --target NAME --seed N --only NUMBER     repeats one, with its traceback

Without a target, all share the time. Ends with 1 if something did not hold; the damaged file is then kept in
`build/fuzz-failures`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from fuzz_targets import TARGETS
from fuzzing import Failure, Fuzzer

KEPT = Path("build/fuzz-failures")
_AT_ONCE = 500
# Most of the time would go into making and removing files.
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--count", type=int, default=10**9, help="mutations of each target, at most")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="may be given again")
    parser.add_argument("--only", type=int, default=None)
    parser.add_argument("--most-failures", type=int, default=20)
    options = parser.parse_args()
    chosen = [TARGETS[name] for name in options.target or TARGETS]
    print(f"seed {options.seed}", flush=True)
    failures = 0
    for place, target in enumerate(chosen):
        share = options.seconds / len(chosen)
        with tempfile.TemporaryDirectory(prefix="krill-fuzz-", dir=_MEMORY) as folder:
            fuzzer = Fuzzer(target, Path(folder), options.seed)
            if options.only is not None:
                fuzzer.try_one(options.only)
                return 0
            failures += _fuzz(fuzzer, share, options.count, options.most_failures)
        print(f"  {place + 1} of {len(chosen)} targets", flush=True)
    return 1 if failures else 0


def _fuzz(fuzzer: Fuzzer, seconds: float, count: int, most: int) -> int:
    begun, tried, failures = time.monotonic(), 0, 0
    while time.monotonic() < begun + seconds and tried < count and failures < most:
        numbers = range(tried, min(count, tried + _AT_ONCE))
        for failure in fuzzer.run(numbers, begun + seconds):
            _keep(fuzzer, failure)
            print(failure, flush=True)
            failures += 1
            if failures == most:
                break
        tried += len(numbers)
    rate = tried / (time.monotonic() - begun)
    print(
        f"{fuzzer.target.name}: about {tried:,} mutations, {rate:,.0f} a second, {failures} failures",
        flush=True,
    )
    return failures


def _keep(fuzzer: Fuzzer, failure: Failure) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    name = f"{failure.target}-{failure.seed}-{failure.number}-{Path(failure.case).name}"
    (KEPT / name).write_bytes(fuzzer.mutated(failure.number))


if __name__ == "__main__":
    sys.exit(main())
