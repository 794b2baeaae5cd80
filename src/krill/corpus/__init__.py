"""Any source to byte-bounded batches of documents, with positions.

In: files, globs, folders, Hugging Face and Krill folders, URLs, hub ids; plain text, JSON lines and arrays,
CSV, Parquet, Arrow, compressed or not. Out: *units*, fixed pieces of the input that are committed as a
whole, and their *blocks*, which any thread turns into `Documents`: text, position, columns carried along.
What comes out depends on the input and on the config alone.

Held in memory: a few numbers per file and per chunk of columnar files; otherwise nothing but the blocks
that were asked for and not yet dropped. Reading ahead is left to `threads.ordered_map`, which bounds the
blocks in flight by their `nbytes`.
"""

from krill.corpus.corpus import Corpus, open_corpus
from krill.corpus.documents import Block, Documents, FileRange, Start, Unit, UnitEnd, concat
from krill.corpus.formats import CorpusFile, DatasetSource
from krill.lazy import lazy_names
from krill.storage.run import changed_inputs as changed

__all__ = [
    "Block",
    "Corpus",
    "CorpusFile",
    "DatasetSource",
    "Documents",
    "FileRange",
    "Start",
    "Unit",
    "UnitEnd",
    "changed",
    "concat",
    "open_corpus",
]

__getattr__ = lazy_names(__name__)[0]  # former names
