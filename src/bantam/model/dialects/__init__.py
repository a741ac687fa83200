"""How a model says what it wants run: codecs between history and requests.

Order of import, lowest first: dialect, leaks, textual, native, heredocs, dollarview, dollar,
markers, blockwalk, blockreader, blockparameters, blockcalls, blockview, blocks, auto.
"""
