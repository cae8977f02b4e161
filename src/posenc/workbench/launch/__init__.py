"""Where plans are carried out: worker processes here, or a Ray cluster; one file a launcher."""
