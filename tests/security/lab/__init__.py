"""What the security analysis is tried against: protocols broken in one line, hostile bytes, seeds by the hundred.

* `mutants` (one file per protocol): broken protocols (`psephos.audit.Mutant`), each of which some check must catch.
* `breaks`: edits under which a check must change its mind, so that none is one that cannot fail.
* `fuzzing`: changed messages for every decoder.
* `detection`: how often each mutant is caught under fresh seeds.
* `false_alarms`: how often a check cries wolf about the real protocols.
* `tables`: the site's page of which coalition learns what.

No product code imports it. Its commands run from a checkout: `python -m tests.security.lab.false_alarms`.
"""
