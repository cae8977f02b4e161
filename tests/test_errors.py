"""Our exceptions survive copies and pickles as themselves."""

import copy
import pickle

import pytest

from posenc import errors
from posenc.errors import MissingExtra, PosencError, UnknownName

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BaseException)]


def made(kind: type[PosencError]) -> PosencError:
    """One of this kind, by the signature that it has."""
    if kind is UnknownName:
        return UnknownName("encoding", "rotray", ("nope", "rotary"))
    return MissingExtra("ray", "ray") if kind is MissingExtra else kind("k=3 must be even; pass 4")


@pytest.mark.parametrize("kind", KINDS)
def test_every_exception_survives_pickle_and_copies(kind: type[PosencError]) -> None:
    error = made(kind)
    error.add_note("in room 3")
    copies = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    for back in (*copies, copy.copy(error), copy.deepcopy(error)):
        assert type(back) is kind
        assert str(back) == str(error) != ""
        assert back.args == error.args
        assert back.__notes__ == ["in room 3"]


def test_a_message_lists_no_more_names_than_are_read() -> None:
    assert str(UnknownName("model_type", "zzz", (f"model{i}" for i in range(402)))).endswith(
        "model98, model99 and 302 more"
    )
