"""Saved artifacts: taken up again where they fit, refused where they do not."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch

from optest.errors import UsageError
from optest.golden import artifact as saved
from optest.golden.config import Config
from optest.golden.direction import Out
from optest.golden.kernel import compile_kernel, load_artifact
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec

SOURCE = """
FACTOR = 2

def helper(x):
    return x * FACTOR

def kernel(x, n, y):
    y.copy_(helper(x) * n)

def other(x, n, y):
    y.copy_(x)
"""


def specs(shape=(4, 8), dtype=torch.float32, names=("x", "n", "y"), n=torch.int32):
    x, count, y = names
    return [
        TensorSpec(x, shape, dtype, init_value=1),
        ScalarSpec(count, n, 3),
        TensorSpec(y, shape, dtype),
    ]


@pytest.fixture
def module(tmp_path):
    """A user's file, which may be edited and loaded again."""

    def loaded(source=SOURCE, version=0):
        path = tmp_path / f"user_{version}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("user", path)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    return loaded


@pytest.fixture
def folder(module, tmp_path):
    compile_kernel(module().kernel, specs(), Config(), tmp_path / "run")
    return tmp_path / "run"


def load(folder, fn, given=None):
    return load_artifact(folder, fn, specs() if given is None else given, Config())


def test_the_given_kernel_runs_with_the_saved_directions(folder, module, monkeypatch):
    """Nothing is observed again."""
    monkeypatch.setattr("optest.golden.observed.directions", None)
    artifact = load(folder, module().kernel)
    assert artifact.directions == {"x": "in", "y": "out"}
    assert artifact.output_dir == folder
    x, y = torch.ones(4, 8), torch.zeros(4, 8)
    artifact.dispatch(x, 3, y)
    assert torch.equal(y, x * 6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (specs(shape=(4, 9)), r"x: shape \[4, 9\], compiled for \[4, 8\]; y: shape"),
        (specs(dtype=torch.float16), "x: torch.float16, compiled for torch.float32"),
        (specs(n=torch.int64), "n: torch.int64, compiled for torch.int32"),
        (specs(names=("a", "n", "y")), "no spec for parameter x; spec a names no parameter"),
        (specs()[:2], "no spec for parameter y"),
        ([specs()[2], *specs()[:2]], "order: specs y, x, n, parameters x, n, y"),
    ],
)
def test_specs_that_no_longer_fit(folder, module, given, words):
    with pytest.raises(ValueError, match=f"compiled parameter ABI mismatch .*{words}"):
        load(folder, module().kernel, given)


@pytest.mark.parametrize(
    "edited",
    [
        ("y.copy_(helper(x) * n)", "y.copy_(helper(x) + n)"),
        ("return x * FACTOR", "return x / FACTOR"),
    ],
)
def test_an_edited_kernel_is_said(folder, module, edited):
    """Its directions may be others; so may those of a function that it calls."""
    with pytest.raises(ValueError, match="the source of kernel changed since it was compiled"):
        load(folder, module(SOURCE.replace(*edited), 1).kernel)


def test_an_edit_elsewhere_in_the_file_is_none(folder, module):
    moved = SOURCE.replace("y.copy_(x)\n", "y.copy_(-x)\n").replace("FACTOR = 2", "FACTOR = 2\n\n")
    assert load(folder, module(moved, 1).kernel).directions["y"] == "out"


def test_another_kernel_is_refused(folder, module):
    with pytest.raises(ValueError, match=r"holds kernel \(a callable\), fn is other"):
        load(folder, module().other)
    with pytest.raises(ValueError, match="fn is aten::add"):
        load(folder, torch.ops.aten.add.Tensor)


def test_any_size_fits_where_the_kernel_takes_any(tmp_path):
    def kernel(x, n, y: Out[[-1, 8], torch.float32]):
        y.copy_(x)

    compile_kernel(kernel, specs(), Config(), tmp_path)
    longer = specs((9, 8))
    with pytest.raises(ValueError, match=r"\(x: shape \[9, 8\], compiled for \[4, 8\]\)"):
        load(tmp_path, kernel, longer)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "has no artifact.json"),
        ("", "cannot be read"),
        ("[]", "no artifact of format 1"),
        ('{"format": 99}', "no artifact of format 1"),
        ('{"format": 1}', "no artifact that optest wrote"),
        (("directions", {"x": "sideways"}), "unknown direction 'sideways'"),
        (("directions", "in"), "no artifact that optest wrote"),
        (("parameters", [{"name": "x", "kind": "tensor", "dtype": "os", "shape": []}]), "dtype"),
        (("parameters", 3), "no artifact that optest wrote"),
        (("parameters", [{"name": "x", "kind": "tensor", "dtype": "float32"}]), "shape"),
    ],
)
def test_files_that_are_no_artifact(folder, module, content, words):
    path = folder / saved.FILE
    if content is None:
        path.unlink()
    elif isinstance(content, tuple):
        record = json.loads(path.read_text())
        record[content[0]] = content[1]
        path.write_text(json.dumps(record))
    else:
        path.write_text(content)
    with pytest.raises(UsageError, match=words):
        load(folder, module().kernel)


def test_directions_that_were_not_observed_are_observed_when_it_is_run(module, tmp_path):
    """An artifact that was compiled only has none."""
    compile_kernel(module().kernel, specs(), Config(compile_only=True), tmp_path)
    assert json.loads((tmp_path / saved.FILE).read_text())["directions"] is None
    assert load(tmp_path, module().kernel).directions == {"x": "in", "y": "out"}


def test_an_object_that_compiles_itself_loads_itself(tmp_path):
    class Made:
        directions = {"x": "in"}  # noqa: RUF012
        output_dir = tmp_path

        def dispatch(self, x): ...

    class Backend:
        def compile(self, specs, config): ...

    class Loading(Backend):
        def load(self, runtime_dir, specs, config):
            assert runtime_dir == tmp_path
            return Made()

    assert isinstance(load(tmp_path, Loading()), Made)
    with pytest.raises(UsageError, match="Backend with compile but no load"):
        load(tmp_path, Backend())
