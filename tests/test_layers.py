"""The rules of DESIGN.md about who may import whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import streamcenters

ROOT = Path(streamcenters.__file__).parent
# A stage imports only stages above it.
STAGES = [
    "errors", "chunks", "labels", "kernels", "sketches", "accumulators", "gains", "sources", "passes", "storage",
    "selection", "estimators", "jobs", "reports", "command_line",
]  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))
# Back ends, and the words in a file's name that allow them.
BACK_ENDS = {
    "dask": "dask", "distributed": "dask", "zarr": "zarr", "zarrs": "zarr", "numcodecs": "zarr", "anndata": "anndata",
    "tdigest": "tdigest", "matplotlib": "matplotlib", "pandas": "pandas", "polars": "polars",
}  # fmt: skip


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def stage_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imported_modules(tree, module, is_package):
    """Return every module that a file imports anywhere, except for type checkers alone."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".") if is_package else module.split(".")[:-1]
            prefix = ".".join(base[: len(base) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (prefix, node.module) if part)
            found.add(origin)
            found.update(f"{origin}.{alias.name}" for alias in node.names)
    return found


def imports_of(path):
    return imported_modules(ast.parse(path.read_text()), module_name(path), path.name == "__init__.py")


def layer_errors(path):
    own = stage_of(module_name(path))
    errors = []
    for imported in imports_of(path):
        parts = imported.split(".")
        if parts[0] != "streamcenters" or len(parts) < 2 or parts[1] not in STAGES or parts[1] == own:
            continue
        if STAGES.index(parts[1]) > STAGES.index(own):
            errors.append(f"{module_name(path)} imports {imported}")
    return errors


def test_there_is_something_to_check():
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_every_module_belongs_to_a_stage(path):
    assert stage_of(module_name(path)) in ("", *STAGES)


@pytest.mark.parametrize("path", [path for path in FILES if stage_of(module_name(path))], ids=module_name)
def test_a_stage_imports_only_stages_above_it(path):
    assert layer_errors(path) == []


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_module_has_a_name_that_says_nothing(path):
    assert not {"utils", "util", "core", "helpers", "misc", "common", "lib"} & set(
        module_name(path).split(".")
    )


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_imports_a_back_end_only_if_its_name_says_so(path):
    if "reports" in path.parts:
        return
    roots = {imported.split(".")[0] for imported in imports_of(path)}
    unsaid = {root for root in roots & BACK_ENDS.keys() if BACK_ENDS[root] not in path.stem}
    assert not unsaid


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_stays_below_a_size_that_can_be_read(path):
    # STYLE.md: a file over 400 lines wants to be two; 600 is where it must
    assert len(path.read_text().splitlines()) <= 600


def test_the_check_itself_sees_an_import_that_breaks_the_rule():
    tree = ast.parse(
        "from streamcenters.estimators import L2Centers\n"
        "def late():\n    import dask.array as da\n"
        "from ..passes import run_pass\nfrom . import dense_tiles\n"
    )
    found = imported_modules(tree, "streamcenters.accumulators.class_moments", False)
    assert {
        "streamcenters.estimators",
        "dask.array",
        "streamcenters.passes",
        "streamcenters.accumulators",
    } <= found
    assert imported_modules(ast.parse("from . import x"), "streamcenters.kernels", True) >= {
        "streamcenters.kernels.x"
    }


@pytest.mark.parametrize(
    "touch", ["", "streamcenters.L2Centers", "streamcenters.open_source", "streamcenters.load"]
)
def test_importing_the_package_loads_no_back_end(touch):
    # scikit-learn loads pandas and rich by itself where they are installed; we add nothing
    heavy = [
        "dask",
        "distributed",
        "zarr",
        "zarrs",
        "anndata",
        "matplotlib",
        "pandas",
        "polars",
        "rich",
        "click",
    ]
    code = (
        "import sys, sklearn.base, sklearn.feature_selection, numba, safetensors; before = set(sys.modules)\n"
        f"import streamcenters; {touch or 'pass'}; print([n for n in {heavy} if n in set(sys.modules) - before])\n"
        f"print([n for n in {heavy} if n in sys.modules and n not in ('pandas', 'rich')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["[]", "[]"]


def test_importing_the_package_alone_loads_not_even_numpy():
    code = "import sys, streamcenters; print([n for n in ('numpy', 'numba', 'sklearn', 'scipy') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_everything_public_is_there_and_documented():
    for name in streamcenters.__all__:
        assert name in dir(streamcenters)
        assert getattr(streamcenters, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Unheard'"):
        _ = streamcenters.Unheard
