"""Groups of commands that import only the command that is invoked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


class LazyGroup(TyperGroup):
    """A group that has the names and help of its commands, and loads a command when it is invoked or completed.

    The group's own help and the completion of command names therefore import nothing (see "Lazily loading subcommands"
    in Click's documentation). `load`: name of a command -> an application that has it.
    """

    load: ClassVar[Callable[[str], typer.Typer]]

    def load_command(self, name: str) -> Any:
        """Return the whole command, with its options, instead of its name and help."""
        return typer.main.get_group(type(self).load(name)).commands[name]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name, the loaded command and the remaining arguments; an unknown name is an error as in Click."""
        name, command, rest = super().resolve_command(ctx, args)
        return (name, command, rest) if name is None else (name, self.load_command(name), rest)


def lazy_app(commands: Mapping[str, str], load: Callable[[str], typer.Typer], **settings: Any) -> typer.Typer:
    """Create an application whose commands, by name and help, are loaded when they are invoked."""
    group = type("Commands", (LazyGroup,), {"load": staticmethod(load)})
    app = typer.Typer(cls=group, no_args_is_help=True, rich_markup_mode=None, **settings)
    for name, help in commands.items():
        app.command(name, help=help)(lambda: None)
    return app
