"""Takes all the memory there is."""

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark

STEP = 64 << 20


@benchmark()
def test_memory(n):
    if n == HOSTILE:
        held = [bytearray(STEP) for _ in range(64)]
        return {"held": len(held)}
    return healthy()


def main():
    sweep(test_memory)


if __name__ == "__main__":
    main()
