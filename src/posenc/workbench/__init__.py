"""Everything that is run rather than imported: experiments, figures, the lab and the command line."""
