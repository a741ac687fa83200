"""What a shell command does that a person should be asked about.

Order of import, lowest first: words, scanner, reader, place, values, reading, rules, files, git,
runners, table, risks.
"""
