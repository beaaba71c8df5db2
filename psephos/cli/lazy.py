"""Groups of commands that import only the command that is invoked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

Register = Callable[[typer.Typer, str], None]
"""Adds the command with the given name to an application."""


class LazyGroup(TyperGroup):
    """A group that has the names and help of its commands, and registers a command when it is invoked or completed.

    The group's own help and the completion of command names therefore import nothing (see "Lazily loading subcommands"
    in Click's documentation). Subclasses define how a command is registered.
    """

    register: ClassVar[Register]

    def load_command(self, name: str) -> Any:
        """Return the whole command, with its options, instead of its name and help."""
        app = typer.Typer(rich_markup_mode=None)
        type(self).register(app, name)
        return typer.main.get_group(app).commands[name]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name, the loaded command and the remaining arguments; an unknown name is an error as in Click."""
        name, command, rest = super().resolve_command(ctx, args)
        return (name, command, rest) if name is None else (name, self.load_command(name), rest)


def lazy_app(commands: Mapping[str, str], register: Register, **settings: Any) -> typer.Typer:
    """Create an application whose commands are registered when they are invoked."""
    group = type("Commands", (LazyGroup,), {"register": staticmethod(register)})
    app = typer.Typer(cls=group, no_args_is_help=True, rich_markup_mode=None, **settings)
    for name, help in commands.items():
        app.command(name, help=help)(lambda: None)
    return app
