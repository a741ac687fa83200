"""The loop.

Order of import, lowest first: prompt, undo, loop, memory, wiring, compaction, agent,
relocation, replay.
"""
