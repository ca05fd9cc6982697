"""Reads tables and queries into frames, without a loss of digits."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from ._errors import Error
from ._tables import opened, quoted

if TYPE_CHECKING:
    from types import ModuleType

    import duckdb
    import polars as pl
    import pyarrow as pa

_NAME = re.compile(r"\w+")


def arrow(what: str, con: duckdb.DuckDBPyConnection | None = None) -> pa.Table:
    """Return the rows of a table, a view or an SQL query as an Arrow table. Decimals stay decimals.

    Without a connection, arrow opens the destination of the configuration in the current folder.
    Needs `pip install 'penstock[pyarrow]'`.
    """
    _need("pyarrow")
    with opened(con) as c, c.cursor() as cursor:
        return cursor.sql(_query(what)).to_arrow_table()


def polars(what: str, con: duckdb.DuckDBPyConnection | None = None) -> pl.DataFrame:
    """Return the rows of a table, a view or an SQL query as a Polars frame. Decimals stay decimals.

    Without a connection, polars opens the destination of the configuration in the current folder.
    Needs `pip install 'penstock[polars]'`.
    """
    made = _need("polars")
    with opened(con) as c, c.cursor() as cursor:
        frame: pl.DataFrame = made.DataFrame(cursor.sql(_query(what)))
        return frame


def _query(what: str) -> str:
    return f"FROM {quoted(what)}" if _NAME.fullmatch(what) else what


def _need(package: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError as e:
        raise Error(f"the package {package} is missing: install it with `pip install 'penstock[{package}]'`") from e
