"""What is remembered.

Order of import, lowest first: files, journal, snapshot, undo, slot, session, store.
"""
