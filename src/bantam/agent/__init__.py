"""The loop.

Order of import, lowest first: prompt, approval, compaction, loop, agent."""
