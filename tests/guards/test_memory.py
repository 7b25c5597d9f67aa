"""Guard bytes and guard pages: what is seen, what is left alone, what must not break by them."""

from __future__ import annotations

import copy
import ctypes
import json
import subprocess
import sys
import threading

import pytest
import torch

from optest import native
from optest.guards import growth, memory, poison
from optest.guards.memory import Guard

pytestmark = [
    pytest.mark.skipif(not native.available(), reason=str(native.why_not())),
    pytest.mark.usefixtures("nothing_before"),
]
GUARDS = [Guard.BYTES, Guard.PAGES]
needs_pages = pytest.mark.skipif(sys.platform != "linux", reason="guard pages are Linux's")
NBYTES = 2048


def guarded(nbytes=NBYTES, guard=Guard.BYTES):
    with memory.switched(None, guard):
        return torch.zeros(nbytes, dtype=torch.uint8)


PREAMBLE = "import ctypes, faulthandler, os, torch\nfrom optest.guards import memory\n"


def run(script, *arguments):
    """A process of its own: what is tested there may kill it, or change it for good."""
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("offset", "count", "side", "first", "last"),
    [
        (NBYTES, 1, "after", NBYTES, NBYTES),
        (NBYTES, 12, "after", NBYTES, NBYTES + 11),
        (NBYTES + 200, 8, "after", NBYTES + 200, NBYTES + 207),
        (NBYTES - 8, 9, "after", NBYTES, NBYTES),
        (-1, 1, "before", -1, -1),
        (-200, 16, "before", -200, -185),
        (-3, 10, "before", -3, -1),
    ],
)
def test_bytes_written_outside_a_block_are_told_once(overrun, offset, count, side, first, last):
    block = guarded()
    overrun.put(block, offset, count, 0x11)
    (damage,) = memory.damages()
    assert damage.data_ptr == block.data_ptr()
    assert (damage.nbytes, damage.side) == (NBYTES, side)
    assert (damage.first, damage.last) == (first, last)
    assert damage.count == last - first + 1
    assert memory.damages() == []
    overrun.put(block, offset, count, 0x11)
    assert len(memory.damages()) == 1, "the zone was not put in order"


@pytest.mark.parametrize("nbytes", [1, 2, 7, 63, 64, 65, 1000, 4096, 100_003])
@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_the_byte_right_behind_and_right_before_is_guarded_at_any_size(overrun, nbytes, guard):
    block = guarded(nbytes, guard)
    overrun.put(block, nbytes, 1, 0x11)
    overrun.put(block, -1, 1, 0x11)
    assert {d.side for d in memory.damages()} | {f.side for f in memory.faults()} == {
        "before",
        "after",
    }


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_what_stays_inside_is_not_told(overrun, guard):
    for nbytes in (1, 3, 64, 100, 4096, 70_000):
        block = guarded(nbytes, guard)
        overrun.put(block, 0, nbytes, 0x11)
        assert (block == 0x11).all()
    assert memory.damages() == []
    assert memory.faults() == []


@pytest.mark.parametrize("byte", [poison.FIRST, poison.SECOND, 0x00])
def test_poison_and_zeros_over_canaries_show(overrun, byte):
    block = guarded()
    overrun.put(block, NBYTES, 2, byte)
    assert len(memory.damages()) == 1


def test_a_kernel_that_copies_one_element_too_many_is_seen_at_every_place(overrun):
    """Were all canaries alike, it would put a right one where one was."""
    with memory.switched(None, Guard.BYTES):
        blocks = torch.zeros(2, 50, 100, dtype=torch.float64).unbind()
        pairs = [(x.clone(), y.clone()) for x, y in zip(*blocks, strict=True)]
    for x, y in pairs:
        overrun.copy_too_many(x, y)
    assert {d.data_ptr for d in memory.damages()} == {y.data_ptr() for _, y in pairs}


def test_a_kernel_that_shifts_what_is_outside_is_seen():
    block = guarded()
    ctypes.memmove(block.data_ptr() + NBYTES, block.data_ptr() + NBYTES + 8, 128)
    assert len(memory.damages()) == 1
    ctypes.memmove(block.data_ptr() + NBYTES, block.data_ptr() + NBYTES + 64, 128)
    assert len(memory.damages()) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_what_is_read_outside_is_nan(dtype):
    """So that a kernel which uses it gives a result that no check passes."""
    with memory.switched(None, Guard.BYTES):
        block = torch.zeros(100, dtype=dtype)
    for address in (block.data_ptr() + block.nbytes, block.data_ptr() - 256):
        outside = bytearray(ctypes.string_at(address, 256))
        assert torch.frombuffer(outside, dtype=dtype).isnan().all()


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_damage_of_a_block_that_was_freed_is_told(overrun, guard):
    block = guarded(100, guard)
    address = block.data_ptr()
    overrun.put(block, 100, 3, 0x11)
    del block
    (damage,) = memory.damages([])
    assert (damage.data_ptr, damage.nbytes, damage.first) == (address, 100, 100)


def test_only_the_blocks_asked_for_are_looked_at(overrun):
    one, other = guarded(), guarded()
    overrun.put(one, NBYTES, 1, 0x11)
    assert memory.damages([other.data_ptr()]) == []
    assert len(memory.damages([other.data_ptr(), one.data_ptr()])) == 1


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_data_is_aligned_and_poisoned_throughout(guard):
    with memory.switched(0x7F, guard):
        blocks = [torch.empty(n, dtype=torch.uint8) for n in (*range(1, 130), 4095, 4096, 99_999)]
    assert {b.data_ptr() % 64 for b in blocks} == {0}
    assert all(bool((b == 0x7F).all()) for b in blocks)
    assert memory.damages() == []


@pytest.mark.parametrize("extra", [-1, 0, 1, 4097])
def test_a_block_that_two_threads_fill_has_no_gap(extra):
    with memory.switched(0x7F, memory.Guard.BYTES):
        block = torch.empty((8 << 20) + extra, dtype=torch.uint8)
    assert bool((block == 0x7F).all())
    assert memory.damages() == []


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_an_empty_tensor_has_no_memory_to_guard(guard):
    before = memory.live_bytes()
    block = guarded(0, guard)
    assert block.untyped_storage().data_ptr() == 0
    assert memory.live_bytes() == before


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_a_storage_that_grows_takes_its_guards_along(overrun, guard):
    with memory.switched(None, guard):
        block = torch.arange(100, dtype=torch.uint8)
        block.resize_(5000)
    assert block[:100].tolist() == list(range(100))
    overrun.put(block, 5000, 1, 0x11)
    found = [*memory.damages(), *memory.faults()]
    assert [(f.data_ptr, f.nbytes) for f in found] == [(block.data_ptr(), 5000)]


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_memory_in_use_grows_by_what_lies_between_pages_too(guard):
    """Whether a kernel keeps its results is seen by that, and the C library knows of no pages."""
    guarded(1, guard)
    before = growth.in_use()
    kept = guarded(1 << 20, guard)
    assert 0.99 < (growth.in_use() - before) / kept.nbytes < 1.1


@pytest.mark.parametrize("made_with", Guard, ids=str)
@pytest.mark.parametrize("freed_with", Guard, ids=str)
def test_bare_addresses_are_freed_whatever_is_on(overrun, made_with, freed_with):
    guarded(1)  # installs the allocator
    size = 1 << 20
    in_use, live = growth.in_use(), memory.live_bytes()
    for _ in range(20):
        with memory.switched(None, made_with):
            address = overrun.raw_allocate(size)
        assert memory.live_bytes() - live == (size if made_with else 0)
        with memory.switched(None, freed_with):
            overrun.raw_deallocate(address)
    assert memory.live_bytes() == live
    assert growth.in_use() - in_use < size


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_live_bytes_are_counted_exactly(guard):
    before, of_these = memory.live_bytes(), memory.live_bytes(guard)
    one, other = guarded(1000, guard), guarded(24, guard)
    assert memory.live_bytes() == before + 1024
    assert memory.live_bytes(guard) == of_these + 1024
    clone = one.clone()
    assert memory.live_bytes() == before + 1024, "it was made with guards off"
    del one
    assert memory.live_bytes() == before + 24
    del other, clone
    assert memory.live_bytes() == before


def test_switched_off_nothing_is_guarded_and_what_was_stays_so(overrun):
    with memory.switched(None, Guard.BYTES):
        block = torch.zeros(NBYTES, dtype=torch.uint8)
        with memory.switched(None, Guard.NONE):
            plain = torch.zeros(NBYTES, dtype=torch.uint8)
    assert memory.is_guarded(block.data_ptr())
    assert not memory.is_guarded(plain.data_ptr())
    overrun.put(block, NBYTES, 1, 0x11)
    assert len(memory.damages()) == 1


def test_poisoned_memory_is_guarded_and_unpoisoned_is_not(monkeypatch):
    with poison.fresh_memory_poisoned():
        assert memory.is_guarded(torch.empty(4).data_ptr())
        with poison.fresh_memory_poisoned(None):
            assert not memory.is_guarded(torch.empty(4).data_ptr())
        assert memory.is_guarded(torch.empty(4).data_ptr())
    monkeypatch.setenv("OPTEST_GUARD_PAGES", "1")
    with poison.fresh_memory_poisoned():
        block = torch.empty(4096, dtype=torch.uint8)
    assert block.data_ptr() % 4096 == 0


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_what_torch_does_with_memory_still_works(guard):
    with memory.switched(0x7F, guard):
        x = torch.randn(64, 64)
        assert torch.equal(copy.deepcopy(x), x)
        assert torch.equal(torch.from_numpy(x.numpy()), x)
        lazy = torch._lazy_clone(x)
        lazy += 1
        assert torch.equal(lazy, x + 1)
        assert torch.equal(x.clone().share_memory_(), x)
        assert torch.allclose(x @ x, (x.double() @ x.double()).float(), atol=1e-3)
        assert torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3]).isfinite().all()
        grad = x.clone().requires_grad_()
        (grad * 2).sum().backward()
        assert (grad.grad == 2).all()
    assert memory.damages() == []
    assert memory.faults() == []


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_threads_allocate_and_free_each_others_blocks(guard):
    before = memory.live_bytes()
    handed = []

    def work():
        for n in range(1, 300):
            handed.append(torch.zeros(n))
            if n % 3 == 0:
                handed.pop(0)

    with memory.switched(0x7F, guard):
        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert memory.damages() == []
    handed.clear()
    assert memory.live_bytes() == before


def test_a_forked_child_goes_on_while_another_thread_allocates():
    done = run(
        """
import threading
stop = []
def work():
    while not stop:
        torch.empty(10)
with memory.switched(0x7F, memory.Guard.BYTES):
    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(100):
        child = os.fork()
        if child == 0:
            x = torch.empty(10)
            ctypes.memset(x.data_ptr() + 40, 1, 1)
            os._exit(len(memory.damages([x.data_ptr()])))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    stop.append(1)
    thread.join()
assert memory.damages() == []
"""
    )
    assert done.returncode == 0, done.stderr


@needs_pages
def test_reads_and_writes_past_pages_are_told_and_the_kernel_goes_on(overrun):
    block = guarded(NBYTES, Guard.PAGES)
    overrun.get(block, NBYTES + 10)
    overrun.get(block, NBYTES + 20)
    overrun.put(block, NBYTES + 30, 100, 1)
    overrun.put(block, -5000, 1, 1)
    seen = {(f.offset, f.access) for f in memory.faults()}
    assert seen == {(NBYTES + 10, "read"), (NBYTES + 30, "wrote"), (-5000, "wrote")}
    assert memory.faults() == []
    overrun.get(block, NBYTES + 60_000)
    (fault,) = memory.faults()
    assert (fault.data_ptr, fault.nbytes, fault.side) == (block.data_ptr(), NBYTES, "after")


@needs_pages
def test_a_write_that_comes_first_hides_no_later_call(overrun):
    block = guarded(NBYTES, Guard.PAGES)
    overrun.put(block, NBYTES, 1, 1)
    overrun.get(block, NBYTES)
    assert [f.access for f in memory.faults()] == ["wrote"]
    overrun.get(block, NBYTES)
    assert [f.access for f in memory.faults()] == ["read"], "the pages were not closed again"


@needs_pages
def test_a_fault_in_any_thread_is_told(overrun):
    block = guarded(NBYTES, Guard.PAGES)
    overrun.put_in_thread(block, NBYTES)
    assert [f.access for f in memory.faults()] == ["wrote"]
    with memory.switched(None, Guard.PAGES):
        blocks = [torch.zeros(NBYTES, dtype=torch.uint8) for _ in range(64)]
    overrun.read_ends(torch.tensor([b.data_ptr() for b in blocks]), NBYTES)
    faults = memory.faults()
    assert {f.data_ptr for f in faults} == {b.data_ptr() for b in blocks}
    assert {(f.offset, f.access) for f in faults} == {(NBYTES, "read")}


@needs_pages
def test_a_fault_of_a_block_that_was_freed_is_told(overrun):
    block = guarded(NBYTES, Guard.PAGES)
    overrun.get(block, NBYTES)
    del block
    assert [f.nbytes for f in memory.faults()] == [NBYTES]


@needs_pages
def test_a_vector_read_within_the_alignment_is_none(overrun):
    block = guarded(NBYTES + 4, Guard.PAGES)
    overrun.get(block, NBYTES + 63)
    assert memory.faults() == []
    overrun.get(block, NBYTES + 64)
    assert len(memory.faults()) == 1


@needs_pages
def test_too_many_blocks_get_bytes_and_that_is_said(overrun, monkeypatch):
    said = []
    monkeypatch.setattr(memory, "once", lambda message, _level: said.append(message))
    with memory.switched(None, Guard.PAGES):
        blocks = [torch.empty(1, dtype=torch.uint8) for _ in range(5000)]
    assert memory.faults() == []
    assert len(said) == 1
    assert "guard bytes instead of guard pages" in said[0]
    overrun.put(blocks[-1], 1, 1, 0x11)
    assert len(memory.damages()) == 1
    del blocks
    guarded(NBYTES, Guard.PAGES)
    memory.faults()
    assert len(said) == 1, "mappings were not given back"


PAGES = "x = guarded()\n"
CRASH = "ctypes.string_at(8, 1)\n"
HANDLER = "faulthandler.enable()\n"
KILL = "os.kill(os.getpid(), signal.SIGSEGV)\n"
OURS = "ctypes.memset(x.data_ptr() + 64, 1, 1)\nassert len(memory.faults()) == 1\n"
# name -> script, exit code, tracebacks
PROCESSES = {
    "another address": (PAGES + CRASH, -11, 0),
    "faulthandler before": (HANDLER + PAGES + CRASH, -11, 1),
    "faulthandler after": (PAGES + HANDLER + CRASH, -11, 1),
    "faulthandler before and after": (HANDLER + PAGES + HANDLER + PAGES + CRASH, -11, 1),
    "faulthandler between": (PAGES + HANDLER + PAGES + CRASH, -11, 1),
    "in a thread": (HANDLER + PAGES + "in_thread(lambda: ctypes.string_at(8, 1))\n", -11, 1),
    "sent": (PAGES + KILL, -11, 0),
    "far away": (PAGES + "ctypes.string_at(x.data_ptr() + (1 << 30), 1)\n", -11, 0),
    "freed": (PAGES + "p = x.data_ptr()\ndel x\nctypes.string_at(p, 1)\n", -11, 0),
    "ignored": ("signal.signal(signal.SIGSEGV, signal.SIG_IGN)\n" + PAGES + KILL, 0, 0),
    "ours, faulthandler between": (PAGES + HANDLER + PAGES + OURS, 0, 0),
    "ours": (HANDLER + PAGES + OURS, 0, 0),
}
IN_CHILDREN = """
import json, pathlib, signal, sys, threading
scripts, folder = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2])

def guarded():
    with memory.switched(None, memory.Guard.PAGES):
        return torch.zeros(4)

def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()

memory.allocator()
found = {}
for number, (name, script) in enumerate(scripts.items()):
    path = folder / str(number)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), 2)
        exec(script)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found[name] = code, path.read_text()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """How each of PROCESSES ended, and what it said; children of one process, for torch is slow."""
    scripts = {name: script for name, (script, _, _) in PROCESSES.items()}
    folder = str(tmp_path_factory.mktemp("stderr"))
    done = run(IN_CHILDREN, json.dumps(scripts), folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_pages
@pytest.mark.parametrize("name", PROCESSES)
def test_a_fault_that_is_not_ours_goes_where_it_went_before(ended, name):
    code, said = ended[name]
    _, expected, tracebacks = PROCESSES[name]
    assert code == expected, said
    assert said.count("Fatal Python error") == tracebacks, said
