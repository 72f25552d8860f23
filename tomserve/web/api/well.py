"""Whether the workbench answers: the one route that strangers may ask for."""

from __future__ import annotations

from fastapi import APIRouter

from tomserve.web.schemas import Health

router = APIRouter()


@router.get("/health")
def health() -> Health:
    """Whether the workbench answers; tells nothing else."""
    return Health()
