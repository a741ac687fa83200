"""Where tools act. A module each; all meet the Protocol `tools.tool.Executor`.

Order of import, lowest first: family, starting, local, seccomp, hidden, protection, private, needs,
mounts, bwrap.
"""
