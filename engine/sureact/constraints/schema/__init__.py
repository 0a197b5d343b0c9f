"""JSON schemas before decoding: their normal form, closing, the grammar that holds them, and the last judge."""
