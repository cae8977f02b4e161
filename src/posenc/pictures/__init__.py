"""Drawing decisions that all renderers share, such as limits, colour scales, ticks, colours and labels."""
