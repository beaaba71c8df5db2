"""Generates commands from options dataclasses (`psephos.options`): one option for each field."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Optional, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from psephos.options import join_list, split_list


class SectionedCommand(TyperCommand):
    """A command whose help lists options under headings, the `rich_help_panel` of each option.

    `shown`: names of the parameters that --help shows, where --help-all shows all of them; () for all in both.
    """

    shown: ClassVar[Sequence[str]] = ()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options to the help, those without a heading first."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        some = self.shown and not ctx.meta.get(_ALL)
        for parameter in self.get_params(ctx):
            if some and parameter.name not in self.shown:
                continue
            if (record := parameter.get_help_record(ctx)) is not None:
                heading = getattr(parameter, "rich_help_panel", None) or "Options"
                groups.setdefault("Arguments" if parameter.param_type_name == "argument" else heading, []).append(
                    record
                )
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        if some:
            with formatter.section("All options"):
                formatter.write_text(f"{ctx.command_path} --help-all shows the others too.")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; raises BadParameter with a message in plain English."""
        words = list(map(_with_home, args))
        if "--output=" in words or ("--output", "") in pairwise(words):  # a path "" is the working directory
            raise typer.BadParameter("--output is empty: name the file or directory to write")
        try:
            return super().parse_args(ctx, words)
        except typer.BadParameter as error:
            error.message = _plain_message(error)  # type: ignore[misc, unused-ignore]  # final in some versions of click
            raise


_ALL = "psephos.help-all"
"""Where a context says that all options are shown."""


def _print_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", is_eager=True, callback=_print_all, help="Show all options and exit."),
]
"""The option of a command with `SectionedCommand.shown`."""


def _with_home(word: str) -> str:
    """Return a word of the command line with the home directory for ~, also where a shell keeps it: --output=~/out."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (os.path.expanduser(value) if value.startswith("~") else value)


def _plain_message(error: typer.BadParameter) -> str:
    """Return the message of an error; Typer's own would show only what pydantic says of a value."""
    cause: Any = error.__cause__
    if not hasattr(cause, "errors"):
        return error.message
    first = cause.errors()[0]
    return f"{str(first['input'])[:40]!r} cannot be used here: {first['msg']}"


def examples(*lines: str) -> str:
    """Return an epilogue with one example on each line; \\b keeps Click from joining the lines to a paragraph."""
    return "\n".join(("\b", "Examples:", *("  " + line for line in lines)))


def command(
    app: typer.Typer, *lines: str, name: str | None = None, help: str | None = None, cls: Any = SectionedCommand
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds a command to an application; `lines` are its examples."""
    return app.command(name, cls=cls, help=help, epilog=examples(*lines))


def _parameter(field: Field[Any], hint: Any) -> inspect.Parameter:
    """Return the keyword parameter of a field of an options dataclass, annotated for Typer."""
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    required = default is MISSING
    hint, entry_type = _plain_type(hint)
    name = "--" + field.name.replace("_", "-")
    settings: dict[str, Any] = {
        "help": field.metadata.get("help") or None,
        "rich_help_panel": field.metadata.get("group") or None,
    }
    if field.metadata.get("shown") is not None:
        settings["show_default"] = field.metadata["shown"]
    elif default is None or default is False or default == ():
        settings["show_default"] = False
    if entry_type is not None:
        settings |= {
            "callback": _list_of(entry_type),
            "metavar": f"{getattr(entry_type, '__name__', 'value').upper()}[,...]",
        }
        default = None if default in (None, MISSING) else list(map(str, default))
        if default:
            settings.setdefault("show_default", join_list(default))
        hint = list[str]
    annotation: Any = Annotated[Optional[hint] if default is None else hint, typer.Option(name, **settings)]  # noqa: UP045
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else default,
        annotation=annotation,
    )


def _plain_type(hint: Any) -> tuple[Any, Any]:
    """Return a field's type without None, and the type of a tuple's entries (None for other types)."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (inner for inner in get_args(hint) if inner is not type(None))
    if get_origin(hint) is tuple:
        return hint, get_args(hint)[0]
    return hint, None


_KINDS = {int: "whole numbers", float: "numbers"}


def _list_of(kind: Any) -> Callable[[Any], Any]:
    """Return a callback that reads each A,B,C of an option that may be repeated, and returns all entries as `kind`."""

    def parse(values: Any) -> Any:
        if values is None:
            return None
        try:
            return [kind(part) for text in values for part in split_list(text)]
        except ValueError:
            raise typer.BadParameter(
                f"{values[0]!r} is not a list of {_KINDS.get(kind, 'values')}, such as A,B,C"
            ) from None

    return parse


def with_options(
    options: type[Any], without: Collection[str] = (), **fixed: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command one option for each field of an options dataclass.

    The command's first argument is the `options` object; its keyword-only parameters remain options of their own.
    """
    hints, left_out = get_type_hints(options), {*without, *fixed}
    generated = [_parameter(one, hints[one.name]) for one in fields(options) if one.name not in left_out]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        def with_parsed_options(**values: Any) -> None:
            given = {one.name: values.pop(one.name) for one in generated}
            lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
            parsed = options(**fixed, **given | lists)
            command(parsed, **values)

        with_parsed_options.__name__, with_parsed_options.__doc__ = command.__name__, command.__doc__
        with_parsed_options.__signature__ = inspect.Signature([*generated, *own])  # type: ignore[attr-defined]
        with_parsed_options.__annotations__ = {one.name: one.annotation for one in (*generated, *own)}
        return with_parsed_options

    return decorate


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
