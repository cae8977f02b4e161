"""Fast rotation and attention, which give the same results and gradients as the plain definitions."""
