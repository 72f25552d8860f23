"""The kinds of clusters that tomserve knows, by what the record of a job calls them."""

from __future__ import annotations

from tomserve.clusters.job import Cluster, Job


def cluster_of(job: Job) -> Cluster:
    """The cluster that a job was handed to. Raises MachineError where what it takes to ask it is not installed."""
    if job.cluster == "slurm":
        from tomserve.clusters.slurm import Slurm

        return Slurm()
    from tomserve.clusters.ray import Ray

    return Ray()
