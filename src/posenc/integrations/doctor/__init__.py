"""Finds the mistake that explains a port's numbers: the search and its interfaces."""

from posenc.integrations.doctor.call import diagnose_call as diagnose_call
from posenc.integrations.doctor.doctor import KINDS as KINDS
from posenc.integrations.doctor.doctor import diagnose as diagnose
from posenc.integrations.doctor.doctor import load as load
