"""The page `queue` of the workbench."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(include_in_schema=False)
