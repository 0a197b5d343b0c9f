"""Requests, and which of them run in the next step."""
