"""Who opens an SQLite file closes it, and there is one browser."""

from support.sessions import browser as browser
from support.sessions import connections as connections
from support.sessions import ledgers as ledgers
