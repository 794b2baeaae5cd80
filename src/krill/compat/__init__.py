"""Names, classes and calls of the projects that Krill replaces, as their users type them.

Reached through the lazy tables of packages (`krill`, `krill.qa`, `krill.tokenizer`, ...); nothing else
imports them. Each is a thin layer over the packages above.
"""
