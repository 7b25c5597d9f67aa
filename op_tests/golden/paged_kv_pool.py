"""Writing keys into a paged pool as a golden test: mapped rows are compared, no other may change.

python op_tests/golden/paged_kv_pool.py
python op_tests/golden/paged_kv_pool.py -s 512,8,128
"""

import argparse

if __name__ == "__main__":
    from optest.golden.interpreter import interpret_without_gpu

    interpret_without_gpu()

import triton
import triton.language as tl

BLOCK_SIZE = 16  # tokens in a block, vLLM's default


@triton.jit
def write_pool_kernel(key, slots, pool, width, BLOCK: tl.constexpr):
    """Program i copies row i of key [tokens, width] to row slots[i] of the pool; -1 is padding."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token)
    if slot >= 0:
        columns = tl.arange(0, BLOCK)
        inside = columns < width
        value = tl.load(key + token * width + columns, mask=inside)
        tl.store(pool + slot * width + columns, value, mask=inside)


def golden_write_pool(values):
    key, slots, pool = values["key"], values["slots"], values["pool"]
    valid = slots >= 0
    pool.flatten(0, 1)[slots[valid]] = key[valid].reshape(-1, *pool.shape[2:])


def pool_blocks(tokens):
    return -(-2 * tokens // BLOCK_SIZE)


def build_tensor_specs(tokens, heads, head_size):
    import torch

    from optest.golden import ScalarSpec, TensorSpec

    blocks = pool_blocks(tokens)

    def init_slots():
        # Distinct rows in random order; the last eighth is padding of a captured batch.
        slots = torch.randperm(blocks * BLOCK_SIZE)[:tokens]
        slots[tokens - tokens // 8 :] = -1
        return slots

    pool = [blocks, BLOCK_SIZE, heads, head_size]
    return [
        TensorSpec("key", [tokens, heads, head_size], torch.bfloat16, init_value=torch.randn),
        TensorSpec("slots", [tokens], torch.int64, init_value=init_slots),
        TensorSpec("pool", pool, torch.bfloat16, init_value=torch.randn),
        ScalarSpec("width", torch.int32, heads * head_size),
    ]


def main():
    from optest import dtypes
    from optest.golden import TritonKernel, mapped_pool_ratio_allclose, run
    from optest.golden.flags import add_flags, run_options

    parser = argparse.ArgumentParser(formatter_class=argparse.RawTextHelpFormatter)
    add_flags(parser)
    # Key heads and their size: 8,128 in Llama-3.
    parser.add_argument(
        "-s",
        "--thd",
        type=dtypes.tuple_of(3, "tokens,heads,head_size"),
        nargs="+",
        default=[(40, 2, 64)],
    )
    args = parser.parse_args()

    for tokens, heads, head_size in args.thd:
        block = triton.next_power_of_2(heads * head_size)
        result = run(
            fn=TritonKernel(write_pool_kernel, (tokens,), constexprs={"BLOCK": block}),
            specs=build_tensor_specs(tokens, heads, head_size),
            golden_fn=golden_write_pool,
            compare_fn={
                "pool": mapped_pool_ratio_allclose(
                    "slots",
                    mapping_shape=[tokens],
                    block_size=BLOCK_SIZE,
                    # Rows are copied: every bit is the golden's.
                    atol=0,
                    rtol=0,
                    max_error_ratio=0,
                )
            },
            **run_options(args),
        )
        if not result.passed:
            raise SystemExit(result.error)


if __name__ == "__main__":
    main()
