"""Causal traces (TRACES 2.1 to 2.3): what an agent knew before each tool call, and nothing later.

`trace` builds a trace from the one Conversation model, `coupling` joins answers to calls, `prefix` makes the rows,
`vectors` encodes texts once, `stability` asserts the contract over whole logs.
"""
