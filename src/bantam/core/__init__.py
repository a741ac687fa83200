"""Values: errors, cancel, messages, events, text, config. No I/O; the standard library alone.

Order of import, lowest first: errors, cancel, changes, generators, hidden, text, redaction,
messages, repair, events, discretion, endpoints, kinds, settings, config.
"""
