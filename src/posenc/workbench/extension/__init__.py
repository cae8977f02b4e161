"""How far past its trained length a checkpoint holds, with each scaling method."""
