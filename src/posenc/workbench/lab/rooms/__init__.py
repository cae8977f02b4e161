"""One file per room of the lab, in the order in which they are walked."""

from posenc.errors import UnknownName
from posenc.workbench.lab.rooms.bias import BIAS
from posenc.workbench.lab.rooms.clock import CLOCK
from posenc.workbench.lab.rooms.longer import EXTENSION
from posenc.workbench.lab.rooms.order import ORDER
from posenc.workbench.lab.rooms.results import RESULTS
from posenc.workbench.lab.rooms.room import Room
from posenc.workbench.lab.rooms.rotation import ROTATION
from posenc.workbench.lab.rooms.table import TABLE

ROOMS = (ORDER, CLOCK, TABLE, ROTATION, BIAS, EXTENSION, RESULTS)


def find(name: str) -> Room:
    """The room at this address."""
    for room in ROOMS:
        if room.name == name:
            return room
    raise UnknownName("room", name[:40], [room.name for room in ROOMS])
