"""Names, classes and calls of the projects that Krill replaces, as their users type them.

Reached through the lazy tables of `krill`, `krill.qa`, `krill.loading` and `krill.tokenizer`; nothing else
imports them. Each is a thin layer over the packages above.
"""
