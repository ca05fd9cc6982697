"""Says what is loaded, and what is proven about it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

from ._connect import connect
from ._errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

Verdict = Literal["contradicted", "unproven", "consistent", "proven"]
"""What a reading of a stream could prove about its completeness, from the worst to the best."""

_MEANING: dict[Verdict, str] = {
    "contradicted": "the source itself says that records are missing",
    "unproven": "records may be missing",
    "consistent": "the end of the list was reached, and no fact says that records are missing",
    "proven": "a second fact confirms that nothing is missing",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A loaded table."""

    name: str
    current: str
    """The view of the rows that are not deleted; the name of the table if there is no such view."""
    stream: str
    pipeline: str
    rows: int
    """The number of rows that are not deleted."""
    last_synced: datetime | None
    """When the stream was last read to its end. None: never."""
    verdict: Verdict | None
    """The verdict of the stream's last reading. If several sources share the table, the worst of their verdicts."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the last reading of a table's stream has proven."""

    table: str
    stream: str
    pipeline: str
    source: str | None
    """The source, if several sources share the table."""
    run: str
    at: datetime
    verdict: Verdict
    why: str
    """The reason for the verdict."""
    fetched: int
    """The number of records that were read: the sum of written, unchanged, deduplicated and rejected."""
    distinct: int
    """The number of different records."""
    written: int
    unchanged: int
    deduplicated: int
    rejected: int
    deleted: int
    """The number of rows that were marked as deleted."""
    pages: int
    requests: int
    witnesses: dict[str, Any] = field(repr=False)
    """The facts behind the verdict."""

    @property
    def proven(self) -> bool:
        """Whether a second fact confirms that nothing is missing."""
        return self.verdict == "proven"

    @property
    def meaning(self) -> str:
        """What the verdict means."""
        return _MEANING[self.verdict]

    def __str__(self) -> str:
        source = f" of source {self.source}" if self.source else ""
        why = f" ({self.why})" if self.why else ""
        return (
            f"{self.table}{source}: {self.verdict} at {self.at:%Y-%m-%d %H:%M} UTC: {self.meaning}{why}; "
            f"{self.fetched} records read, {self.rejected} rejected"
        )


def tables(con: duckdb.DuckDBPyConnection | None = None) -> list[Table]:
    """Return the loaded tables by name, without penstock's own tables.

    Without a connection, tables opens the destination of the configuration in the current folder.
    """
    with opened(con) as c:
        owners, views, newest = _owners(c), _views(c), _newest(c)
        found = []
        for name, columns in _loaded(c).items():
            pipeline, stream = _owner(owners, name)
            passes = newest.get((pipeline, stream), {}).values()
            verdicts: set[Verdict] = {p["verdict"] for p in passes}
            current = f"{name}_current"
            found.append(
                Table(
                    name=name,
                    current=current if current in views else name,
                    stream=stream,
                    pipeline=pipeline,
                    rows=_count(c, name, columns),
                    last_synced=min((p["at"] for p in passes), default=None),
                    verdict=next((v for v in _MEANING if v in verdicts), None),
                )
            )
        return found


def certificate(table: str, con: duckdb.DuckDBPyConnection | None = None, *, source: str | None = None) -> Certificate:
    """Return the newest certificate of the stream that fills a table.

    `table` is the name of a table, of its view of current rows, or of a stream. If several sources share the table,
    `source` chooses one of them.
    """
    with opened(con) as c:
        owners, loaded = _owners(c), _loaded(c)
        name = table.replace(".", "_")
        if name not in loaded:
            name = name.removesuffix("_current")
        if name not in loaded:
            raise Error(f"no table {table!r}: penstock.tables() lists what is loaded")
        pipeline, stream = _owner(owners, name)
        passes = _newest(c).get((pipeline, stream), {})
    if not passes:
        raise Error(f"stream {stream} was never read to its end: `penstock status` says why")
    names = ", ".join(sorted(map(str, passes)))
    if source is None and len(passes) > 1:
        raise Error(f"several sources share {name}: choose one of {names} with certificate({name!r}, source=…)")
    if source is None:
        (source,) = passes
    if source not in passes:
        raise Error(f"no certificate of source {source!r} for {name}: its sources are {names}")
    return Certificate(table=name, stream=stream, pipeline=pipeline, source=source, **passes[source])


@contextmanager
def opened(con: duckdb.DuckDBPyConnection | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the connection, or a connection of its own that is closed afterwards."""
    if con is not None:
        yield con
        return
    with connect() as own:
        yield own


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    # A cursor leaves the result of the caller's last statement alone.
    with con.cursor() as cursor:
        return cursor.execute(sql).fetchall()


def _loaded(con: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    """Return the columns of each table that penstock fills, without its own tables."""
    found = _rows(
        con,
        "SELECT table_name, list(column_name) FROM duckdb_columns() JOIN duckdb_tables() USING (database_name, "
        "schema_name, table_name) WHERE database_name = current_database() AND schema_name = 'main' "
        "AND NOT starts_with(table_name, '_penstock_') GROUP BY ALL HAVING list_contains(list(column_name), "
        "'_penstock_synced_at') ORDER BY ALL",
    )
    return {name: set(columns) for name, columns in found}


def _views(con: duckdb.DuckDBPyConnection) -> set[str]:
    found = _rows(con, "SELECT view_name FROM duckdb_views() WHERE database_name = current_database() AND NOT internal")
    return {name for (name,) in found}


def _count(con: duckdb.DuckDBPyConnection, table: str, columns: set[str]) -> int:
    ends = [c for c in ("_penstock_deleted_at", "_penstock_valid_to") if c in columns]
    where = " AND ".join(f"{quoted(c)} IS NULL" for c in ends) or "true"
    return int(_rows(con, f"SELECT count(*) FROM {quoted(table)} WHERE {where}")[0][0])


def _owners(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, str]]:
    """Return the pipeline and the stream that own each root table."""
    try:
        found = _rows(
            con,
            'SELECT "table", arg_max(to_type, "at") FROM _penstock_schema WHERE action = \'owner\' GROUP BY ALL',
        )
    except Exception as e:
        if type(e).__name__ != "CatalogException":
            raise
        raise Error("penstock has not loaded this database: it has no table _penstock_schema") from e
    owners = {table: json.loads(owner) for table, owner in found}
    return {table: (owner["pipeline"], owner["stream"]) for table, owner in owners.items()}


def _owner(owners: dict[str, tuple[str, str]], table: str) -> tuple[str, str]:
    """Return the owner of a table. A child table belongs to the owner of its root table."""
    root = table
    while root not in owners and "__" in root:
        root = root.rpartition("__")[0]
    return owners.get(root, ("", ""))


def _newest(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], dict[str | None, dict[str, Any]]]:
    """Return the newest certificate of each stream, by pipeline and stream, and then by source."""
    columns = {name for (name,) in _rows(con, "SELECT name FROM pragma_table_info('_penstock_certificates')")}
    source = "_penstock_source" if "_penstock_source" in columns else "NULL::VARCHAR"
    counts = ["fetched", "distinct", "written", "unchanged", "deduplicated", "rejected", "deleted", "pages", "requests"]
    found = _rows(
        con,
        f'SELECT {source} AS source, pipeline, stream, run, epoch_us("at"), verdict, witnesses, '
        f"{', '.join(map(quoted, counts))} FROM _penstock_certificates "
        f'QUALIFY row_number() OVER (PARTITION BY {source}, pipeline, stream ORDER BY run DESC, "at" DESC) = 1',
    )
    newest: dict[tuple[str, str], dict[str | None, dict[str, Any]]] = {}
    for of, pipeline, stream, run, at, verdict, witnesses, *values in found:
        facts = json.loads(witnesses or "{}")
        newest.setdefault((pipeline, stream), {})[of or None] = {
            "run": run,
            "at": datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=at),  # without pytz
            "verdict": verdict,
            "why": facts.get("why", ""),
            "witnesses": facts,
            **dict(zip(counts, values, strict=True)),
        }
    return newest
