"""The engine behind HTTP, for clients that speak OpenAI's protocol."""
