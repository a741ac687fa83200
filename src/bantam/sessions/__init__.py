"""What is remembered.

Order of import, lowest first: files, trust, journal, snapshot, records, undo, slot, session,
allowances, summary, store.
"""
