"""The command with all its subcommands; errors become one line and an exit status."""

from __future__ import annotations

import io
import os
import sys

import typer

import slicewise
from slicewise.lab.cli import PIPE_CLOSED, STOPPED, USAGE, Told
from slicewise.lab.cli.distance import distance
from slicewise.lab.cli.drift import drift
from slicewise.lab.cli.flow import flow
from slicewise.lab.cli.latents import latents
from slicewise.lab.cli.plan import plan
from slicewise.lab.cli.play import play
from slicewise.lab.cli.reproduce import HELP as REPRODUCE
from slicewise.lab.cli.reproduce import reproduce
from slicewise.lab.cli.runs import HELP as RUNS
from slicewise.lab.cli.runs import REPORT, report, runs
from slicewise.lab.cli.transfer import transfer
from slicewise.lab.cli.variants import variants
from slicewise.lab.data import visible
from slicewise.lab.errors import UserError
from slicewise.support import did_you_mean, meant

# What a bare `slicewise` prints: a line for each thing that people come for.
GREETING = """slicewise {version}: sliced-Wasserstein distances, and what is done with them

  slicewise distance a.npy b.npy                   how far apart two sets of samples are
  slicewise drift old.parquet new.parquet          whether a table has changed, and in which columns
  slicewise transfer photo.jpg other.jpg -o new.jpg   the colors of one photograph on another
  slicewise flow --toy swiss -o flow.gif           a film of samples that move onto others
  slicewise variants                               which variants there are, and which one to use
  slicewise play                                   a page to try all this with the mouse
  slicewise reproduce all                          the paper's experiments in small

slicewise --help lists all commands, slicewise COMMAND --help their options and examples."""

# How alike words are, by difflib's ratio, of which one is offered for the other.
CLOSE = 0.75

app = typer.Typer(
    name="slicewise",
    help="Compute sliced-Wasserstein distances, move samples along them, and reproduce the study of their variants.",
    invoke_without_command=True,
    suggest_commands=False,  # its own suggestions need only a few letters in common
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
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Take the options of the command itself; greet where no subcommand follows."""
    if context.invoked_subcommand is None:
        print(GREETING.format(version=slicewise.__version__))


app.command()(distance)
app.command()(plan)
app.command()(drift)
app.command()(flow)
app.command()(transfer)
app.command()(variants)
app.command()(play)
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
        sys.stdout.flush()
        if status == STOPPED and not isinstance(status, Told):
            raise KeyboardInterrupt  # which Typer turns into this status
    except (BrokenPipeError, SystemExit) as ended:
        # The reader, `head` say, has what it wanted; typer exits when it notices first.
        if isinstance(ended, SystemExit) and not isinstance(ended.__context__, BrokenPipeError):
            raise
        # What is still buffered goes nowhere, also when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return PIPE_CLOSED
    except typer.TyperException as wrong:
        _keep_close_suggestions(wrong)
        message = wrong.format_message() if hasattr(wrong, "format_message") else str(wrong)
        context = getattr(wrong, "ctx", None)
        path = "slicewise" if context is None else context.command_path
        if message.startswith("No such command"):
            word = next((word for word in arguments if not word.startswith("-")), "")
            near = did_you_mean(meant(word, getattr(command, "commands", ()), cutoff=CLOSE))
            message = f"{message} {near}"
        return _fail(message, hint=f"{path} --help lists the options")
    except typer.Abort as stopped:
        # What Typer makes of Ctrl-C, and of a question that is not answered.
        raise KeyboardInterrupt from stopped
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


def _keep_close_suggestions(wrong: typer.TyperException) -> None:
    """Leave out options that only share a few letters with what was written."""
    written, offered = getattr(wrong, "option_name", None), getattr(wrong, "possibilities", None)
    if written and offered:
        vars(wrong)["possibilities"] = meant(written, offered, cutoff=CLOSE)


def _fail(message: str, hint: str = "") -> int:
    # Names of files, and what damaged ones hold, are part of messages.
    line = visible(" ".join(message.split()).rstrip("."))
    print(f"slicewise: {line}{'; ' + hint if hint else ''}", file=sys.stderr)
    return USAGE
