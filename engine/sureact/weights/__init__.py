"""From files of a model to tensors in the layout that the layers take."""
