"""Readers of the published copy never wait for penstock serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conftest import running
from reads import Reads

if TYPE_CHECKING:
    from conftest import Workspace


def test_published_copy_is_always_readable(workspace: Workspace) -> None:
    schedule = "streams: crm.lead_stages, schedule: {cron: '@every 1s'}"
    workspace.configure("warehouse: {url: 'duckdb:private.duckdb', publish: analysts.duckdb}", pipeline=schedule)
    workspace.sync()
    published, private = Reads(workspace.folder / "analysts.duckdb"), Reads(workspace.folder / "private.duckdb")
    with running("serve", folder=workspace.folder) as serve:
        while len(published.runs or ()) < 4:  # until the copies of four runs were read
            assert serve.poll() is None, "serve runs"
            published.attempt()
            private.attempt()
    assert published.locked == 0
    assert published.good > 0
