"""A Flower app that runs a study of Psephos (docs/flower.md)."""

from psephos.flower.apps import client, server

__all__ = ["client", "server"]
