"""Showing findings: rich tables on a terminal, plain lines elsewhere, or one JSON document."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from streamcenters.command_line.failures import writing
from streamcenters.command_line.findings import Facts, Findings, Grid, as_json
from streamcenters.errors import StreamcentersWarning
from streamcenters.passes.events import Observer, ignore_events
from streamcenters.passes.progress import progress_observer

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a command shows things: results on standard output, all else on standard error."""

    shows_json: bool = False
    is_quiet: bool = False

    def observer(self) -> Observer:
        """Return the watcher of a pass: a bar on a terminal, lines elsewhere, nothing when quiet."""
        return ignore_events if self.is_quiet else progress_observer(True)

    def show(self, findings: Findings) -> None:
        """Print findings on standard output."""
        if self.is_quiet and findings.is_saved and not self.shows_json:
            return
        with writing("standard output", "the result"):
            if self.shows_json:
                click.echo(json.dumps(as_json(findings.document), indent=2, allow_nan=False))
            elif sys.stdout.isatty():
                _show_rich(findings)
            else:
                _show_plain(findings)

    @contextmanager
    def warnings_as_lines(self) -> Iterator[None]:
        """Show each warning as one line on standard error, without file names and code."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", StreamcentersWarning)
            warnings.showwarning = _say_warning  # type: ignore[assignment]
            yield


def _say_warning(message: Warning | str, *_: object) -> None:
    click.echo(f"streamcenters: warning: {' '.join(str(message).split())}", err=True)


def _show_plain(findings: Findings) -> None:
    for number, block in enumerate(findings.blocks):
        if number:
            click.echo()
        click.echo("\n".join(_plain_facts(block) if isinstance(block, Facts) else _plain_grid(block)))


def _plain_facts(facts: Facts) -> list[str]:
    width = max((len(name) for name, _ in facts.pairs), default=0)
    return [facts.title, *(f"  {name:<{width}}  {text}" for name, text in facts.pairs)]


def _plain_grid(grid: Grid) -> list[str]:
    lines = [grid.columns, *grid.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(grid.columns))]
    aligned = [
        [
            cell.rjust(width) if column in grid.numbers else cell.ljust(width)
            for cell, width, column in zip(line, widths, grid.columns, strict=True)
        ]
        for line in lines
    ]
    return [grid.title, *(f"  {'  '.join(cells)}".rstrip() for cells in aligned)]


def _show_rich(findings: Findings) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for block in findings.blocks:
        console.print()
        console.print(block.title, style="bold", markup=False)
        console.print(_rich_facts(block) if isinstance(block, Facts) else _rich_grid(block))


def _rich_facts(facts: Facts) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.pairs:
        table.add_row(Text(f"  {name}"), Text(text))
    return table


def _rich_grid(grid: Grid) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="cyan", pad_edge=True, show_edge=False)
    for column in grid.columns:
        table.add_column(Text(column), justify="right" if column in grid.numbers else "left", overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
