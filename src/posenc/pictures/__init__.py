"""Drawing decisions that all renderers share: limits, colour scales, ticks, roles, colours and label texts."""
