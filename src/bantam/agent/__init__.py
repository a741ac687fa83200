"""The loop.

Order of import, lowest first: prompt, undo, loop, memory, wiring, compaction, correction, agent,
relocation, replay.
"""
