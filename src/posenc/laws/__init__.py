"""The laws that every encoding must satisfy. Each law is a function that tests an encoding (``posenc.check``)."""

from posenc.laws.check import LAWS as LAWS
from posenc.laws.check import Report as Report
from posenc.laws.check import Verdict as Verdict
from posenc.laws.check import check as check
from posenc.laws.law import Broken as Broken
from posenc.laws.law import Law as Law
from posenc.laws.subject import Subject as Subject
