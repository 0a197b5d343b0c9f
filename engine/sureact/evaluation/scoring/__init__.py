"""What all evaluations of agents share: cases, who runs them, outcomes on disk, and how two are compared."""
