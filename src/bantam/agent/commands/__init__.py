"""What a shell command does that a person should be asked about.

Order of import, lowest first: words, scanner, reader, place, reading, rules, files, runners,
table, risks.
"""
