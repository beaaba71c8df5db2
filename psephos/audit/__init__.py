"""The security analysis, and the tools to attack or test a protocol of your own (docs/security, docs/audit.md).

`run_audit` is the analysis of every protocol, or of a `Case` of your own; `end_to_end` and `privacy` are
`psephos audit --privacy`. `matrix` has what each coalition is meant to learn, the modules `case_*` the checks.
"""

from psephos._front import front

__getattr__, __dir__, __all__ = front(__name__, __file__)
