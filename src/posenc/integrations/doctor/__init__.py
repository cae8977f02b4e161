"""Which mistake of a port gives its numbers: the search, and the ways to ask it."""

from posenc.integrations.doctor.call import diagnose_call as diagnose_call
from posenc.integrations.doctor.doctor import KINDS as KINDS
from posenc.integrations.doctor.doctor import diagnose as diagnose
from posenc.integrations.doctor.doctor import load as load
