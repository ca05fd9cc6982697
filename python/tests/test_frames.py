"""Frames have the exact values of the database."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest

import penstock

if TYPE_CHECKING:
    from conftest import Workspace

SUMS = "SELECT sum(total_amount) AS total, sum(id) AS ids FROM sales_invoices_current"


def test_decimals_are_exact(here: Workspace) -> None:
    with penstock.connect() as con:
        invoices = penstock.arrow("sales_invoices_current", con)
        assert pa.types.is_decimal(invoices.schema.field("total_amount").type)
        assert penstock.polars("sales_invoices_current", con)["total_amount"].dtype == pl.Decimal(16, 2)
        amounts = con.execute("SELECT total_amount FROM sales_invoices_current ORDER BY id").fetchall()
        assert [(v,) for v in invoices.sort_by("id")["total_amount"].to_pylist()] == amounts
        total = sum((amount for (amount,) in amounts), Decimal(0))
        assert penstock.arrow(SUMS, con).to_pylist()[0]["total"] == total
        frame = penstock.polars(SUMS, con)
        assert frame["total"].item() == total
        assert frame["ids"].dtype.is_decimal(), "a sum of integers has 128 bits"
        large = penstock.polars("SELECT 12345678901234567890123456789012.34::DECIMAL(38, 2) AS v", con)
        assert large["v"].item() == Decimal("12345678901234567890123456789012.34")


def test_types(here: Workspace) -> None:
    frame = penstock.polars("SELECT _penstock_synced_at AS synced, invoice_date FROM sales_invoices LIMIT 1")
    assert isinstance(frame["synced"].dtype, pl.Datetime)
    assert frame["synced"].dtype.time_unit == "us"
    assert frame["synced"].dtype.time_zone
    assert frame["invoice_date"].dtype == pl.Date
    assert here.folder


def test_a_name_is_not_sql(here: Workspace) -> None:
    with penstock.connect() as con:
        assert penstock.arrow("crm_leads", con).num_rows == con.execute("SELECT count(*) FROM crm_leads").fetchall()[0][0]
        assert penstock.polars("FROM crm_leads LIMIT 2", con).height == 2
    assert here.folder


def test_without_pyarrow(here: Workspace) -> None:
    hide = "import sys; sys.modules['pyarrow'] = None; import penstock; "
    code = hide + "print(penstock.polars('crm_leads').height > 0); penstock.arrow('crm_leads')"
    done = subprocess.run([sys.executable, "-c", code], cwd=here.folder, check=False, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
    assert "the package pyarrow is missing: install it with `pip install 'penstock[pyarrow]'`" in done.stderr


def test_without_polars(here: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(penstock.Error, match="the package polars is missing"):
        penstock.polars("crm_leads")
    assert here.folder
