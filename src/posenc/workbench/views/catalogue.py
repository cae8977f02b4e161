"""Every view by name, with defaults that answer a question as they stand."""

from collections.abc import Callable

from posenc.workbench.views import alibi, attention, scores, sinusoidal
from posenc.workbench.views.view import View

VIEWS: dict[str, Callable[..., View]] = {
    "heatmap": sinusoidal.heatmap,
    "hands": sinusoidal.hands,
    "waves": sinusoidal.waves,
    "similarity": sinusoidal.similarity,
    "wavelengths": sinusoidal.wavelengths,
    "falloff": sinusoidal.falloff,
    "shift": sinusoidal.shift,
    "score": scores.distance,
    "spread": scores.spread,
    "slopes": alibi.ladder,
    "bias": alibi.bias,
    "weights": alibi.weights,
    "attention": attention.maps,
}
