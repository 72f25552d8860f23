"""Prompting: a strategy turns an item into the messages and the answer schema of one or several requests."""
