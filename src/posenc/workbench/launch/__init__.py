"""Where jobs are carried out: worker processes here, or a Ray cluster; one contract, one file a launcher."""
