"""How a model says what it wants run: codecs between history and requests."""
