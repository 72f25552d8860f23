"""The kinds of clusters that tomserve knows, by what the record of a job calls them."""

from __future__ import annotations

from tomserve.clusters.job import FILE, Cluster, Job
from tomserve.errors import MachineError


def cluster_of(job: Job, *, believe: bool = False) -> Cluster:
    """The cluster that a job was handed to.

    believe: whether to go by the record of a job also where somebody else has written it. Raises MachineError where
    that is so and not wanted, and where what it takes to ask the cluster is not installed.
    """
    if not (job.ours or believe):
        raise MachineError(
            f"{FILE} was written by somebody else, or on a machine that does not share your home folder; if you trust "
            "the folder, `tomserve status` and `tomserve cancel` go by it with --believe-job"
        )
    if job.cluster == "slurm":
        from tomserve.clusters.slurm import Slurm

        return Slurm()
    from tomserve.clusters.ray import Ray

    return Ray()
