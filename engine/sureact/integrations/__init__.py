"""One file per outside project: its objects on one side, ours on the other."""
