"""Every area by name."""

from tools.campaign import attention, positions, programs, rotation, tables
from tools.campaign.core import Area

MODULES = (attention, rotation, tables, positions, programs)
AREAS: dict[str, Area] = {module.AREA.name: module.AREA for module in MODULES}
