"""The process that starts a crew: `python -m krill.engines.datatrove_start FILE`, by the driver.

In: a JSON file with a `CrewPlan`. Out: the crew runs; on Slurm the file `job` beside it says under which
number. It is a process of its own so that the driver holds nothing of datatrove's and can end it with all
that it started, and so that the terminal stays free of its logs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson

from krill.engines.datatrove_crew import CrewPlan
from krill.engines.datatrove_pipeline import executor_of
from krill.storage.atomic import write_bytes


def main(path: Path) -> None:
    """Start the crew of which `path` tells."""
    plan = CrewPlan(**orjson.loads(path.read_bytes()))
    if plan.executor == "ray":
        import ray

        ray.init(address=plan.address, log_to_driver=False, configure_logging=False)
    executor = executor_of(plan)
    try:
        executor.run()
    except subprocess.CalledProcessError:
        sys.exit(1)  # `sbatch` has said why, and says it better than a traceback
    if plan.executor == "slurm":
        write_bytes(path.with_name("job"), str(executor.job_id).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
