"""Saved data: what lies where, what a replay takes from it, and what it refuses."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
from golden_kernels import (
    accumulate,
    accumulate_specs,
    axpy,
    axpy_specs,
    golden_accumulate,
    golden_axpy,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from optest.cases import dump
from optest.golden import InOut, Out, ScalarSpec, TensorSpec, run


def never(values):
    raise AssertionError("a replay does not compute the golden outputs")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def saved(recorded):
    """The data folder of a run of ``axpy``."""
    return run(axpy, axpy_specs(), golden_axpy, save_data=True).work_dir / "data"


def test_what_is_saved(recorded):
    result = run(accumulate, accumulate_specs(), golden_accumulate, save_data=True)
    assert files(result.work_dir / "data") == [
        "fingerprint.json",
        "in/total.safetensors",
        "in/x.safetensors",
        "out/total.safetensors",
        "out/y.safetensors",
    ]
    record = json.loads((result.work_dir / "data/fingerprint.json").read_text())
    assert record["seed"] == recorded.events[0]["seed"]
    assert record["specs"][1] == {
        "name": "total",
        "kind": "tensor",
        "dtype": "float32",
        "shape": [6],
        "direction": "inout",
    }
    assert len(record["golden_sha256"]) == 64


def test_inputs_are_saved_as_they_were_before_the_kernel(recorded):
    result = run(accumulate, accumulate_specs(), golden_accumulate, save_data=True)
    part = {
        name: dump.load(result.work_dir / f"data/{name}.safetensors")["tensor"]
        for name in ("in/x", "in/total", "out/total")
    }
    assert torch.equal(part["out/total"], part["in/total"] + part["in/x"])


def test_without_golden_only_inputs_are_saved(recorded):
    result = run(axpy, axpy_specs(), save_data=True)
    data = result.work_dir / "data"
    assert files(data) == ["fingerprint.json", "in/a.safetensors", "in/x.safetensors"]


def test_nothing_is_saved_unasked(recorded):
    assert not (run(axpy, axpy_specs(), golden_axpy).work_dir / "data").exists()


def test_a_replay_computes_nothing_and_gets_the_same_inputs(recorded, saved, capsys):
    seen = []

    def kernel(a: float, x: torch.Tensor, y: Out[torch.Tensor]):
        seen.append(x.clone())
        axpy(a, x, y)

    result = run(kernel, axpy_specs(), golden_data=saved)
    assert result.passed
    assert torch.equal(seen[0], dump.load(saved / "in/x.safetensors")["tensor"])
    assert f"[RUN]   cache hit: {saved / 'in'}" in capsys.readouterr().out
    assert recorded.finished()[-1]["status"] == "passed"


def test_a_replay_does_not_call_golden_fn(recorded):
    calls = []

    def golden(values):
        calls.append(1)
        golden_axpy(values)

    data = run(axpy, axpy_specs(), golden, save_data=True).work_dir / "data"
    assert run(axpy, axpy_specs(), golden, golden_data=data).passed
    assert calls == [1]


def test_a_wrong_kernel_fails_a_replay(recorded, saved):
    def kernel(a: float, x: torch.Tensor, y: Out[torch.Tensor]):
        y.copy_(x)

    assert "does not match golden" in run(kernel, axpy_specs(), golden_data=saved).error


def test_an_inout_kernel_leaves_the_files_as_they_are(recorded):
    """The files are mapped into memory; writes must not go through."""
    data = run(accumulate, accumulate_specs(), golden_accumulate, save_data=True).work_dir / "data"
    for _ in range(2):
        assert run(accumulate, accumulate_specs(), golden_data=data).passed


def test_a_saved_scalar_overrides_the_specs_also_for_comparators(recorded, saved):
    seen = []

    def kernel(a: float, x: torch.Tensor, y: Out[torch.Tensor]):
        seen.append(a)
        axpy(a, x, y)

    def mine(actual, expected, *, inputs, **_options):
        seen.append(inputs["a"].item())
        return torch.equal(actual, expected), ""

    assert run(kernel, axpy_specs(a=5.0), golden_data=saved, compare_fn={"y": mine}).passed
    assert seen == [2.0, 2.0]


def golden_axpy_edited(values):
    values["y"][:] = values["x"] * values["a"]


def rewrite(path, tensor):
    dump.save({"tensor": tensor}, path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


def pickled(path):
    path.unlink()
    path.with_suffix(".pt").write_bytes(pickle.dumps(print))


def fingerprint_of(folder, **changes):
    path = folder / "fingerprint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# What is done to the folder, what the error names, and what it says.
SPOILT = {
    "missing input": (lambda d: (d / "in/x.safetensors").unlink(), "in/x.safetensors", "missing"),
    "missing output": (lambda d: (d / "out/y.safetensors").unlink(), "y.safetensors", "missing"),
    "missing scalar": (lambda d: (d / "in/a.safetensors").unlink(), "a.safetensors", "missing"),
    "torn": (lambda d: cut(d / "in/x.safetensors"), "in/x.safetensors", "cannot be replayed"),
    "torn golden": (lambda d: cut(d / "out/y.safetensors"), "y.safetensors", "cannot be replayed"),
    "empty": (lambda d: (d / "in/x.safetensors").write_bytes(b""), "in/x", "cannot be replayed"),
    "shape": (lambda d: rewrite(d / "in/x.safetensors", torch.zeros(3)), "in/x", "[3]"),
    "dtype": (
        lambda d: rewrite(d / "out/y.safetensors", torch.zeros(4, 8, dtype=torch.int32)),
        "out/y",
        "torch.int32",
    ),
    "scalar shape": (lambda d: rewrite(d / "in/a.safetensors", torch.ones(1)), "in/a", "0-dim"),
    "scalar dtype": (
        lambda d: rewrite(d / "in/a.safetensors", torch.tensor(1)),
        "in/a",
        "dtype mismatch",
    ),
    "two tensors": (
        lambda d: save_file({"u": torch.ones(1), "v": torch.ones(1)}, d / "in/x.safetensors"),
        "in/x",
        "expected one tensor",
    ),
    "pickle": (lambda d: pickled(d / "in/x.safetensors"), "in/x.pt", "never opened"),
    "golden source": (
        lambda d: fingerprint_of(d, golden_sha256="0" * 64),
        "fingerprint.json",
        "source of golden_fn (golden_axpy) changed",
    ),
    "no fingerprint": (
        lambda d: (d / "fingerprint.json").write_text("[]"),
        "fingerprint.json",
        "expected a fingerprint",
    ),
    "torn fingerprint": (
        lambda d: cut(d / "fingerprint.json"),
        "fingerprint.json",
        "cannot be read",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_replay_that_does_not_fit_says_which_file_and_why(recorded, saved, name):
    spoil, file, words = SPOILT[name]
    spoil(saved)
    result = run(axpy, axpy_specs(), golden_axpy, golden_data=saved)
    assert not result.passed
    assert file in result.error
    assert words in result.error
    assert recorded.session.failures[-1].status == "error"


def test_nothing_is_unpickled(recorded, saved, monkeypatch):
    monkeypatch.setattr(pickle, "load", None)
    monkeypatch.setattr(torch, "load", None)
    pickled(saved / "in/x.safetensors")
    assert "never opened" in run(axpy, axpy_specs(), golden_data=saved).error


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        (axpy_specs(shape=(2, 8)), "x shape [4, 8], now [2, 8]"),
        (axpy_specs(dtype=torch.float16), "y dtype float32, now float16"),
    ],
)
def test_other_specs_than_those_saved_are_told_at_once(recorded, saved, specs, words):
    result = run(axpy, specs, golden_axpy, golden_data=saved)
    assert "fingerprint.json: saved for other specs" in result.error
    assert words in result.error


def test_another_direction_than_the_saved_one_is_told(recorded, saved):
    def kernel(a: float, x: InOut[torch.Tensor], y: Out[torch.Tensor]):
        axpy(a, x, y)

    result = run(kernel, axpy_specs(), golden_axpy, golden_data=saved)
    assert "x direction in, now inout" in result.error


def test_an_edited_golden_function_is_refused_and_none_is_not(recorded, saved):
    result = run(axpy, axpy_specs(), golden_axpy_edited, golden_data=saved)
    assert "fingerprint.json" in result.error
    assert run(axpy, axpy_specs(), golden_data=saved).passed


FACTOR = 1.0


def doubled(x):
    return x * FACTOR


def golden_by_helper(values):
    values["y"][:] = doubled(values["x"]) * values["a"]


@pytest.mark.parametrize("where", ["constant", "helper", "closure"])
def test_what_a_golden_function_names_is_part_of_its_source(recorded, monkeypatch, where):
    def made(by):
        def golden(values):
            values["y"][:] = values["x"] * values["a"] * by

        return golden

    golden = made(1.0) if where == "closure" else golden_by_helper
    data = run(axpy, axpy_specs(), golden, save_data=True).work_dir / "data"
    assert run(axpy, axpy_specs(), golden, golden_data=data).passed
    if where == "constant":
        monkeypatch.setitem(globals(), "FACTOR", 2.0)
    if where == "helper":
        monkeypatch.setitem(globals(), "doubled", lambda x: x + x)
    golden = made(2.0) if where == "closure" else golden_by_helper
    assert "changed since" in run(axpy, axpy_specs(), golden, golden_data=data).error


def test_a_folder_without_fingerprint_is_taken_on_trust(recorded, saved):
    (saved / "fingerprint.json").unlink()
    assert run(axpy, axpy_specs(), golden_axpy, golden_data=saved).passed


def test_a_plain_safetensors_file_is_read(recorded, saved):
    (saved / "fingerprint.json").unlink()
    save_file({"tensor": torch.ones(4, 8)}, saved / "in/x.safetensors")
    save_file({"tensor": torch.full((4, 8), 2.0)}, saved / "out/y.safetensors")
    assert run(axpy, axpy_specs(), golden_data=saved).passed


def test_the_work_folder_in_place_of_its_data_is_hinted_at(recorded, saved):
    result = run(axpy, axpy_specs(), golden_data=saved.parent)
    assert f"Did you mean {saved}?" in result.error


def test_the_data_of_another_run_is_not_overwritten(recorded, saved):
    result = run(axpy, axpy_specs(), golden_axpy, runtime_dir=saved.parent, save_data=True)
    assert "holds the data of another run" in result.error


DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
]


@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(0, 4), max_size=3),
    seed=st.integers(0, 2**31),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_tensor_comes_back_bit_for_bit(recorded, dtype, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    size = torch.empty(shape, dtype=dtype).numel() * dtype.itemsize
    noise = torch.randint(0, 2 if dtype == torch.bool else 256, (size,), generator=generator)
    tensor = noise.to(torch.uint8).view(dtype).reshape(shape)

    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        y.copy_(x)

    def same(actual, expected, **_options):
        return (
            torch.equal(
                actual.contiguous().view(-1).view(torch.uint8),
                expected.contiguous().view(-1).view(torch.uint8),
            ),
            "bits",
        )

    def golden(values):
        values["y"].copy_(values["x"])

    specs = [TensorSpec("x", shape, dtype, tensor), TensorSpec("y", shape, dtype)]
    first = run(kernel, specs, golden, compare_fn={"y": same}, save_data=True)
    assert first.passed, first.error
    again = run(kernel, specs, golden_data=first.work_dir / "data", compare_fn={"y": same})
    assert again.passed, again.error


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(torch.int64, 2**62), (torch.bool, True), (torch.bfloat16, 0.1), (torch.float32, -0.0)],
)
def test_any_scalar_comes_back(recorded, dtype, value):
    seen = []

    def kernel(s: float, y: Out[torch.Tensor]):
        seen.append(s)
        y.fill_(1)

    specs = [ScalarSpec("s", dtype, value), TensorSpec("y", [2], torch.float32)]
    data = run(kernel, specs, lambda v: v["y"].fill_(1), save_data=True).work_dir / "data"
    assert run(kernel, specs, golden_data=data).passed
    assert len({repr(each) for each in seen}) == 1
