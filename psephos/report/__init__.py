"""Run reports: one self-contained page in which a reader sees who sent what to whom, what privacy cost, what it bought.

`write_report` is what `--report DIR` calls; `report_from_json` is `psephos report FILE.json`. A report is drawn from
one JSON document and nothing else, so drawing it again gives the same page, byte for byte. It only ever sees the
redacted transcript: kinds, sizes and digests, no message.
"""

from psephos.report.write import report_from_json, write_figures, write_report

__all__ = ["report_from_json", "write_figures", "write_report"]
