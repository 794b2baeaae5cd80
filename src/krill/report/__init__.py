"""Pages to look at: what runs did, in one file that needs no network.

In: outputs of any command, finished or not, in folders or object stores. Out: a page of HTML. Held in memory:
the manifests, what the page shows, Matplotlib.

`page.py` puts a page together, `runs.py` finds the runs; `dataset.py`, `training.py`, `tokenizer.py` and
`other.py` have one kind of run each, `comparison.py` several beside each other, `charts.py` the lines.
"""
