"""A command whose help names each option once and ends with examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


class EngineOption(click.Option):
    """An option of the engine; help lists these by themselves."""


class Command(click.Command):
    """`examples` are whole command lines, one of them a line of the help text."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Own options first, then the engine's, then the examples."""
        own: list[tuple[str, str]] = []
        engine: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                rows = engine if isinstance(param, EngineOption) else own
                rows.append((_kebab(record[0]), record[1]))
        for title, rows in (("Options", own), ("Engine options", engine)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write_text(example)


def _kebab(names: str) -> str:
    """The spellings of an option without those in snake_case."""
    sides = []
    for side in names.split(" / "):
        *flags, last = side.split(", ")
        words = last.split(" ", 1)
        flags = [flag for flag in (*flags, words[0]) if "_" not in flag]
        sides.append(" ".join((", ".join(flags), *words[1:])))
    return " / ".join(sides)


def command(*examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """`click.command` with examples."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        return click.command(cls=Command, examples=examples)(function)

    return decorate
