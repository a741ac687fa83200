"""What the model can do.

Order of import, lowest first: tool, executors, shell, splice, files.
"""
