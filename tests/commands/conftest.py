"""Who opens an SQLite file closes it, on every Python."""

from support.sessions import connections as connections
from support.sessions import ledgers as ledgers
