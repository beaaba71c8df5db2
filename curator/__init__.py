"""The untrusted aggregator: it collects, opens only aggregates, fits, perturbs and releases."""
