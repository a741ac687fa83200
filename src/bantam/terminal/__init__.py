"""What a person types and sees. prompt_toolkit and rich live here alone.

Order of import, lowest first: arguments, streams, screen, prompts, command, oneshot, runs.
"""
