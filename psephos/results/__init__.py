"""What commands find, as types: their fields are the JSON, their properties what is shown of them.

Whoever imports a part of it has all kinds of result in `psephos.results.base.KINDS`.
"""

from psephos.results import papers, runs, scores, security

__all__ = ["papers", "runs", "scores", "security"]
