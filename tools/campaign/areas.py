"""Every area by name."""

from tools.campaign import attention, positions, rotation, tables
from tools.campaign.core import Area

AREAS: dict[str, Area] = {module.AREA.name: module.AREA for module in (attention, rotation, tables, positions)}
