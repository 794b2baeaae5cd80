"""Where units of work run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from krill.config.fields import Section, Text, Whole, key
from krill.config.messages import SectionFault


class EngineConfig(Section):
    """Where units of work run. Never changes the output."""

    shorthand: ClassVar[str | None] = "name"

    name: Literal["local", "ray", "datatrove"] = key(
        "local",
        "`local`: threads of this process. `ray`: a Ray cluster (extra `ray`). `datatrove`: ranks, by what "
        "`executor` says. With the last two, `memory` and `threads` are those of each worker, and input and "
        "output are in folders that all workers see.",
    )
    address: Text | None = key(
        None,
        "`ray`: the cluster's address, or `auto` for the one that this machine is part of; `null` starts one "
        "on this machine and ends it after the run.",
    )
    executor: Literal["local", "ray", "slurm"] = key(
        "local", "`datatrove`: processes of this machine, the engine `ray`, or jobs of Slurm's."
    )
    workers: Annotated[int | Literal["auto"], Whole(1, words=("auto",))] = key(
        "auto", "Tasks that run at once; `auto` is as many as the cluster has cores for."
    )
    retries: Annotated[int, Whole(0, 100)] = key(3, "How often a task is run again whose worker died.")
    partition: Text | None = key(None, "`slurm`: the partition to submit to. Required there.")
    time: Text = key("24:00:00", "`slurm`: the time limit of a job.")
    account: Text | None = key(None, "`slurm`: the account that is charged.")
    sbatch: dict[str, str] = Field(
        default_factory=dict,
        description="`slurm`: more arguments of `sbatch`, such as `{constraint: avx2}`.",
    )

    @property
    def uses_ray(self) -> bool:
        """Whether tasks go to a Ray cluster: by its own name, or as an executor of datatrove's."""
        return self.name == "ray" or (self.name == "datatrove" and self.executor == "ray")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.name == "datatrove" and self.executor == "slurm" and self.partition is None:
            raise SectionFault(
                "`partition` is missing, and `executor` is `slurm`; `sinfo` lists the partitions"
            )
        return self
