"""Private gradient descent (Rajkumar 2012): what its roles agree on, and how a step is announced."""
