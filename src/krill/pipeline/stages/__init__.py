"""One file for each stage of preprocessing, and what they share (`base.py`).

In: a `Context`, and the stages before it. Out: what its tasks have committed. What each holds in memory is
said in its file; `pipeline.py` puts them in order.
"""
