"""An engine in a process of its own, for programs that are busy with Python of their own."""
