"""The loop.

Order of import, lowest first: prompt, undo, loop, memory, agent, relocation, replay.
"""
