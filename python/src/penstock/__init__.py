"""penstock copies a business platform's REST API into DuckDB and other databases, and proves that the copy is complete.

The wheel has the program, which `penstock` and `python -m penstock` run, and this module, which reads the DuckDB file:

    import penstock

    con = penstock.connect()                            # DuckDB's own connection, read-only
    penstock.tables(con)                                # what is loaded, how many rows, how well proven
    penstock.certificate("sales_invoices", con)         # what is proven about one table
    penstock.polars("FROM sales_invoices_current", con)  # a frame whose decimals are exact
"""

from __future__ import annotations

import importlib.metadata

from ._binary import binary
from ._connect import connect
from ._errors import Error, LockedError
from ._frames import arrow, polars
from ._tables import Certificate, Table, Verdict, certificate, tables

__version__ = importlib.metadata.version("penstock")

__all__ = [
    "Certificate",
    "Error",
    "LockedError",
    "Table",
    "Verdict",
    "__version__",
    "arrow",
    "binary",
    "certificate",
    "connect",
    "polars",
    "tables",
]
