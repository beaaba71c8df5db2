"""A study: what people who do not trust each other agree on before anything else, and how each of them takes part."""
