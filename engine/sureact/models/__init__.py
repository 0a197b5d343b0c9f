"""One file per model family: the network from token ids to logits."""
