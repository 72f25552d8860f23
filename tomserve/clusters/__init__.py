"""The parts of an evaluation on many machines: as an array of Slurm jobs, or as tasks of Ray.

Nothing here schedules anything: both do, and tomserve tells them what a part needs, and reads back how far each is.
"""
