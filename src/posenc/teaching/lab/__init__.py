"""The lab: a local page where positions are dragged, clicked and broken, and every number is the library's."""
