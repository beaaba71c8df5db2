"""The security analysis, and the tools to attack or test a protocol of your own (docs/security, docs/audit.md).

* `run_audit`: the analysis of every protocol, as `psephos audit` prints it, or of a `Case` of your own.
* `end_to_end`: whole commands on neighbouring tables, and `privacy`: every mechanism, sampled; both are
  `psephos audit --privacy`.
* `matrix`: what each coalition is meant to learn; the modules `case_*` have the checks.
* `Tampering`, `tampering`, `ScriptedRole`: adversarial roles. `views`, `advantage`: what a coalition sees, and how well
  a distinguisher guesses. `hold_election`, `trial`: a round and a study with everybody's secrets.
* `psephos.audit.fixtures`: all this for pytest, `pytest_plugins = ["psephos.audit.fixtures"]`.
"""

from psephos._front import front

__getattr__, __dir__, __all__ = front(__name__, __file__)
