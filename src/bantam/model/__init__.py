"""Talking to a model. httpx lives here alone.

Order of import, lowest first: sse, jsontext, usage, inband, reasoning, calls, completions,
failures, quirks, retry, origins, proxies, dialects, transports, replay, catalogue, attempt, client.
"""
