"""One specification per protocol: everything that a simulation, a study, a plan or an audit must know about it."""
