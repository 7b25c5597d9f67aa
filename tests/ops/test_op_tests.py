"""The op tests themselves: what they take on the command line, and what they refuse to pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from op_scripts import FILES, NAMES, load, load_file

from optest import native, ops
from optest.log import logger

# What -s takes, where it is not m,n,k.
FORM = {
    "test_rmsnorm2d": "m,n",
    "test_layernorm2d": "m,n",
    "test_rmsnorm2d_fused_add_quant": "m,n",
    "test_smoothquant": "m,n",
    "test_rope": "tokens,heads,kv_heads",
    "test_fused_qk_norm_rope": "tokens,heads,kv_heads",
    "test_topk_softmax": "m,n",
    "test_grouped_topk": "m,n",
    "test_sampling": "m,n",
    "test_activation": "m,d",
    "test_kvcache": "tokens,heads,head_size",
    "test_pa_decode": "sequences,context",
    "test_mha": "sequences,queries,keys",
    "test_mla_decode": "sequences,context",
    "test_fused_moe": "tokens,hidden,inter",
    "test_causal_conv1d_update": "batch,dim",
    "test_gated_delta_rule": "sequences,size",
    "test_all_reduce": "m,n",
}
needs_csrc = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))


def test_all_six_are_here():
    assert len(FILES) >= 6


@pytest.mark.parametrize("name", NAMES)
def test_shape_of_the_file(name, scripts):
    module = load(name)
    assert scripts.session.ran == 0
    assert scripts.capsys.readouterr().out == ""
    assert callable(module.run_torch)
    assert "cpu" in module.SUPPORTED_GFX
    assert all(isinstance(word, str) for word in module.SMOKE)
    assert len(next(p for p in FILES if p.stem == name).read_text().splitlines()) <= 160


@pytest.mark.parametrize("name", NAMES)
def test_help(name, scripts):
    with pytest.raises(SystemExit) as ended:
        scripts.main(name, "-h")
    assert ended.value.code == 0
    assert "-d" in scripts.capsys.readouterr().out


BAD = [
    ("-d bf61", "'bf61'", "this op takes bf16, fp16, fp32"),
    ("-d i64", "'i64'", "this op takes bf16, fp16, fp32"),
    ("-d bf16,fp16", "'bf16,fp16'", "this op takes bf16, fp16, fp32, separated by blanks"),
    ("-d", "expected at least one argument", "bf16, fp16, fp32"),
    ("-s", "expected at least one argument", "{form}"),
    ("-s 4096", "'4096'", "expected {form}"),
    ("-s a,b,c", "'a,b,c'", "expected {form}"),
    ("-s -1,2,3", "'-1,2,3'", "expected {form}"),
    ("-s 1,2,3,4", "'1,2,3,4'", "expected {form}"),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad[0])
@pytest.mark.parametrize("name", NAMES)
def test_bad_values_are_one_line(name, bad, scripts):
    arguments, value, expected = bad
    line = scripts.usage_error(name, *arguments.split())
    assert value in line
    assert expected.format(form=FORM.get(name, "m,n,k")) in line


@needs_csrc
@pytest.mark.parametrize("name", NAMES)
def test_smoke_passes(name, scripts):
    module = load(name)
    tables = scripts.main(name, *module.SMOKE, module=module)
    assert scripts.session.ran > 0
    assert scripts.session.failures == []
    assert "| gfx" in tables
    assert " err |" in tables


@needs_csrc
@pytest.mark.parametrize("spelling", ["bf16,", "BF16", "bfloat16", "torch.bfloat16"])
def test_spellings_of_bf16(spelling, scripts):
    table = scripts.main("test_activation", "-d", spelling, "-s", "3,8", "--act", "silu")
    assert scripts.session.failures == []
    assert "| bf16 " in table


@needs_csrc
@pytest.mark.parametrize("name", NAMES)
def test_ragged_and_empty_shapes(name, scripts):
    module = load(name)
    arity = FORM.get(name, "m,n,k").count(",") + 1
    sizes = [(1, 1, 1), (7, 129, 127), (0, 5, 7), (3, 0, 5), (3, 5, 0)]
    shapes = dict.fromkeys(",".join(map(str, some[:arity])) for some in sizes)
    scripts.main(name, "-d", "bf16", "fp16", "fp32", "-s", *shapes, module=module)
    assert scripts.session.failures == []


@pytest.mark.parametrize("name", NAMES)
def test_gated_on_an_unknown_card(name, scripts, monkeypatch):
    monkeypatch.setenv("OPTEST_GFX", "gfx906")
    warned = []
    monkeypatch.setattr(logger, "warning", lambda message, *_: warned.append(message))
    assert scripts.main(name) == ""
    assert len(warned) == 1
    assert scripts.session.ran == 0


# Wrong kernels: the tensors that each wrapper writes, as positions or keywords of its call.
WRITES = {
    ("test_quant", "quant", "static_per_tensor_quant"): ("out",),
    ("test_quant", "quant", "dynamic_per_tensor_quant"): ("out", "scale"),
    ("test_quant", "quant", "dynamic_per_token_quant"): ("out", "scales"),
    ("test_quant", "quant", "dynamic_per_group_quant"): ("out", "scales"),
    ("test_rmsnorm2d", "norm", "rmsnorm"): ("out",),
    ("test_rmsnorm2d", "norm", "fused_add_rmsnorm"): (0, 1),
    ("test_layernorm2d", "layernorm", "layernorm"): ("out",),
    # Not its scales, which are known to a few steps of fp32: one step off is right.
    ("test_rmsnorm2d_fused_add_quant", "norm_quant", "fused_add_rmsnorm_quant"): ("out", 1),
    ("test_smoothquant", "norm_quant", "smoothquant"): ("out", "scales"),
    ("test_rope", "rope", "rope"): (0, 1),
    ("test_fused_qk_norm_rope", "rope", "fused_qk_norm_rope"): (0, 1),
    ("test_activation", "activation", "silu_and_mul"): ("out",),
    ("test_activation", "activation", "gelu_and_mul"): ("out",),
    ("test_activation", "activation", "gelu_tanh_and_mul"): ("out",),
    ("test_kvcache", "cache", "reshape_and_cache"): (2, 3),
    ("test_pa_decode", "attention", "pa_decode"): ("out",),
    ("test_mha", "sdpa", "mha"): ("out",),
    ("test_mla_decode", "attention", "mla_decode"): ("out",),
    # Not that of bf16 itself, whose roundings on the way come to more than one step.
    ("test_fused_moe", "fused_moe", "fused_moe_a8w8"): ("out",),
    ("test_causal_conv1d_update", "conv1d", "causal_conv1d_update"): (1, "out"),
    # Not its states, fp32 sums in any order: one step off is right.
    ("test_gated_delta_rule", "delta_rule", "gated_delta_rule"): ("out",),
    ("test_topk_softmax", "routing", "topk_softmax"): ("ids",),
    ("test_grouped_topk", "routing", "grouped_topk"): ("ids",),
    ("test_topk_per_row", "topk", "topk_per_row"): ("out",),
    ("test_sampling", "sampling", "sampling"): ("out",),
}


def zeroed(right, _before):
    return torch.zeros_like(right)


def unwritten(_right, before):
    return before


def last_row_unwritten(right, before):
    return torch.cat([right[:-1], before[-1:]])


def last_element_off(right, _before):
    wrong = right.clone()
    last = wrong.view(-1)[-1:]
    last.copy_((last.float() * 4 + 1).to(last.dtype))
    return wrong


def one_nan(right, before):
    if not right.dtype.is_floating_point:
        return last_element_off(right, before)
    wrong = right.clone()
    wrong.view(-1)[0] = torch.nan
    return wrong


def doubled(right, _before):
    return (right.float() * 2).to(right.dtype)


def one_step_off(right, _before):
    """Every value the next one of its format: what truncating instead of rounding does to half."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[right.dtype.itemsize]
    return (right.view(bits) - 1).view(right.dtype)


MUTANTS = [
    zeroed,
    unwritten,
    last_row_unwritten,
    last_element_off,
    one_nan,
    doubled,
    one_step_off,
]


def spoil(function, where, mutant):
    """``function``, after which what it wrote at ``where`` is replaced by a mutant of it."""

    def wrong(*args, **kwargs):
        held = kwargs[where] if isinstance(where, str) else args[where]
        before = held.clone()
        result = function(*args, **kwargs)
        held.copy_(mutant(held.clone(), before))
        return result

    return wrong


@needs_csrc
@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize(
    ("kernel", "where"),
    [(kernel, where) for kernel, places in WRITES.items() for where in places],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_wrong_kernel_fails(kernel, where, mutant, scripts):
    name, family, operator = kernel
    module, home = load(name), getattr(ops, family)
    wrong = spoil(getattr(home, operator), where, mutant)
    scripts.monkeypatch.setattr(home, operator, wrong)
    scripts.main(name, *module.SMOKE, module=module)
    assert scripts.session.failures, f"{operator} with a {mutant.__name__} result passed"


GEMMS = [
    ("test_gemm_a16w16", "mm", []),
    ("test_batched_gemm_bf16", "bmm", ["--layout", "bmn"]),
    ("test_batched_gemm_bf16", "bmm", ["--layout", "mbn"]),
]


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("gemm", GEMMS, ids=lambda gemm: " ".join((gemm[0], *gemm[2])))
def test_a_wrong_gemm_fails(gemm, mutant, scripts):
    name, operator, layout = gemm
    module, right = load(name), getattr(torch, operator)

    def wrong(*args, out=None):
        return right(*args) if out is None else spoil(right, "out", mutant)(*args, out=out)

    scripts.monkeypatch.setattr(torch, operator, wrong)
    scripts.main(name, *module.SMOKE, *layout, module=module)
    assert scripts.session.failures, f"{operator} with a {mutant.__name__} result passed"


def leaves_alone(function, where):
    """``function`` on copies of what it writes: its result in fp32, the caller's buffers as given.

    What a wrapper does that ignores ``out``: a model that reads its buffer gets stale memory.
    """

    def wrong(*args, **kwargs):
        args = [arg.clone() if at in where else arg for at, arg in enumerate(args)]
        kwargs = {name: arg.clone() if name in where else arg for name, arg in kwargs.items()}
        result = function(*args, **kwargs)
        if isinstance(result, tuple):
            return tuple(tensor.float() for tensor in result)
        return result.float()

    return wrong


@needs_csrc
@pytest.mark.parametrize("kernel", WRITES, ids="-".join)
def test_a_kernel_that_leaves_its_buffers_alone_fails(kernel, scripts):
    name, family, operator = kernel
    module, home = load(name), getattr(ops, family)
    wrong = leaves_alone(getattr(home, operator), WRITES[kernel])
    scripts.monkeypatch.setattr(home, operator, wrong)
    scripts.main(name, *module.SMOKE, module=module)
    assert scripts.session.failures, f"{operator} passed without a write to its buffers"


@needs_csrc
def test_the_buffer_counts_where_calls_are_timed_too(scripts):
    """There it holds what the last timed call wrote: here nothing, and poison remains."""
    scripts.session.mode = "run"
    scripts.monkeypatch.setenv("OPTEST_BUDGET_S", "0.05")
    module, home = load("test_activation"), ops.activation
    smoke = [*module.SMOKE, "--act", "silu"]
    scripts.main("test_activation", *smoke, module=module)
    assert scripts.session.failures == []
    scripts.monkeypatch.setattr(home, "silu_and_mul", leaves_alone(home.silu_and_mul, ("out",)))
    scripts.main("test_activation", *smoke, module=module)
    assert scripts.session.failures


@pytest.mark.parametrize("gemm", GEMMS, ids=lambda gemm: " ".join((gemm[0], *gemm[2])))
def test_a_gemm_that_leaves_its_buffer_alone_fails(gemm, scripts):
    name, operator, layout = gemm
    module, right = load(name), getattr(torch, operator)
    # The reference calls it too, without a buffer.
    wrong = lambda *args, out=None: right(*args) if out is None else right(*args).float()
    scripts.monkeypatch.setattr(torch, operator, wrong)
    scripts.main(name, *module.SMOKE, *layout, module=module)
    assert scripts.session.failures


@pytest.mark.parametrize("name", ["test_gemm_a16w16", "test_batched_gemm_bf16"])
def test_a_result_of_another_dtype_fails(name, scripts):
    """The values are right, and fp32 instead of bf16 is twice the memory of what follows."""
    module, right = load(name), torch.einsum
    scripts.monkeypatch.setattr(torch, "einsum", lambda *args: right(*args).float())
    scripts.main(name, *module.SMOKE, module=module)
    reasons = [failure.reason for failure in scripts.session.failures]
    assert reasons
    assert all("want bfloat16, got float32" in reason for reason in reasons)


@needs_csrc
def test_the_example_of_the_documentation_runs(scripts, tmp_path):
    guide = (Path(__file__).parents[2] / "docs/writing-an-op-test.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    path = tmp_path / "test_silu.py"
    path.write_text(example)
    module = load_file(path)
    table = scripts.main("test_silu", *module.SMOKE, module=module)
    assert scripts.session.failures == []
    assert "cpp err" in table
