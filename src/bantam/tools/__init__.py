"""What the model can do.

Order of import, lowest first: workspace, tool, executors, shell, lines, splice, files, reading,
closest, matching, edits, editing.
"""
