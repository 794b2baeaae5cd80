"""Raw text to batches, tokenised on the fly.

Comes in: any source that the corpus reads, and a tokenizer. Goes out: shuffled batches of token ids, with an
exact state. Held in memory: the tokenizer, a few blocks of text, and a shuffle buffer of a stated size.
"""
