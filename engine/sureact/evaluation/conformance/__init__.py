"""Schemas with valid and invalid instances: which texts an engine lets through. What `sureact conformance` runs."""
