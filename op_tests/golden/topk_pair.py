"""Top-k values and their indices as a golden test: ties may come in any order, misses may not.

python op_tests/golden/topk_pair.py
python op_tests/golden/topk_pair.py -s 64,4096,8
"""

import argparse

if __name__ == "__main__":
    from optest.golden.interpreter import interpret_without_gpu

    interpret_without_gpu()

import triton
import triton.language as tl


@triton.jit
def topk_kernel(scores, vals, idx, n, k, BLOCK: tl.constexpr):
    """Program i writes the k largest of row i of scores [m, n], largest first."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    left = tl.load(scores + row * n + columns, mask=columns < n, other=-float("inf"))
    for rank in range(k):
        best = tl.max(left, 0)
        at = tl.argmax(left, 0)
        tl.store(vals + row * k + rank, best)
        tl.store(idx + row * k + rank, at.to(tl.int32))
        left = tl.where(columns == at, -float("inf"), left)


def golden_topk(values):
    import torch

    vals, idx = torch.topk(values["scores"], values["k"], dim=-1)
    values["vals"][:] = vals
    values["idx"][:] = idx.to(torch.int32)


def build_tensor_specs(m, n, k):
    import torch

    from optest.golden import ScalarSpec, TensorSpec

    def init_scores():
        # In steps of 1/16, as a router's bf16 logits are: rows hold equal scores.
        return (torch.randn(m, n) * 16).round() / 16

    return [
        TensorSpec("scores", [m, n], torch.float32, init_value=init_scores),
        TensorSpec("vals", [m, k], torch.float32),
        TensorSpec("idx", [m, k], torch.int32),
        ScalarSpec("n", torch.int32, n),
        ScalarSpec("k", torch.int32, k),
    ]


def main():
    from optest import dtypes
    from optest.golden import TritonKernel, run, topk_pair_compare
    from optest.golden.flags import add_flags, run_options

    parser = argparse.ArgumentParser(formatter_class=argparse.RawTextHelpFormatter)
    add_flags(parser)
    # n is experts: 256 in DeepSeek-V3; k those that a token goes to.
    parser.add_argument(
        "-s", "--mnk", type=dtypes.tuple_of(3, "m,n,k"), nargs="+", default=[(16, 256, 8)]
    )
    args = parser.parse_args()

    for m, n, k in args.mnk:
        result = run(
            fn=TritonKernel(topk_kernel, (m,), constexprs={"BLOCK": triton.next_power_of_2(n)}),
            specs=build_tensor_specs(m, n, k),
            golden_fn=golden_topk,
            rtol=0,  # values are copied, not computed
            atol=0,
            compare_fn={"idx": topk_pair_compare("vals")},
            **run_options(args),
        )
        if not result.passed:
            raise SystemExit(result.error)


if __name__ == "__main__":
    main()
