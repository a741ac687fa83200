"""The loop.

Order of import, lowest first: prompt, loop, agent.
"""
