"""connect() finds the file, prefers the published copy, and explains what is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import penstock

if TYPE_CHECKING:
    from conftest import Workspace


def file_of(con: duckdb.DuckDBPyConnection) -> str:
    found = con.execute("SELECT path FROM duckdb_databases() WHERE database_name = current_database()").fetchone()
    assert found
    return Path(found[0]).name


def test_published_copy(here: Workspace) -> None:
    with penstock.connect() as con:
        assert file_of(con) == "analysts.duckdb"
        assert con.execute("SELECT count(*) > 0 FROM crm_leads_current").fetchone() == (True,)
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            con.execute("DELETE FROM crm_leads")


def test_path(loaded: Workspace) -> None:
    with penstock.connect(loaded.folder / "private.duckdb") as con:
        assert file_of(con) == "private.duckdb"


def test_before_the_first_copy(workspace: Workspace) -> None:
    workspace.configure("warehouse: duckdb:private.duckdb", pipeline="streams: crm.lead_stages")
    workspace.sync()
    workspace.configure("warehouse: {url: 'duckdb:private.duckdb', publish: analysts.duckdb}")
    with penstock.connect() as con:
        assert file_of(con) == "private.duckdb"


def test_config_elsewhere(loaded: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(penstock.Error, match=r"no configuration: pipelines.yaml does not exist"):
        penstock.connect()
    config = loaded.folder / "pipelines.yaml"
    with pytest.raises(penstock.Error, match="A relative path in a configuration starts at the current folder"):
        penstock.connect(config=config)
    monkeypatch.chdir(loaded.folder)
    with penstock.connect(config=config) as con:
        assert file_of(con) == "analysts.duckdb"


def test_several_destinations(workspace: Workspace) -> None:
    workspace.configure("warehouse: duckdb:a.duckdb, desk: duckdb:b.duckdb, lake: parquet:lake")
    with pytest.raises(penstock.Error, match=r"several DuckDB files: choose one of warehouse, desk with connect\(to=…\)"):
        penstock.connect()
    with pytest.raises(penstock.Error, match=r"b\.duckdb does not exist: run `penstock sync`"):
        penstock.connect(to="desk")
    with pytest.raises(penstock.Error, match=r"no destination \"cellar\""):
        penstock.connect(to="cellar")
    workspace.configure("warehouse: parquet:lake")
    with pytest.raises(penstock.Error, match=r"no DuckDB file among the destinations of pipelines.yaml: it has warehouse \(parquet\)"):
        penstock.connect()


def test_a_file_for_each_source(workspace: Workspace) -> None:
    workspace.configure("warehouse: 'duckdb:{source}.duckdb'", sources="north, south", pipeline="streams: crm.lead_stages")
    workspace.sync()
    with pytest.raises(penstock.Error, match="choose one of warehouse@north, warehouse@south"):
        penstock.connect()
    with penstock.connect(to="warehouse@south") as con:
        assert file_of(con) == "south.duckdb"


def test_contradiction() -> None:
    with pytest.raises(penstock.Error, match="either a path, or a configuration and a destination"):
        penstock.connect("a.duckdb", to="warehouse")


def test_no_secrets_of_sources(here: Workspace) -> None:
    text = (here.folder / "pipelines.yaml").read_text()
    other = here.folder / "secret.yaml"
    other.write_text(text.replace("pat_sandbox_readonly", '"${cmd:no-such-program}"'))
    penstock.connect(config=other).close()


HOLD = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_locked(workspace: Workspace) -> None:
    workspace.configure("warehouse: duckdb:private.duckdb", pipeline="streams: crm.lead_stages")
    workspace.sync()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, "private.duckdb"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(penstock.LockedError, match=r"private.duckdb is open in another process.*set `publish: analysts.duckdb`"):
            penstock.connect()
        holder.communicate()
    penstock.connect().close()


def test_older_duckdb(workspace: Workspace) -> None:
    old = os.environ["PENSTOCK_TEST_OLD"]  # a folder with DuckDB 1.3
    check = "import duckdb, penstock; assert duckdb.__version__ < '1.4'; con = penstock.connect(); "
    code = check + "print(con.sql('FROM crm_lead_stages').columns)"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": old}
    workspace.configure("warehouse: duckdb:new.duckdb", pipeline="streams: crm.lead_stages")
    workspace.sync()
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert re.search(r"this version of DuckDB cannot read .*new.duckdb: run `pip install --upgrade duckdb`", done.stderr)
    workspace.configure("warehouse: 'duckdb:old.duckdb?storage_version=v1.0.0'", pipeline="streams: crm.lead_stages")
    workspace.sync()
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "_penstock_synced_at" in done.stdout


def test_other_files(tmp_path: Path) -> None:
    text = tmp_path / "text.duckdb"
    text.write_text("no database " * 1000)
    with pytest.raises(penstock.Error, match=r"open .*text.duckdb"):
        penstock.connect(text)
    strange = tmp_path / "strange.duckdb"
    duckdb.connect(strange).close()
    with penstock.connect(strange) as con, pytest.raises(penstock.Error, match="it has no table _penstock_schema"):
        penstock.tables(con)
