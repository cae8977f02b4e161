"""Every area by name."""

from tools.campaign import attention, rotation
from tools.campaign.core import Area

AREAS: dict[str, Area] = {area.name: area for area in (attention.AREA, rotation.AREA)}
