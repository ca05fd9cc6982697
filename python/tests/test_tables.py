"""tables() and certificate() say what the program says."""

from __future__ import annotations

import json
from datetime import timezone
from typing import TYPE_CHECKING

import duckdb
import pytest
from conftest import run

import penstock

if TYPE_CHECKING:
    from conftest import Workspace


def test_tables(here: Workspace) -> None:
    found = {table.name: table for table in penstock.tables()}
    documented = json.loads(run("docs", "--json", folder=here.folder))
    want = [table for group in documented["groups"] for table in group["tables"]]
    assert {t.name: (t.stream, t.rows, t.verdict) for t in found.values()} == {
        t["name"]: (t["stream"], t["standing"], t.get("verdict")) for t in want
    }
    leads = found["crm_leads"]
    assert (leads.stream, leads.pipeline, leads.current) == ("crm.leads", "all", "crm_leads_current")
    assert leads.last_synced
    assert leads.last_synced.tzinfo is timezone.utc
    assert found["sales_invoices__items"].stream == "sales.invoices"
    with penstock.connect() as con:
        for table in found.values():
            assert con.execute(f'SELECT count(*) FROM "{table.current}"').fetchone() == (table.rows,)


def test_certificate(here: Workspace) -> None:
    with penstock.connect() as con:
        pending = con.execute("SELECT 1 UNION ALL SELECT 2")
        c = penstock.certificate("crm_leads", con)
        assert pending.fetchall() == [(1,), (2,)], "a result of the caller stays readable"
        assert c == penstock.certificate("crm.leads", con) == penstock.certificate("crm_leads_current", con)
        want = con.execute("SELECT fetched, written, verdict, run FROM _penstock_certificates WHERE stream = 'crm.leads'").fetchone()
        assert (c.fetched, c.written, c.verdict, c.run) == want
        assert c.fetched == c.written + c.unchanged + c.deduplicated + c.rejected
        assert c.proven == (c.verdict == "proven")
        assert c.source is None
        assert c.witnesses["why"] == c.why
        assert str(c).startswith(f"crm_leads: {c.verdict} at ")
        assert c.meaning in str(c)
        assert penstock.certificate("sales_invoices__items", con).stream == "sales.invoices"
        with pytest.raises(penstock.Error, match=r"no table 'sales_nothing': penstock.tables\(\) lists what is loaded"):
            penstock.certificate("sales_nothing", con)


def test_newest_certificate(workspace: Workspace) -> None:
    workspace.configure("warehouse: duckdb:w.duckdb", pipeline="streams: crm.lead_stages")
    workspace.sync()
    first = penstock.certificate("crm_lead_stages")
    workspace.sync()
    second = penstock.certificate("crm_lead_stages")
    assert second.at > first.at
    assert (second.written, second.unchanged) == (0, first.written)
    (table,) = penstock.tables()
    assert table.last_synced == second.at


def test_deleted_rows_do_not_count(workspace: Workspace) -> None:
    workspace.configure("warehouse: duckdb:w.duckdb", pipeline="streams: crm.lead_stages")
    workspace.sync()
    (before,) = penstock.tables()
    with duckdb.connect("w.duckdb") as con:
        con.execute("UPDATE crm_lead_stages SET _penstock_deleted_at = now() WHERE id = (SELECT min(id) FROM crm_lead_stages)")
    (after,) = penstock.tables()
    assert after.rows == before.rows - 1


def test_shared_tables(workspace: Workspace) -> None:
    workspace.configure("warehouse: duckdb:w.duckdb", sources="north, south", pipeline="streams: crm.lead_stages")
    workspace.sync()
    with penstock.connect() as con:
        (table,) = penstock.tables(con)
        with pytest.raises(penstock.Error, match="several sources share crm_lead_stages: choose one of north, south"):
            penstock.certificate("crm_lead_stages", con)
        with pytest.raises(penstock.Error, match="no certificate of source 'west' for crm_lead_stages: its sources are north, south"):
            penstock.certificate("crm_lead_stages", con, source="west")
        both = [penstock.certificate("crm_lead_stages", con, source=s) for s in ("north", "south")]
    assert [c.source for c in both] == ["north", "south"]
    assert table.rows == sum(c.distinct for c in both)
    assert table.last_synced == min(c.at for c in both)
    assert " of source north" in str(both[0])
