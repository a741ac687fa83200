"""Where tools act. A module each; all meet the Protocol `tools.tool.Executor`.

Order of import, lowest first: family, local, seccomp, hidden, protection, bwrap.
"""
