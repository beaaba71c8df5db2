"""Commands generated from options dataclasses (`psephos.options`): one option for each field."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, Optional, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand


class SectionedCommand(TyperCommand):
    """A command whose help lists its options under the headings that they name."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Options without a heading first."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                heading = getattr(parameter, "rich_help_panel", None) or "Options"
                groups.setdefault("Arguments" if parameter.param_type_name == "argument" else heading, []).append(
                    record
                )
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def examples(*lines: str) -> str:
    """An epilogue of one example a line; \\b keeps them from being filled into one paragraph."""
    return "\n".join(("\b", "Examples:", *("  " + line for line in lines)))


def parameters(options: type[Any], only: Sequence[str] | None = None) -> list[inspect.Parameter]:
    """A keyword parameter, annotated for typer, for each field of the dataclass `options`, or for those of `only`."""
    hints = get_type_hints(options)
    return [_parameter(one, hints[one.name]) for one in fields(options) if only is None or one.name in only]


def _parameter(one: Field[Any], hint: Any) -> inspect.Parameter:
    default = one.default_factory() if one.default_factory is not MISSING else one.default
    required = default is MISSING
    hint, many = _plain_type(hint)
    name = "--" + one.name.replace("_", "-")
    said: dict[str, Any] = {
        "help": one.metadata.get("help") or None,
        "rich_help_panel": one.metadata.get("group") or None,
    }
    if one.metadata.get("shown") is not None:
        said["show_default"] = one.metadata["shown"]
    elif default is None or default is False or default == ():
        said["show_default"] = False
    if many is not None:
        said |= {"parser": list_of(many), "metavar": f"{getattr(many, '__name__', 'value').upper()}[,...]"}
        default = None if default in (None, MISSING) else ",".join(map(str, default))
        hint = str
    annotation: Any = Annotated[Optional[hint] if default is None else hint, typer.Option(name, **said)]  # noqa: UP045
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else default,
        annotation=annotation,
    )


def _plain_type(hint: Any) -> tuple[Any, Any]:
    """A field's type without None, and the type of its entries where it is a tuple."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (inner for inner in get_args(hint) if inner is not type(None))
    if get_origin(hint) is tuple:
        return hint, get_args(hint)[0]
    return hint, None


def list_of(kind: Any) -> Callable[[Any], Any]:
    """Reads A,B,C as a tuple of `kind`."""

    def parse(text: Any) -> Any:
        if isinstance(text, tuple):
            return text
        try:
            return tuple(kind(part.strip()) for part in str(text).split(",") if part.strip())
        except ValueError:
            raise typer.BadParameter(f"{text!r} is no list of {kind.__name__}s, as in A,B,C") from None

    return parse


def with_options(
    options: type[Any], only: Sequence[str] | None = None, **fixed: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: the command's first argument becomes an `options`, built of an option for each of its fields.

    With `only`, other fields keep their defaults or are `fixed`. The command's keyword-only parameters stay options of
    their own.
    """
    generated = parameters(options, only)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        def called(**given: Any) -> None:
            chosen = options(**fixed, **{one.name: given.pop(one.name) for one in generated})
            command(chosen, **given)

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__signature__ = inspect.Signature([*generated, *own])  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in (*generated, *own)}
        return called

    return decorate
