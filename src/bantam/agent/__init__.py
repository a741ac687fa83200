"""The loop.

Order of import, lowest first: prompt, undo, loop, memory, commands, approval, wiring, compaction,
correction, agent, relocation, replay.
"""
