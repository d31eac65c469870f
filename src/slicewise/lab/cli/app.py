"""The command with all its subcommands; errors become one line and an exit status."""

from __future__ import annotations

import io
import os
import sys

import typer

import slicewise
from slicewise.lab.cli import STOPPED, USAGE
from slicewise.lab.cli.distance import distance
from slicewise.lab.cli.drift import drift
from slicewise.lab.cli.flow import flow
from slicewise.lab.cli.latents import latents
from slicewise.lab.cli.plan import plan
from slicewise.lab.cli.reproduce import HELP as REPRODUCE
from slicewise.lab.cli.reproduce import reproduce
from slicewise.lab.cli.runs import HELP as RUNS
from slicewise.lab.cli.runs import REPORT, report, runs
from slicewise.lab.cli.transfer import transfer
from slicewise.lab.cli.variants import variants
from slicewise.lab.errors import UserError

app = typer.Typer(
    name="slicewise",
    help="Compute sliced-Wasserstein distances, move samples along them, and reproduce the study of their variants.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"slicewise {slicewise.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Take the options of the command itself."""


app.command()(distance)
app.command()(plan)
app.command()(drift)
app.command()(flow)
app.command()(transfer)
app.command()(variants)
app.command()(latents)
app.command(help=REPRODUCE)(reproduce)
app.command(help=RUNS)(runs)
app.command(help=REPORT)(report)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench() -> None:
    """Print how to run the benchmarks, which are not part of the installed package."""
    raise UserError(
        "the benchmarks are in the repository, not in the installed package: in a clone of it run `make bench`, "
        "`make bench-gpu`, `make bench-color`, `make bench-steps`, `make bench-networks`, `make bench-stats` or `make claims`"
    )


def run(arguments: list[str]) -> int:
    """Run one subcommand and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # "±" becomes "?" where it cannot be encoded
    command = typer.main.get_command(app)
    try:
        status = command.main(arguments, prog_name="slicewise", standalone_mode=False)
    except typer.TyperException as wrong:
        message = wrong.format_message() if hasattr(wrong, "format_message") else str(wrong)
        context = getattr(wrong, "ctx", None)
        path = "slicewise" if context is None else context.command_path
        return _fail(message, hint=f"{path} --help lists the options")
    except typer.Abort:
        return STOPPED
    except ImportError as missing:
        # Errors of the library say what to install.
        named = f"this needs {missing.name}: pip install 'slicewise[lab]'"
        return _fail(named if missing.name else str(missing))
    except (UserError, ValueError, OSError) as error:
        return _fail(str(error))
    except Exception as fault:
        if os.environ.get("SLICEWISE_TRACEBACK"):
            raise
        return _fail(
            f"internal error, {type(fault).__name__}: {fault}",
            hint="SLICEWISE_TRACEBACK=1 shows the traceback; please report it",
        )
    return status if isinstance(status, int) else 0


def _fail(message: str, hint: str = "") -> int:
    line = " ".join(message.split()).rstrip(".")
    print(f"slicewise: {line}{'; ' + hint if hint else ''}", file=sys.stderr)
    return USAGE
