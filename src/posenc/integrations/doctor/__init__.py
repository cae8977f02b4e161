"""The package behind ``posenc doctor``, which finds the mistake that explains a port's numbers."""

from posenc.integrations.doctor.call import diagnose_call as diagnose_call
from posenc.integrations.doctor.doctor import KINDS as KINDS
from posenc.integrations.doctor.doctor import diagnose as diagnose
from posenc.integrations.doctor.doctor import load as load
