"""The evidence package (TRACES 2.7, 2.8): splits, controls, clustered differences, claims and the bundle that holds them.

Entry points, for commands: `sq_core.causal.stability.check_causality`, `fitting.fit_state_adapter`, `run.run_evidence`,
`bundle.export_evidence`. None of them writes to a database or knows of one.
"""
