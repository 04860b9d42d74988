"""Ranking the arguments of tool calls (TRACES 2.4 to 2.6): state, prior and gate as separate parts of one score.

`worlds` and `metrics` say what is ranked and how it is counted, `prior` and `state` the two things that may help,
`contrastive` fits the adapter, `copying` is the trivial rule, `methods` knows every method's name.
"""
