"""A study inside a Flower federation (docs/flower.md): Flower's messages carry the board between server and clients."""
