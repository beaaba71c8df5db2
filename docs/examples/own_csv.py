"""A private classifier from your own CSV file: numbers in columns, one column with the class, one with the party.

    python docs/examples/own_csv.py patients.csv --label outcome --party hospital --public 11

The rows of the party named by --public are the auxiliary samples: their features are taken to be public.
"""

# Needs: patients.csv
# Tested with: patients.csv --label outcome --party hospital --public 11 --epsilon 10 --test-key

from __future__ import annotations

import argparse
import csv
import sys

import numpy as np

from curator import SoftLabelClassifier, Tally
from parties import KeyHolder, Party
from protocol import VoteLayout, vote_round
from protocol.errors import PsephosError
from psephos import hold_ceremony
from psephos.preprocessing import PublicScaler


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("file")
    asked.add_argument("--label", required=True, help="the column with the class")
    asked.add_argument("--party", required=True, help="the column that says whose row it is")
    asked.add_argument("--public", required=True, help="the party whose rows are the public auxiliary samples")
    asked.add_argument("--learner", default="logistic", help="logistic, tree, knn, forest, naive-bayes, svm")
    asked.add_argument("--epsilon", type=float, default=1.0)
    asked.add_argument("--test-key", action="store_true", help="a short key: fast, protects nothing")
    options = asked.parse_args()

    with open(options.file, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    features = [name for name in rows[0] if name not in (options.label, options.party)]
    X = np.array([[float(row[name]) for name in features] for row in rows])
    y = np.array([row[options.label] for row in rows])
    owner = np.array([row[options.party] for row in rows])
    # Agreed on in public; taken from the file here, which in earnest would tell which classes occur.
    classes = sorted(set(y))
    auxiliary = X[owner == options.public]
    names = [name for name in dict.fromkeys(owner) if name != options.public]
    scaler = PublicScaler(columns="standardise", scaling="unit-rows", intercept=1.0).fit(auxiliary)
    Z = scaler.transform(auxiliary)

    bits = {"key_bits": 1024, "test_key": True} if options.test_key else {}
    holders = min(5, len(names))
    house = hold_ceremony(len(names), holders=holders, threshold=holders // 2 + 1, **bits)
    round_ = vote_round(house.threshold_key, house.roster, Z, classes, test_key=options.test_key)
    tally = Tally(round_)
    keepers = [KeyHolder(share, round_) for share in house.shares]
    for number, name in enumerate(names):
        party = Party(number, house.signing_keys[number], classes=classes)
        party.train(scaler.transform(X[owner == name]), y[owner == name], options.learner)
        ballot = party.cast(round_, Z)
        for watcher in (tally.add, *(keeper.observe for keeper in keepers)):
            watcher(ballot)
    request = tally.close()
    opened = tally.open([keeper.partially_decrypt(request) for keeper in keepers[: holders // 2 + 1]])
    counts = VoteLayout(len(Z), len(classes)).decode(opened.sums, opened.ballots)

    model = SoftLabelClassifier(epsilon=options.epsilon, lam=0.05, classes=classes).fit(Z, counts)
    print(f"{opened.ballots} parties, {len(Z)} public rows, {len(features)} features, classes {', '.join(classes)}")
    print(f"released at epsilon = {options.epsilon:g} per party; sensitivity {model.sensitivity_.value:.3g}")
    for coefficients in model.coef_:
        print(
            "  ".join(f"{name} {value:+.2f}" for name, value in zip([*features, "constant"], coefficients, strict=True))
        )


if __name__ == "__main__":
    try:
        main()
    except (PsephosError, OSError, KeyError) as error:
        sys.exit(f"own_csv.py: {error}")
