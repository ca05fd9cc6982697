"""Counts how many reads of a published copy and of the private file succeed while penstock serve runs.

By hand: `python reads.py FOLDER SECONDS`, where FOLDER has private.duckdb and analysts.duckdb.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import penstock


@dataclass
class Reads:
    """Attempts to read a file."""

    path: Path
    good: int = 0
    locked: int = 0
    runs: set[str] | None = None

    def attempt(self) -> None:
        """Open the file, read the newest run, and close the file."""
        try:
            with penstock.connect(self.path) as con:
                found = con.execute("SELECT max(run), count(*) FROM _penstock_certificates").fetchall()
        except penstock.LockedError:
            self.locked += 1
            return
        self.good += 1
        self.runs = (self.runs or set()) | {found[0][0]}

    def __str__(self) -> str:
        return f"{self.path.name}: {self.good} of {self.good + self.locked} reads, {len(self.runs or ())} runs seen"


if __name__ == "__main__":
    folder, end = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    published, private = Reads(folder / "analysts.duckdb"), Reads(folder / "private.duckdb")
    while time.monotonic() < end:
        published.attempt()
        private.attempt()
        time.sleep(0.5)
    print(published, private, sep="\n")
