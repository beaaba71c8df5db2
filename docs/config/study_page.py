"""The site's page of the fields of a study: `python docs/config/study_page.py` prints it."""

from __future__ import annotations

import sys

__all__ = ["MEANINGS", "page"]

HEAD = """# The fields of a study

Of `study.toml`, which all members sign ([a study](study.md)). The digest covers the canonical form: comments and layout
do not count, everything else does. A field that is missing, unknown or of another type is an error that names it.

| field | meaning |
| --- | --- |
"""

MEANINGS = {
    "psephos_study": "the version of this format, 3; studies of format 2 can be verified, Psephos 0.2 reads 1",
    "title": "the title",
    "nonce": "16 random bytes, so that no two studies are the same",
    "release.protocol": "[the protocol](study.md#choose-the-protocol)",
    "release.method": "[the method](study.md#choose-the-protocol)",
    "release.epsilon": "what the release costs every party",
    "release.delta": "0, or the target of Gaussian noise; the stated delta is this plus 2^-64 for numerical error",
    "release.public": "whether the sum stands on the board for everybody; never where the curator adds the noise",
    "release.parameters": "`ignore` and `text`, columns of the public file as one line of CSV; `map`, "
    "[the feature map](features.md) as JSON; and "
    "[those of the protocol](study.md#choose-the-protocol)",
    "data.label": "the column with the class, or with the number",
    "data.classes": "the classes, in the order of the counts; none where a number is predicted",
    "data.features": "the features that the public file's columns become, those of the map included",
    "data.public_table": "SHA-256 of all that members compute from the public file: columns, encoded rows and labels",
    "data.samples": "how many these are",
    "vote.minimum_ballots": "nothing is opened of fewer",
    "vote.proofs": "what every ballot proves: `knowledge`, or `valid`",
    "vote.closes": "when the vote ends at the latest, with its time zone; may be empty",
    "vote.patience": "seconds to wait for answers after the vote",
    "key.bits": "length of the key that the holders make; 0, as the next two, for `pathak`",
    "key.threshold": "t: how many holders open a sum; at most half of them, rounded up",
    "key.confirmations": "how many holders must confirm what is opened",
    "key.trial": "allows a key that protects nothing; everything that shows a result says so",
    "curator.key": "the curator's public key",
    "party.name": "a party's name",
    "party.key": "its public key",
    "party.holder": "its number as a key holder, 0 for none",
}


def page() -> str:
    """Return the page."""
    return HEAD + "".join(f"| `{name}` | {meaning} |\n" for name, meaning in MEANINGS.items())


if __name__ == "__main__":
    sys.stdout.write(page())
