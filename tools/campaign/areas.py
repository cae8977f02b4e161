"""Every area by name."""

from tools.campaign import attention, check, positions, rotation, tables, text
from tools.campaign.core import Area

MODULES = (attention, rotation, tables, positions, check, text)
AREAS: dict[str, Area] = {module.AREA.name: module.AREA for module in MODULES}
