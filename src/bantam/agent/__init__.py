"""The loop.

Order of import, lowest first: surroundings, prompt, undo, memory, loop, commands, approval, wiring,
compaction, correction, agent, relocation, replay.
"""
