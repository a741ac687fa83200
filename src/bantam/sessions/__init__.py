"""What is remembered.

Order of import, lowest first: files, journal, snapshot, records, undo, slot, session, summary,
store.
"""
