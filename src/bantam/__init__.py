"""Bantam: a small AI agent for the terminal, with two tools."""

__version__ = "0.1.0"
