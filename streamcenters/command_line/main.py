"""The command line: options and exit codes. What a command does is imported when it runs."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

import streamcenters
from streamcenters.command_line.failures import CommandError, Interrupted, one_sentence
from streamcenters.errors import StreamcentersError

if TYPE_CHECKING:
    from streamcenters.command_line.configuration import Setting, Tables
    from streamcenters.command_line.screen import Screen

BAD_INPUT = 2
INTERRUPTED = 130

F = TypeVar("F", bound=Callable[..., Any])


class OneSentenceGroup(click.Group):
    """A group of commands whose failures are one sentence on standard error and an exit code."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run a command and end the process: 0 done, 2 bad input, 130 interrupted."""
        extra.pop("standalone_mode", None)
        try:
            code = super().main(args, prog_name or "streamcenters", standalone_mode=False, **extra)
        except (Interrupted, click.Abort):
            _fail("interrupted", INTERRUPTED)
        except click.ClickException as error:
            _fail(_usage_sentence(error), BAD_INPUT)
        except MemoryError:
            _fail("the memory does not suffice; pass a smaller --memory or fewer --threads", BAD_INPUT)
        except (StreamcentersError, OSError) as error:
            _fail(one_sentence(error), BAD_INPUT)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C is caught before click prints a line of its own."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


def _fail(sentence: str, code: int) -> NoReturn:
    click.echo(f"streamcenters: {sentence}", err=True)
    sys.exit(code)


def _usage_sentence(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".").replace(". Did you mean", "; did you mean")
    context = getattr(error, "ctx", None)
    hint = "" if context is None or message.endswith("?") else f"; see {context.command_path} --help"
    return f"{message[:1].lower()}{message[1:]}{hint}"


@click.group(
    cls=OneSentenceGroup, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(streamcenters.__version__, prog_name="streamcenters")
def commands() -> None:
    """Sparse classifiers trained from data that does not fit in memory.

    Every command takes a TOML file, options, or both; options win over the file.
    """


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


# An option named table__key stands for that key of that table of the TOML file.
_config = _options(
    click.argument("config", required=False),
    click.option("--config", "config_option", metavar="FILE", help="TOML file, as the argument."),
)
_reading = _options(
    click.option(
        "--threads", "data__threads", type=int, help="Threads that read; default: the cores, at most 8."
    ),
    click.option("--memory", "data__memory", metavar="SIZE", help="Decoded data in flight, 512MB say."),
    click.option(
        "--missing-chunks",
        "data__missing_chunks",
        metavar="fill|raise",
        help="A chunk that the store lacks is its fill value, or an error.",
    ),
    click.option(
        "--on-bad-chunk",
        "data__on_bad_chunk",
        metavar="raise|skip",
        help="A damaged chunk ends the reading, or its rows are left out.",
    ),
    click.option(
        "--retries", "data__retries", type=int, help="Tries after a read that failed in passing; default: 3."
    ),
)
_output = _options(
    click.option("--json", "shows_json", is_flag=True, help="One JSON document on standard output."),
    click.option("--quiet", "is_quiet", is_flag=True, help="No progress, and no summary of what was saved."),
)
_model = click.option("--model", "model__path", metavar="FILE", help="Model file, or the folder of a job.")
_k = click.option("--k", "k", metavar="N", help="Use another k than the model's; no data is read for it.")


@commands.command()
@_config
@click.option("--data", "data__path", metavar="STORE", help="Zarr store to learn from.")
@click.option("--labels", "data__labels", metavar="PATH", help="Labels inside the store, obs/cell_type say.")
@click.option("--held-out", "held_out__path", metavar="STORE", help="Zarr store to score the model on.")
@click.option("--model", "model__path", metavar="FILE", help="Where to save the model.")
@click.option("--estimator", "estimator__name", metavar="NAME", help="Default: L2Centers.")
@click.option("--k", "k", metavar="N", help="Features to select: a number, a fraction or 'all'.")
@click.option("--scale", "scale", metavar="none|std|within", help="What each feature is divided by.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="Any other parameter.")
@click.option(
    "--checkpoint",
    "checkpoint__path",
    metavar="FILE",
    help="Keeps the state; the same command goes on from it.",
)
@click.option(
    "--checkpoint-every", "checkpoint__every", type=float, metavar="SECONDS", help="Default: 30 seconds."
)
@_reading
@_output
def fit(k: str | None, scale: str | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Learn from a store and save the model."""
    from streamcenters.command_line.fit_job import run_fit

    tables = _gather(options, _parameters(k, scale, assignments))
    if options["data__path"] or options["held_out__path"]:
        tables.pop("planted", None)  # data of the user's own are not made up
    _run(options, lambda screen: run_fit(tables, screen))


@commands.command()
@click.argument("target", metavar="JOB-OR-TOML", required=False)
@click.option("--config", "config_option", metavar="FILE", help="TOML file.")
@click.option(
    "--data", "data__path", metavar="STORE", help="Zarr store: a batch, or with --consume one that grows."
)
@click.option("--labels", "data__labels", metavar="PATH", help="Labels inside the store, obs/cell_type say.")
@click.option(
    "--batch-id", "batch_id", metavar="ID", help="What tells the batch from others; default: its path."
)
@click.option(
    "--consume", "job__consume", is_flag=True, default=None, help="Take the rows that came since last time."
)
@click.option(
    "--store-name", "job__store_name", metavar="NAME", help="Tells apart several stores to consume."
)
@click.option("--forget", "forgets", is_flag=True, help="Take the batch out again instead.")
@click.option("--estimator", "estimator__name", metavar="NAME", help="Of a new job; default: L2Centers.")
@click.option("--k", "k", metavar="N", help="Features to select: a number, a fraction or 'all'.")
@click.option("--scale", "scale", metavar="none|std|within", help="What each feature is divided by.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="Any other parameter.")
@click.option(
    "--classes", "job__classes", metavar="A,B,...", help="All labels that may ever come, for a new job."
)
@click.option("--window-rows", "job__window_rows", type=int, metavar="N", help="Keep the newest N rows.")
@click.option(
    "--window-batches", "job__window_batches", type=int, metavar="N", help="Keep the newest N batches."
)
@click.option(
    "--half-life", "job__half_life", type=float, metavar="ROWS", help="Halve old weights every so many rows."
)
@click.option(
    "--wait", "job__wait", type=float, metavar="SECONDS", help="Wait for another update; default: 60."
)
@_reading
@_output
def update(
    target: str | None, batch_id: str | None, forgets: bool, k: str | None, scale: str | None,
    assignments: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Learn a batch, or what was appended to a store, in a job: each once, whatever is killed."""
    from streamcenters.command_line.update_job import job_settings, run_update

    is_config = target is not None and target.endswith(".toml")
    options["config"] = target if is_config else None
    named = job_settings(None if is_config else target, batch_id)
    tables = _gather(options, [*_parameters(k, scale, assignments), *named])
    _run(options, lambda screen: run_update(tables, screen, forgets))


@commands.command()
@_config
@_model
@click.option("--data", "predict__data", metavar="STORE", help="Zarr store to predict.")
@click.option(
    "--output", "predict__output", metavar="FILE", help=".csv or .npy; default: csv on standard output."
)
@_k
@_reading
@_output
def predict(k: str | None, **options: Any) -> None:
    """Predict the class of every row of a store."""
    from streamcenters.command_line.predict_job import run_predict

    tables = _gather(options)
    _run(options, lambda screen: run_predict(tables, screen, _value(k)))


@commands.command()
@_config
@_model
@click.option("--data", "held_out__path", metavar="STORE", help="Zarr store with labels.")
@click.option("--labels", "held_out__labels", metavar="PATH", help="Labels inside the store.")
@_k
@_reading
@_output
def score(k: str | None, **options: Any) -> None:
    """Say how many rows of a labelled store the model gets right."""
    from streamcenters.command_line.score_job import run_score

    tables = _gather(options)
    _run(options, lambda screen: run_score(tables, screen, _value(k)))


@commands.command()
@_config
@_model
@click.option(
    "--top",
    "rank__top",
    type=int,
    metavar="N",
    help="Features to show; default: 20, or with --compare as many as are selected.",
)
@click.option(
    "--compare", "rank__compare", metavar="FILE", help="Older model file or job: say what changed since."
)
@_k
@_output
def rank(k: str | None, **options: Any) -> None:
    """List the best features, or how they changed since an older model; no data is read."""
    from streamcenters.command_line.rank_job import run_rank

    tables = _gather(options)
    _run(options, lambda screen: run_rank(tables, screen, _value(k)))


@commands.command()
@click.argument("target", metavar="FILE-OR-STORE")
@click.option("--labels", metavar="PATH", help="Labels inside the store.")
@_output
def info(target: str, labels: str | None, **options: Any) -> None:
    """Describe a model file, a job, a Zarr store, or what of them a TOML file names."""
    from streamcenters.command_line.info_job import run_info

    _run(options, lambda screen: run_info(target, labels))


def _gather(options: dict[str, Any], parameters: Sequence[Setting] = ()) -> Tables:
    """Return the tables of the TOML file with the options over them."""
    from streamcenters.command_line.configuration import Setting, merge_settings, read_tables

    config, config_option = options["config"], options["config_option"]
    if config and config_option and config != config_option:
        raise CommandError(f"two TOML files were given, {config} and {config_option}; pass one")
    path = config or config_option
    flags = {param.name: param.opts[0] for param in click.get_current_context().command.params}
    settings = []
    for name, value in options.items():
        table, is_setting, key = name.partition("__")
        if is_setting and value is not None:
            settings.append(Setting(flags[name], table, key, value))
    return merge_settings(read_tables(path) if path else {}, [*settings, *parameters])


def _parameters(k: str | None, scale: str | None, assignments: tuple[str, ...]) -> list[Setting]:
    from streamcenters.command_line.configuration import Setting, parse_assignment

    shorthands = [("--k", "k", _value(k)), ("--scale", "scale", _value(scale))]
    named = [("--set", *parse_assignment(text)) for text in assignments]
    return [
        Setting(option, "estimator", name, value)
        for option, name, value in [*shorthands, *named]
        if value is not None
    ]


def _value(text: str | None) -> Any:
    from streamcenters.command_line.configuration import parse_value

    return None if text is None else parse_value(text)


def _run(options: dict[str, Any], job: Callable[[Screen], Any]) -> None:
    """Run a job and show what it found."""
    from streamcenters.command_line.screen import Screen

    screen = Screen(options["shows_json"], options["is_quiet"])
    with screen.warnings_as_lines():
        screen.show(job(screen))


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a name that the terminal cannot show is no failure
    commands()


if __name__ == "__main__":
    main()
