"""Tensors on disk: what is written is read back, bit for bit, and nothing is evaluated."""

from __future__ import annotations

import pytest
import torch

from optest.cases import saved
from optest.errors import UsageError
from optest.test_common import benchmark, checkAllclose, run_perftest, tensor_dump, tensor_load

DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float8_e4m3fnuz,
    torch.float8_e8m0fnu,
    torch.float4_e2m1fn_x2,
    torch.int64,
    torch.uint16,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), ()], ids=str)
def test_round_trip(tmp_path, dtype, shape):
    size = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.randint(0, 2, (size,), dtype=torch.uint8)
    x = raw.view(dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)
    path = tensor_dump(x, "x", dir=str(tmp_path))
    y = tensor_load(path)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert torch.equal(y.reshape(-1).view(torch.uint8), x.reshape(-1).view(torch.uint8))


def test_a_view_is_stored_as_its_own_elements(tmp_path):
    base = torch.arange(10**6, dtype=torch.float32)
    path = tensor_dump(base[10:14], "view", dir=str(tmp_path))
    assert torch.equal(tensor_load(path), torch.tensor([10.0, 11, 12, 13]))
    assert (tmp_path / "view.safetensors").stat().st_size < 1000


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a b", "x\0"])
def test_names_that_could_leave_the_folder_are_refused(tmp_path, name):
    with pytest.raises(UsageError, match="use letters, digits"):
        tensor_dump(torch.ones(1), name, dir=str(tmp_path))


def test_files_that_are_no_dump_are_refused(tmp_path):
    broken = tmp_path / "x.safetensors"
    broken.write_bytes(b"\x80\x04not a tensor")
    with pytest.raises(UsageError, match="expected a safetensors file"):
        tensor_load(str(broken))
    with pytest.raises(UsageError, match="no such file"):
        tensor_load(str(tmp_path / "missing"))


def test_an_upstream_dump_is_read_and_its_meta_is_not_evaluated(tmp_path):
    x = torch.randn(2, 3, dtype=torch.bfloat16)
    (tmp_path / "x.bin").write_bytes(bytes(x.view(torch.uint8).flatten().tolist()))
    meta = tmp_path / "x.meta"
    meta.write_text("torch.Size([2, 3])\ntorch.bfloat16\n")
    assert torch.equal(tensor_load(str(tmp_path / "x.bin")), x)
    meta.write_text("__import__('os').system('false')\ntorch.bfloat16\n")
    with pytest.raises(UsageError, match=r"expected a line torch\.Size"):
        tensor_load(str(tmp_path / "x.bin"))


@pytest.mark.parametrize(
    ("text", "name"),
    [("a.py::t[m=1-k=../x]", "a.py_t_m=1-k=.._x_"), ("..", "_"), ("", "_"), ("x" * 500, "x" * 150)],
)
def test_safe_names(text, name):
    assert saved.safe_name(text) == name


def test_a_failing_case_leaves_its_tensors(check, monkeypatch, tmp_path):
    monkeypatch.setenv("OPTEST_SAVE_FAILED", str(tmp_path))

    @benchmark()
    def test_op(m):
        x = torch.arange(4.0)
        got, _ = run_perftest(lambda: x * 3)
        return {"err": checkAllclose(x * 2, got, msg="cpp: out", printLog=False)}

    test_op(1)
    folder = tmp_path / "test_dump.py_test_op_m=1_"
    from optest.cases.dump import load

    pair = load(folder / "cpp_out.safetensors")
    assert torch.equal(pair["reference"], torch.tensor([0.0, 2, 4, 6]))
    assert torch.equal(pair["candidate"], torch.tensor([0.0, 3, 6, 9]))
    assert torch.equal(load(folder / "inputs.safetensors")["tensor_0"], torch.arange(4.0))


def test_checks_of_one_name_keep_a_file_each(check, monkeypatch, tmp_path):
    monkeypatch.setenv("OPTEST_SAVE_FAILED", str(tmp_path / "kept"))

    @benchmark()
    def test_op(kind):
        got, _ = run_perftest(lambda: torch.zeros(4))
        for value, msg in enumerate(("a/b", "a:b", "a_b", "a_b-2", "", "inputs"), 1):
            checkAllclose(torch.full((4,), float(value)), got, msg=msg, printLog=False)
        return {"x": 1}

    from optest.cases.dump import load

    for kind in ("a/b", "a:b", "q" * 200 + "/"):
        test_op(kind)
    folders = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert len(folders) == 3
    assert folders[:2] == ["test_dump.py_test_op_kind=a_b_", "test_dump.py_test_op_kind=a_b_-2"]
    for folder in folders:
        kept = {path.stem: load(path) for path in (tmp_path / "kept" / folder).iterdir()}
        values = {name: int(pair["reference"][0]) for name, pair in kept.items() if len(pair) > 1}
        assert values == {"a_b": 1, "a_b-2": 2, "a_b-3": 3, "a_b-2-2": 4, "check": 5, "inputs": 6}


def test_a_folder_that_cannot_be_written_costs_no_verdict(check, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("OPTEST_SAVE_FAILED", str(blocked))
    assert not checkAllclose(torch.ones(3), torch.zeros(3), printLog=False).passed
    assert check.session.failures


def test_a_file_that_cannot_be_written_costs_no_verdict(check, monkeypatch, tmp_path):
    monkeypatch.setenv("OPTEST_SAVE_FAILED", str(tmp_path / "kept"))
    (tmp_path / "kept" / "outside" / "x.safetensors").mkdir(parents=True)
    assert not checkAllclose(torch.ones(3), torch.zeros(3), msg="x", printLog=False).passed
    with pytest.raises(OSError, match="directory"):
        tensor_dump(torch.ones(3), "x", dir=str(tmp_path / "kept" / "outside"))
