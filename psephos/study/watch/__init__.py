"""A read-only page of a study for whoever may see its board: it takes no part, and needs nobody else to run."""
