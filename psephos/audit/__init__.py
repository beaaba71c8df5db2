"""The security analysis, and the tools to attack, vary or test a protocol of your own (docs/security, docs/audit.md).

Whole analyses:

* `run_audit`: every protocol's analysis, as `psephos audit` prints it; `PROTOCOLS` are their names.
* `end_to_end`: whole commands on neighbouring tables, and `privacy`: every mechanism, sampled; both are
`psephos audit --privacy`.

One protocol at a time:

* `ideal`: what each role is meant to learn, and nothing more.
* `settings`: the real protocols at test size, every role's coins and messages recorded.
* `view_checks`: opening a coalition's view, and checking what it cannot open for freshness.
* `simulators`: making the same view from a coalition's inputs and ideal outputs alone.
* `compare`: whether two samples of views could come from one distribution; every test states its false-alarm rate.
* `case_tally`, `case_statistic`, `case_pathak`, `case_psgd`: for each protocol its coalitions, its secrets, and its
checks.

For your own tests:

* `Tampering`: an adversarial role, made from the honest one, that changes what it sends or is shown; `tampering` makes
several from one function. `ScriptedRole`: one that sends given messages.
* `views`: what a coalition saw, from a transcript that kept secrets.
* `advantage`: how well a distinguisher guesses, with an exact confidence interval.
* `audit_case`, `Mutant`: the analysis of one protocol or variant, and of the same broken in one line.
* `Election`, `hold_election`: a round with everybody's secrets.
* `Trial`, `trial`: a study with everybody's keys.
* `psephos.audit.fixtures`: all this for pytest, `pytest_plugins = ["psephos.audit.fixtures"]`.
"""

from psephos._front import front

__getattr__, __dir__, __all__ = front(__name__, __file__)
