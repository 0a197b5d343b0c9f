"""The prompt formats, one file each, and which one a model gets by default."""
