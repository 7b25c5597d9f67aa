"""What is only honest because the test declares it, or because of how the inputs lie."""

from __future__ import annotations

import torch

from honest.record import ITERS, Honest, M, N, always, plain
from optest.test_common import benchmark, checkAllclose, run_perftest


def run_inout(watch):
    """A running sum, updated in place."""

    @benchmark(inout=("total",))
    def test_inout():
        x, total = torch.randn(M, N), torch.randn(M, N)
        want = total.double().add(x).float()
        _, us = run_perftest(watch(lambda x, total: total.add_(x)), x, total, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, total)}

    return test_inout()


def run_inout_closure(watch):
    """The state is nobody's argument."""

    @benchmark(inout=("state",))
    def test_inout_closure():
        x, state = torch.randn(M, N), torch.randn(N)
        want = 0.9 * state + 0.1 * x.mean(0)

        def kernel(x):
            state.mul_(0.9).add_(x.mean(0), alpha=0.1)
            return x * state

        y, us = run_perftest(watch(kernel), x, num_iters=ITERS)
        checkAllclose(want, state)
        return {"us": us, "err": checkAllclose(x * want, y)}

    return test_inout_closure()


def run_view(watch):
    """A split of the fused projection: views of the input are the operator's result."""

    @benchmark(aliases=("qkv",))
    def test_view():
        qkv = torch.randn(M, 3 * N)
        want = qkv.clone().chunk(3, dim=-1)
        got, us = run_perftest(watch(lambda qkv: qkv.chunk(3, dim=-1)), qkv, num_iters=ITERS)
        errs = [checkAllclose(a, b, rtol=0, atol=0) for a, b in zip(want, got, strict=True)]
        return {"us": us, "err": max(errs)}

    return test_view()


def run_partly_view(watch):
    """One result is fresh, the other a view."""

    @benchmark(aliases=("x",))
    def test_partly_view():
        x = torch.randn(M, N)
        want = x[:, N // 2 :].clone(), x.exp()
        got, us = run_perftest(watch(lambda x: (x[:, N // 2 :], x.exp())), x, num_iters=ITERS)
        checkAllclose(want[0], got[0])
        return {"us": us, "err": checkAllclose(want[1], got[1])}

    return test_partly_view()


def run_unwritten(watch):
    """Room for the longest batch: what lies behind the valid rows is nobody's business."""

    @benchmark(unwritten=("y",))
    def test_unwritten():
        x, valid = torch.randn(M, N), M - 5
        want = x[:valid].exp()

        def kernel(x):
            y = torch.empty_like(x)
            y[:valid] = x[:valid].exp()
            return y

        y, us = run_perftest(watch(kernel), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y[:valid])}

    return test_unwritten()


def run_buffer_unwritten(watch):
    @benchmark(unwritten=("y",))
    def test_buffer_unwritten():
        x, y = torch.randn(M, N), torch.empty(2 * M, N)
        want = x.exp()
        _, us = run_perftest(watch(lambda x, y: y[:M].copy_(x.exp())), x, y, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y[:M])}

    return test_buffer_unwritten()


def run_stochastic(watch):
    """Stochastic rounding to bf16: right to within one step, never twice the same."""

    @benchmark(deterministic=False)
    def test_stochastic():
        x = torch.randn(M, N)

        def kernel(x):
            noise = torch.randint(0, 1 << 16, x.shape, dtype=torch.int32)
            return ((x.view(torch.int32) + noise) & -65536).view(torch.float32).bfloat16()

        y, us = run_perftest(watch(kernel), x, num_iters=ITERS)
        err = checkAllclose(x, y, rtol=2**-6, atol=1e-6, check_dtype=False)
        return {"us": us, "err": err}

    return test_stochastic()


def run_dropout_seed(watch):
    """The seed is an argument: the same seed drops the same elements."""

    @benchmark()
    def test_dropout_seed():
        x = torch.randn(M, N)

        def kernel(x, seed):
            generator = torch.Generator().manual_seed(seed)
            return x * torch.empty_like(x).bernoulli_(0.5, generator=generator) * 2

        generator = torch.Generator().manual_seed(7)
        want = x * torch.empty_like(x).bernoulli_(0.5, generator=generator) * 2
        y, us = run_perftest(watch(kernel), x, 7, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y)}

    return test_dropout_seed()


def run_dropout_generator(watch):
    """A generator as an argument: it moves on from call to call, so the test says so."""

    @benchmark(deterministic=False)
    def test_dropout_generator():
        x, generator = torch.randn(64, 256), torch.Generator().manual_seed(7)

        def kernel(x, generator):
            return x * torch.empty_like(x).bernoulli_(0.5, generator=generator) * 2

        y, us = run_perftest(watch(kernel), x, generator, num_iters=ITERS)
        kept = y != 0
        checkAllclose(torch.tensor(0.5), kept.float().mean(), atol=0.05)
        return {"us": us, "err": checkAllclose(2 * x[kept], y[kept])}

    return test_dropout_generator()


def run_columns(watch):
    """Columns of a wider buffer, for input and output; what lies between them is others'."""

    @benchmark()
    def test_columns():
        wide, result = torch.randn(M, 3 * N), torch.empty(M, 2 * N)
        x, y = wide[:, N : 2 * N], result[:, :N]
        want = x.double().exp().float()
        _, us = run_perftest(watch(lambda x, y: torch.exp(x, out=y)), x, y, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y)}

    return test_columns()


def run_parameters(watch):
    """A module whose weights want gradients, called as training calls it."""

    @benchmark()
    def test_parameters():
        layer, x = torch.nn.Linear(N, N), torch.randn(M, N)
        want = (x.double() @ layer.weight.double().t() + layer.bias.double()).float()
        y, us = run_perftest(watch(layer), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want.detach(), y.detach())}

    return test_parameters()


def run_backward(watch):
    """Autograd's own results: gradients that it allocates."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    @benchmark()
    def test_backward():
        x = torch.randn(M, N, requires_grad=True)
        want = 2 * x.detach()

        def kernel(x):
            return torch.autograd.grad(Square.apply(x).sum(), x)[0]

        grad, us = run_perftest(watch(kernel), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, grad)}

    return test_backward()


def run_two_stages(watch):
    """The second candidate reads what the first wrote, and a guard may not blank that."""

    @benchmark()
    def test_two_stages():
        x, middle, y = torch.randn(M, N), torch.empty(M, N), torch.empty(M, N)
        want = x.exp() + 1
        run_perftest(watch(lambda x, out: torch.exp(x, out=out)), x, middle, num_iters=ITERS)
        _, us = run_perftest(
            watch(lambda middle, out: torch.add(middle, 1, out=out)), middle, y, num_iters=ITERS
        )
        return {"us": us, "err": checkAllclose(want, y)}

    return test_two_stages()


def run_reference_later(watch):
    """The reference made after the kernel, of inputs that it left alone."""

    @benchmark()
    def test_reference_later():
        x = torch.randn(M, N)
        y, us = run_perftest(watch(torch.exp), x, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(x.double().exp().float(), y)}

    return test_reference_later()


def run_dicts(watch):
    """Arguments in containers."""

    @benchmark()
    def test_dicts():
        held = {"x": torch.randn(M, N), "weights": [torch.randn(N), torch.randn(N)]}
        want = held["x"] * held["weights"][0] + held["weights"][1]
        y, us = run_perftest(
            watch(lambda held: torch.addcmul(held["weights"][1], held["x"], held["weights"][0])),
            held,
            num_iters=ITERS,
        )
        return {"us": us, "err": checkAllclose(want, y)}

    return test_dicts()


def ids_only():
    return (torch.randint(0, 1000, (M, N)),)


def one_tensor_twice():
    x = torch.randn(M, N)
    return x, x.t()


HONEST = [
    Honest("an in-out running sum", run_inout),
    Honest("an in-out state of the closure", run_inout_closure),
    Honest("views declared", run_view),
    Honest("a view and a result", run_partly_view),
    Honest("rows never written", run_unwritten),
    Honest("half of a buffer never written", run_buffer_unwritten),
    Honest("stochastic rounding", run_stochastic),
    Honest("dropout by a seed", run_dropout_seed),
    Honest("dropout by a generator", run_dropout_generator),
    Honest("columns of wider buffers", run_columns),
    Honest("weights that want gradients", run_parameters),
    Honest("a backward pass", run_backward),
    Honest("two stages", run_two_stages),
    Honest("the reference later", run_reference_later),
    Honest("arguments in containers", run_dicts),
    Honest("integers alone", plain(
        always(lambda ids: ids * 2 + 1), lambda ids: ids + ids + 1, ids_only)),
    Honest("a broadcast input", plain(
        always(torch.exp), torch.exp, lambda: (torch.randn(1, N).expand(M, N),))),
    Honest("an input of zeros", plain(
        always(torch.exp), torch.exp, lambda: (torch.zeros(M, N),))),
    Honest("inputs that are one tensor", plain(
        always(torch.matmul), lambda a, b: (a.double() @ b.double()).float(),
        one_tensor_twice)),
]  # fmt: skip
