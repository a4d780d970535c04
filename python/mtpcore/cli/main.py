"""Entry point: the command group, and one line on stderr for whatever is wrong with the input."""

from __future__ import annotations

import os
import sys

import click

from mtpcore.cli.bench import bench
from mtpcore.cli.check import check
from mtpcore.cli.doctor import doctor
from mtpcore.cli.generate import generate
from mtpcore.cli.output import version
from mtpcore.cli.plan import plan

BAD_INPUT = 2


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(version())
@click.pass_context
def cli(context: click.Context) -> None:
    """Hybrid linear-attention models with multi-token prediction."""
    if context.invoked_subcommand is None:
        raise click.UsageError("no command is given; mtpcore --help lists them")


for command in (generate, check, bench, plan, doctor):
    cli.add_command(command)


def main() -> None:
    """Runs the command. Exit status: 0 done, 1 a check failed, 2 bad usage or bad input."""
    status = None
    try:
        status = cli.main(prog_name="mtpcore", standalone_mode=False)
    except click.ClickException as error:
        fail(error.format_message())
    except click.Abort:
        fail("interrupted")
    except (ValueError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
        if os.environ.get("MTPCORE_TRACEBACK"):
            raise
        fail(str(error) or type(error).__name__)
    except BrokenPipeError:
        # The reader went away; nothing is left to say, and the interpreter must not say it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = BAD_INPUT
    sys.exit(status if isinstance(status, int) else 0)


def fail(message: str) -> None:
    """One line on stderr, exit status 2."""
    click.echo("mtpcore: " + " ".join(message.split()), err=True)
    sys.exit(BAD_INPUT)
