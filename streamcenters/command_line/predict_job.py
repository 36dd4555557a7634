"""The command `predict`: a class for every row of a store."""

from __future__ import annotations

import csv
import sys
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from streamcenters.command_line.configuration import Tables, require
from streamcenters.command_line.failures import CommandError, require_writable, writing
from streamcenters.command_line.findings import Facts, Findings
from streamcenters.command_line.measuring import PassMeter
from streamcenters.command_line.model_facts import classes_on_a_line
from streamcenters.command_line.reading import load_model, open_data
from streamcenters.command_line.screen import Screen
from streamcenters.storage.atomic_file import atomic_path

_ENDINGS = (".csv", ".npy")


def run_predict(tables: Tables, screen: Screen, k: Any) -> Findings:
    """Predict the rows of a store; to a file, to standard output, or into the JSON document."""
    output = tables.get("predict", {}).get("output")
    path = require(tables, "predict", "data", "--data")
    if output is not None:
        _check_output(output)
    model = load_model(tables, k)
    meter = PassMeter(screen.observer())
    predicted = model.predict(open_data(tables, path, None, meter))
    if output is not None:
        write_predictions(predicted, output)
    elif not screen.shows_json:
        with writing("standard output", "the predictions"):
            write_csv(predicted, sys.stdout)
        return Findings({}, ())
    return _describe(predicted, path, output, meter)


def _check_output(output: str) -> None:
    if not output.endswith(_ENDINGS):
        raise CommandError(f"--output {output} ends in neither {' nor '.join(_ENDINGS)}; pass one of them")
    require_writable(output, "the predictions")


def write_predictions(predicted: NDArray[Any], output: str) -> None:
    """Write predictions to a .csv or .npy file, wholly or not at all."""
    with writing(output, "the predictions"), atomic_path(output) as temporary:
        if output.endswith(".npy"):
            with open(temporary, "wb") as file:
                # object arrays would be pickled; text has a plain type of its own
                np.save(file, predicted.astype(str) if predicted.dtype.kind == "O" else predicted)
        else:
            with open(temporary, "w", encoding="utf-8", newline="") as text:
                write_csv(predicted, text)


def write_csv(predicted: NDArray[Any], stream: TextIO) -> None:
    """Write a line for each row: its number from 0, and the predicted class.

    Examples
    --------
    >>> write_csv(np.array(["a", "b"]), sys.stdout)
    row,predicted
    0,a
    1,b
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("row", "predicted"))
    writer.writerows(enumerate(predicted.tolist()))
    stream.flush()


def _describe(predicted: NDArray[Any], path: str, output: str | None, meter: PassMeter) -> Findings:
    labels, counts = np.unique(predicted, return_counts=True)
    classes = [{"class": label, "rows": n} for label, n in zip(labels.tolist(), counts.tolist(), strict=True)]
    document = {
        "command": "predict",
        "data": path,
        "rows": len(predicted),
        "classes": classes,
        "reading": meter.document(),
        **({"predictions": predicted} if output is None else {"output": output}),
    }
    pairs = (
        ("predicted", classes_on_a_line(classes)),
        ("throughput", meter.sentence()),
        ("output", str(output)),
    )
    return Findings(document, (Facts(f"{len(predicted):,} rows of {path}", pairs),), is_saved=True)
