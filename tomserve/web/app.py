"""The application: pages, programming interface, and what guards both."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from tomserve._version import __version__
from tomserve.web import api, refusing
from tomserve.web.access import Access
from tomserve.web.guard import Guard
from tomserve.web.pages import (
    answers,
    compare,
    dashboard,
    items,
    leaderboard,
    live,
    login,
    new,
    queue,
    run,
    trying,
)
from tomserve.web.queue import Queue
from tomserve.web.register import Register
from tomserve.web.rendering import FOLDER
from tomserve.web.settings import Settings
from tomserve.web.workbench import Workbench

PAGES = (
    dashboard.router,
    new.router,
    queue.router,
    live.router,
    run.router,
    answers.router,
    compare.router,
    leaderboard.router,
    items.router,
    trying.router,
    login.router,
)


def make(settings: Settings) -> FastAPI:
    """The application of a workbench with these settings."""
    app = api.Described(
        title=api.TITLE,
        description=api.DESCRIPTION,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.access = Access(settings)
    app.add_middleware(Guard, access=app.state.access)
    refusing.install(app)
    register = Register(settings.folder)
    app.state.workbench = Workbench(settings, register, Queue(register, settings))
    # The style of the report is the style of the workbench, too, so that figures and tables look alike in both.
    static = StaticFiles(directory=FOLDER / "static", packages=[("tomserve.reporting.html", "assets")])
    app.mount("/static", static, name="static")
    for router in PAGES:
        app.include_router(router)
    app.include_router(api.router)
    return app
