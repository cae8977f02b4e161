"""All areas by name."""

from tools.campaign import attention, laws, rotation, text
from tools.campaign.core import Area

AREAS: dict[str, Area] = {module.AREA.name: module.AREA for module in (attention, rotation, laws, text)}
