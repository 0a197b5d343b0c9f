"""Other engines behind the same interfaces, for who asks for them; never picked silently."""
