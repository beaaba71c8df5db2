"""Mutation testing: the code is changed by a tool that does not know it, and the tests must notice.

`python -m tests.mutation --help` says how it is run; benchmarks/mutants.md what is changed, what is not, and what
survived.
"""
