"""A study with real parties: an agent runs each role on its own machine, over a board."""
