"""The ops in Triton for a GPU, each in the file of its op's name."""
