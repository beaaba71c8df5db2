"""What privacy costs: the accuracy of the noisy statistic against epsilon, for few parties and for many.

Votes are counted in the clear here and the noise comes from a seed, so this simulation protects nobody; it shows what a
run gives in which a trusted curator adds the noise (`psephos simulate tally --methods statistic`).

    python docs/examples/epsilon_curve.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer

from psephos.curator.statistic import fit_statistic, plan_statistic, release_statistic
from psephos.data.preprocessing import PublicScaler
from psephos.parties.training import train_parties, votes
from psephos.protocol.randomness import SimulationRandomness

X, y = load_breast_cancer(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
public, private, test = order[:80], order[80:400], order[400:]
scaler = PublicScaler(columns="standardise", scaling="unit-rows").fit(X[public])
auxiliary, Z, Z_test = (scaler.transform(X[rows]) for rows in (public, private, test))
randomness = SimulationRandomness(1)

print("parties  epsilon  accuracy (mean of 20 draws)")
for parties in (10, 40, 160):
    sizes = [len(rows) for rows in np.array_split(private, parties)]
    local = train_parties(Z, y[private], sizes, classes=2, lam=1e-2)
    cast = votes(local, auxiliary)  # (parties, samples): the class each party votes for
    counts = np.stack([(cast == 0).sum(axis=0), (cast == 1).sum(axis=0)], axis=1)
    for epsilon in (0.3, 1.0, 3.0, 10.0):
        plan = plan_statistic(auxiliary, classes=2, parties=parties, epsilon=epsilon)
        scores = []
        for _ in range(20):
            w = fit_statistic(release_statistic(counts, plan, randomness))
            scores.append(np.mean((Z_test @ w > 0) == (y[test] == 1)))
        print(f"{parties:7}  {epsilon:7}  {np.mean(scores):.2f}")
