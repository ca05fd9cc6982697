"""Runs the program against its sandbox, with real files. The wheel is installed where these tests run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def running(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the program until the block ends."""
    with subprocess.Popen(
        [penstock.binary(), *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def run(*arguments: str, folder: Path) -> str:
    """Run the program to its end, and return its output."""
    done = subprocess.run([penstock.binary(), *arguments], cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class Workspace:
    """A folder with a configuration that reads the sandbox."""

    folder: Path
    sandbox: str

    def configure(self, destinations: str, *, sources: str = "main", pipeline: str = "streams: [crm.*, sales.*]") -> None:
        """Write pipelines.yaml."""
        app = f'{{app: {{base_url: "{self.sandbox}", auth: {{token: pat_sandbox_readonly}}}}}}'
        all_sources = ", ".join(f"{name}: {app}" for name in sources.split(", "))
        text = (
            f"version: 1\nsources: {{{all_sources}}}\ndestinations: {{{destinations}}}\n"
            f"pipelines: {{all: {{from: [{sources}], to: warehouse, {pipeline}}}}}\nserve: {{listen: 127.0.0.1:0}}\n"
        )
        (self.folder / "pipelines.yaml").write_text(text)

    def sync(self) -> None:
        """Run penstock sync."""
        run("sync", folder=self.folder)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a sandbox."""
    with running("sandbox", "--listen", "127.0.0.1:0", "--no-limits", folder=tmp_path_factory.mktemp("sandbox")) as process:
        assert process.stdout
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address
        yield address[0]


@pytest.fixture(scope="session")
def loaded(sandbox: str, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace that was synced once, with a published copy."""
    workspace = Workspace(tmp_path_factory.mktemp("loaded"), sandbox)
    workspace.configure('warehouse: {url: "duckdb:private.duckdb?block_size=16384", publish: analysts.duckdb}')
    workspace.sync()
    return workspace


@pytest.fixture
def workspace(sandbox: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Return an empty workspace, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    return Workspace(tmp_path, sandbox)


@pytest.fixture
def here(loaded: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Make the loaded workspace the current folder."""
    monkeypatch.chdir(loaded.folder)
    return loaded


@pytest.fixture(scope="session")
def wheel() -> Path:
    """Return the wheel under test."""
    return Path(os.environ["PENSTOCK_TEST_WHEEL"])
