"""The only mutable state: what a pass folds chunks into.

An accumulator can be updated with a chunk, merged with another, copied, turned
into plain arrays and back. Its verbs return None.
"""
