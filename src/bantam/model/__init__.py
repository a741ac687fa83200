"""Talking to a model. httpx lives here alone.

Order of import, lowest first: sse, jsontext, body, usage, inband, reasoning, calls, plain,
completions, requests, failures, refusals, quirks, retry, origins, proxies, dialects, compression,
transports, programs, replay, catalogue, attempt, wire, client.
"""
