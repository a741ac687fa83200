"""What a person types and sees. prompt_toolkit and rich live here alone.

Order of import, lowest first: arguments, interrupts, streams, spans, lines, blocks, syntax, tables,
inlines, markdown, live, traces, verbatim, prompts, keys, screen, inputs, history, completion,
composing, typeahead, keyboard, drawing, bindings, editor, command, aside, oneshot, asking, start,
consent, output, export, chat, configuring, commands, repl, runs.
"""
