"""Who opens an SQLite file closes it, on every Python; one study is trained for all tests."""

from support.sessions import connections as connections
from support.sessions import copied_study as copied_study
from support.sessions import ledgers as ledgers
from support.sessions import shared_study as shared_study
