"""The errors of this module."""

from __future__ import annotations


class Error(Exception):
    """An error of this module. Its text says what is wrong and what to do next."""


class LockedError(Error):
    """Another process has the database file open, such as a sync that writes to it."""
