"""Talking to a model. httpx lives here alone.

Order of import, lowest first: sse, usage, completions, quirks, retry, origins, dialects,
transports, catalogue, client."""
