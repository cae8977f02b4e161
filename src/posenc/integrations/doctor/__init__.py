"""The package behind ``posenc doctor``, which finds the mistake in a port.

A port is another implementation of a model's positional encoding. The package examines the arrays that the port
computes, and names the mistake that reproduces them.
"""

from posenc.integrations.doctor.call import diagnose_call as diagnose_call
from posenc.integrations.doctor.doctor import KINDS as KINDS
from posenc.integrations.doctor.doctor import diagnose as diagnose
from posenc.integrations.doctor.doctor import load as load
