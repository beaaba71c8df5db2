"""Who learned what: the security analysis, as code that runs (docs/security).

* `ideal`: what each role is meant to get, and nothing more.
* `worlds`: the real protocols at test size, every role's coins and messages recorded.
* `views`: opening a coalition's view, and checking what it cannot open for freshness.
* `simulators`: making the same view from a coalition's inputs and ideal outputs alone.
* `compare`: whether two samples of views could come from one distribution; every test states its false-alarm rate.
* `case_tally`, `case_statistic`, `case_pathak`, `case_psgd`: for each protocol its coalitions, its secrets, and the
checks that stand behind each cell of the matrix.
* `audit`: all of it in one call, as `psephos audit` prints it.
* `neighbours`, `pipelines`, `record_pipelines`, `study_pipelines`, `end_to_end`: whole commands on neighbouring tables,
and `privacy`: every mechanism, sampled; both are `psephos audit --privacy`.

What all this is tried against (protocols broken in one line, hostile bytes) is tests/security/lab.
"""

from psephos.security.audit import PROTOCOLS, audit

__all__ = ["PROTOCOLS", "audit"]
