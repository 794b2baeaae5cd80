"""Raw text to batches, tokenised on the fly.

In: any source that the corpus reads, and a tokenizer. Out: shuffled batches of token ids, with an exact
state. Held in memory: the tokenizer, a few blocks of text, and a shuffle buffer of a stated size.
"""
