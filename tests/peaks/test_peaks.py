"""Ceilings: right working sets, honest kernels, what is missing named, all kept in the store."""

from __future__ import annotations

import json
import math
import time
import types

import pytest
import torch
from store_examples import PLACE
from typer.testing import CliRunner

from optest import native
from optest.cli.main import app
from optest.errors import RefusedError
from optest.peaks import course, cpu_memory, gpu_memory, launch, levels, matrix, published, table
from optest.peaks.doubts import doubts
from optest.peaks.effort import Effort, fastest_us
from optest.peaks.found import Found
from optest.peaks.levels import Level, WorkingSet
from optest.peaks.matrix import Product
from optest.store import Store
from optest.store.records import Ceiling, Peaks, Place
from optest.sweep.places import here
from optest.timing.clock import Reading
from optest.timing.threads import threads
from optest.timing.wall import WallClock

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
QUICK = Effort(budget_s=0.01, memory_bytes=8 * MIB, longest_s=0.002)


def quiet(what):
    """Progress that nobody reads."""


# ---- levels ------------------------------------------------------------------------------------


def plant(root, cpu, index, **facts):
    folder = root / "devices/system/cpu" / f"cpu{cpu}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, value in facts.items():
        (folder / name).write_text(f"{value}\n")


@pytest.fixture
def server(tmp_path):
    """Two cores with two threads each, and one L3 between them."""
    for cpu in range(4):
        core = cpu % 2
        pair = f"{core},{core + 2}"
        plant(tmp_path, cpu, 0, type="Data", level=1, size="48K", shared_cpu_list=pair)
        plant(tmp_path, cpu, 1, type="Instruction", level=1, size="32K", shared_cpu_list=pair)
        plant(tmp_path, cpu, 2, type="Unified", level=2, size="2048K", shared_cpu_list=pair)
        plant(tmp_path, cpu, 3, type="Unified", level=3, size="32M", shared_cpu_list="0-3")
    return tmp_path


def test_caches_are_counted_by_who_shares_them(server):
    assert levels.read(server, {0, 1, 2, 3}) == [
        Level(1, 48 * KIB, 2),
        Level(2, 2 * MIB, 2),
        Level(3, 32 * MIB, 1),
    ]
    assert levels.read(server, {0, 2}) == [  # two threads of one core
        Level(1, 48 * KIB, 1),
        Level(2, 2 * MIB, 1),
        Level(3, 32 * MIB, 1),
    ]


@pytest.mark.parametrize(
    "facts",
    [
        {"type": "Data", "level": 1},
        {"type": "Data", "level": "x", "size": "48K"},
        {"type": "Data", "level": 1, "size": "48 KB"},
        {"type": "Data", "level": 1, "size": "0K"},
    ],
)
def test_a_cache_that_is_not_told_whole_is_left_out(tmp_path, facts):
    plant(tmp_path, 0, 0, **facts)
    assert levels.read(tmp_path, {0}) == []


def test_a_system_that_tells_nothing_has_no_levels(tmp_path):
    assert levels.read(tmp_path / "none", {0}) == []


def test_where_sharing_is_not_told_each_core_has_its_own(tmp_path):
    for cpu in (0, 1):
        plant(tmp_path, cpu, 0, type="Data", level=1, size="32K")
    assert levels.read(tmp_path, {0, 1}) == [Level(1, 32 * KIB, 2)]


@pytest.mark.parametrize("count", [1, 4])
def test_a_working_set_fits_its_level_and_not_the_one_before(server, count):
    caches = levels.read(server, {0, 1, 2, 3})
    sets = levels.working_sets(caches, count, 64 * GIB)
    assert [each.name for each in sets] == ["L1", "L2", "L3", "memory"]
    many = [each.nbytes * (each.instances if count > 1 else 1) for each in caches]
    for each, before, own in zip(sets, [0, *many], [*many, math.inf], strict=True):
        assert before < each.nbytes < own
        assert each.nbytes % (4096 * count) == 0
    assert sets[-1].nbytes == 4 * 32 * MIB


def test_all_threads_fill_all_the_caches_of_a_level_together(server):
    caches = levels.read(server, {0, 1, 2, 3})
    one = {each.name: each.nbytes for each in levels.working_sets(caches, 1, 64 * GIB)}
    four = {each.name: each.nbytes for each in levels.working_sets(caches, 4, 64 * GIB)}
    assert (one["L1"], four["L1"]) == (24 * KIB, 48 * KIB)  # half of one, half of two
    assert one["L2"] == pytest.approx(math.sqrt(48 * KIB * 2 * MIB), abs=4 * KIB)
    assert four["L2"] == pytest.approx(math.sqrt(96 * KIB * 4 * MIB), abs=16 * KIB)
    assert four["L3"] == pytest.approx(math.sqrt(4 * MIB * 32 * MIB), abs=16 * KIB)


def test_a_level_that_holds_no_more_than_the_one_before_is_left_out():
    # A server of 56 cores whose own L2 are more, all together, than the L3 between them.
    caches = [Level(1, 48 * KIB, 56), Level(2, 2 * MIB, 56), Level(3, 105 * MIB, 1)]
    one, all_threads = (levels.working_sets(caches, count, 64 * GIB) for count in (1, 56))
    assert [each.name for each in one] == ["L1", "L2", "L3", "memory"]
    assert [each.name for each in all_threads] == ["L1", "L2", "memory"]
    assert all(each.nbytes for each in all_threads)
    assert all_threads[-1].nbytes == 4 * 56 * 2 * MIB


def test_little_memory_bounds_what_is_gone_through(server):
    caches = levels.read(server, {0, 1})
    sets = levels.working_sets(caches, 1, MIB)
    assert sets[-1] == WorkingSet("memory", MIB)
    assert all(each.nbytes <= MIB for each in sets)
    assert levels.holds(caches, MIB)
    assert levels.holds(caches, 64 * MIB - 1)  # 32 MiB of L3: half of it may come from there
    assert not levels.holds(caches, 64 * MIB)


def test_caches_of_a_gpu_come_nearest_first():
    sets = dict(gpu_memory.working_sets({3: 256 * MIB, 2: 4 * MIB}, 64 * GIB))
    assert list(sets) == ["L2", "L3", "memory"]
    assert sets["L2"] == 2 * MIB
    assert 4 * MIB < sets["L3"] < 256 * MIB
    assert sets["memory"] == 4 * GIB
    assert dict(gpu_memory.working_sets({}, MIB)) == {"memory": MIB}


# ---- kernels -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ops():
    return native.csrc("peaks")


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("nbytes", [512, 1536, 40_960, 1_000_448])
def test_a_copy_is_a_copy(ops, nbytes, count):
    source = torch.randint(0, 256, (nbytes,), dtype=torch.uint8)
    room = torch.zeros(nbytes + 1024, dtype=torch.uint8)
    with threads(count):
        ops.copy_passes(room[:nbytes], source, 3)
    assert torch.equal(room[:nbytes], source)
    assert not room[nbytes:].any()


def seconds(call):
    fastest = math.inf
    for _ in range(30):
        start = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest


@pytest.mark.parametrize("kind", ["read", "copy"])
def test_every_pass_is_made(ops, kind):
    """A pass that a compiler leaves out would make of a cache's bandwidth whatever one likes."""
    x, y = (torch.ones(32 * KIB, dtype=torch.uint8) for _ in range(2))
    with threads(1):
        call = (
            (lambda n: ops.read_passes(x, n))
            if kind == "read"
            else (lambda n: ops.copy_passes(x, y, n))
        )
        once, eight = seconds(lambda: call(500)), seconds(lambda: call(4000))
    assert 5 < eight / once < 12


@pytest.mark.parametrize(
    ("make", "passes", "words"),
    [
        (lambda: torch.ones(513, dtype=torch.uint8), 1, "513 bytes"),
        (lambda: torch.ones(0, dtype=torch.uint8), 1, "0 bytes"),
        (lambda: torch.ones(1024, 2, dtype=torch.uint8)[:, 0], 1, "strides"),
        (lambda: torch.ones(1032, dtype=torch.uint8)[8:], 1, "inside a cache line"),
        (lambda: torch.ones(512, dtype=torch.uint8), 0, "passes is 0"),
    ],
)
def test_what_the_kernels_cannot_go_through_is_named(ops, make, passes, words):
    with pytest.raises(ValueError, match=words):
        ops.read_passes(make(), passes)
    with pytest.raises(ValueError, match=words):
        ops.copy_passes(make(), make(), passes)


def test_a_copy_wants_as_many_bytes(ops):
    x, y = torch.ones(512, dtype=torch.uint8), torch.ones(1024, dtype=torch.uint8)
    with pytest.raises(ValueError, match="as many"):
        ops.copy_passes(x, y, 1)


def test_the_fastest_call_counts():
    lengths = iter([0.004, 0.004, 0.001] * 1000)
    us = fastest_us(lambda: time.sleep(next(lengths)), (), 0.05, WallClock())
    assert 1000 <= us < 3000


# ---- ceilings ----------------------------------------------------------------------------------


def test_levels_of_a_cpu_are_measured_with_one_thread_and_with_all(server, monkeypatch):
    monkeypatch.setattr(cpu_memory, "_cores", lambda: {0, 1})
    found = cpu_memory.measured(Effort(budget_s=0.02, memory_bytes=64 * MIB), quiet, server)
    names = {(each.kind, each.name, each.threads) for each in found.ceilings}
    assert names == {
        (kind, name, count)
        for kind in ("read", "copy")
        for name in ("L1", "L2", "L3", "memory")
        for count in (1, 2)
    }
    alone = {(e.kind, e.name): e.value for e in found.ceilings if e.threads == 1}
    assert 1e9 < alone["read", "memory"] < alone["read", "L1"] < 2e12


def test_so_many_threads_work_as_a_ceiling_says(server, monkeypatch):
    seen = []

    def level(ops, each, count, budget_s):
        seen.append((count, torch.get_num_threads()))
        return []

    monkeypatch.setattr(cpu_memory, "_cores", lambda: {0, 1})
    monkeypatch.setattr(cpu_memory, "_level", level)
    cpu_memory.measured(QUICK, quiet, server)
    assert {*seen} == {(1, 1), (2, 2)}


def test_a_copy_counts_what_it_reads_and_what_it_writes(monkeypatch):
    asked = []

    def millisecond(func, args, budget_s, clock):
        asked.append((func, *args[1:]))
        return 1000.0

    monkeypatch.setattr(cpu_memory, "fastest_us", millisecond)
    ops = types.SimpleNamespace(read_passes="read", copy_passes="copy")
    read, copy = cpu_memory._level(ops, WorkingSet("L1", 8 * KIB), 2, 0.1)
    # 64 MiB a thread and call, of which a copy moves as much again.
    assert read == Ceiling("read", "L1", 2, 128 * MIB * 1000, 8 * KIB)
    assert copy == Ceiling("copy", "L1", 2, 2 * 128 * MIB * 1000, 8 * KIB)
    assert [(each[0], each[-1]) for each in asked] == [("read", 16384), ("copy", 32768)]


def test_threads_are_put_back():
    before = torch.get_num_threads()
    seen = []

    def fails():
        with threads(before + 1):
            seen.append(torch.get_num_threads())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert (seen, torch.get_num_threads()) == ([before + 1], before)


def test_levels_of_a_gpu_are_read_and_copied_with_the_clock_for_their_length():
    asked = []

    class Told:
        """Reads 100 us of the fastest call."""

        name, resolution_us, reads_host = "told", 1e-3, False

        def __init__(self, which):
            asked.append(which)

        def time(self, targets, rounds, before):
            us = [100.0 + at for at in range(rounds)]
            return [Reading(us, [False] * rounds, None, rounds) for _ in targets]

    device = gpu_memory.Device("cpu", lambda: Told("event"), lambda: Told("graph"))
    found = gpu_memory.measured(QUICK, quiet, {2: 2 * MIB}, device)
    assert [(e.kind, e.name, e.threads, e.nbytes) for e in found.ceilings] == [
        ("read", "L2", 0, MIB),
        ("copy", "L2", 0, MIB),
        ("read", "memory", 0, 8 * MIB),
        ("copy", "memory", 0, 8 * MIB),
    ]
    assert asked == ["graph", "event"]
    assert [each.value for each in found.ceilings] == pytest.approx(
        [MIB / 1e-4, MIB / 1e-4, 8 * MIB / 1e-4, 8 * MIB / 1e-4]
    )


def test_a_level_whose_clock_refuses_is_named():
    class Refuses:
        name, resolution_us, reads_host = "graph", 0.5, False

        def time(self, targets, rounds, before):
            raise RefusedError("nothing was launched")

    device = gpu_memory.Device("cpu", WallClock, Refuses)
    found = gpu_memory.measured(QUICK, quiet, {2: 2 * MIB}, device)
    assert found.missing == ["read, L2: nothing was launched", "copy, L2: nothing was launched"]
    assert {each.name for each in found.ceilings} == {"memory"}


def test_without_a_compiler_memory_is_measured_and_the_caches_are_named(server, monkeypatch):
    monkeypatch.setattr(cpu_memory, "_cores", lambda: {0, 1})
    monkeypatch.setattr(cpu_memory.native, "csrc_or_none", lambda *_: None)
    monkeypatch.setattr(cpu_memory.native, "why_not", lambda: "no compiler")
    found = cpu_memory.measured(QUICK, quiet, server)
    assert {each.name for each in found.ceilings} == {"memory"}
    assert "no compiler" in found.missing[0]
    assert any("less than twice the caches" in each for each in found.missing)


def test_a_system_without_sysfs_says_so(tmp_path, ops):
    found = cpu_memory.measured(QUICK, quiet, tmp_path)
    assert {each.name for each in found.ceilings} == {"memory"}
    assert "tells none" in found.missing[0]


def test_all_threads_slower_than_one_is_a_doubt():
    def ceilings(all_threads):
        return [
            Ceiling("read", "L1", 1, 3.0),
            Ceiling("read", "L1", 4, all_threads),
            Ceiling("read", "memory", 1, 2.0),
            Ceiling("read", "memory", 4, 1.0),  # which memory may well do
        ]

    assert doubts(ceilings(6.0)) == []
    [line] = doubts(ceilings(2.9))
    assert line.startswith("read L1: slower")
    assert doubts([]) == []
    assert doubts([Ceiling("read", "L1", 1, 3.0)]) == []
    products = [Ceiling("matrix", "bf16", 1, 3.0), Ceiling("matrix", "bf16", 2, 2.0)]
    assert doubts(products)[0].startswith("matrix bf16: slower")


def test_a_product_s_rate_is_its_operations_over_its_time():
    def slow(n, device):
        return time.sleep, ({64: 0.001, 512: 0.004, 1024: 0.012}[n],)

    product = Product("bf16", slow, 2, 2)
    with threads(2):
        longest = 8 * 0.006 / 2  # 2048 would pass it
        found = matrix.measured(Effort(0.01, longest_s=longest), quiet, "cpu", (product,))
    one, both = found.ceilings
    for ceiling, count, n, seconds in ((one, 1, 512, 0.004), (both, 2, 1024, 0.012)):
        assert (ceiling.kind, ceiling.name, ceiling.threads) == ("matrix", "bf16", count)
        assert ceiling.nbytes == 3 * n * n * 2
        assert ceiling.value == pytest.approx(2 * n**3 / seconds, rel=0.2)


def test_a_product_takes_no_more_memory_than_is_given():
    product = Product("bf16", lambda n, device: (time.sleep, (0.0,)), 2, 2)
    room = 3 * 512 * 512 * 2
    for given, sizes in ((room, {room}), (4 * room - 1, {room}), (room - 1, set())):
        effort = Effort(0.01, memory_bytes=given)
        found = matrix.measured(effort, quiet, "cpu", (product,))
        assert {ceiling.nbytes for ceiling in found.ceilings} == sizes
    assert found.missing == [
        f"matrix product, bf16: {room:,} bytes are needed, and {room - 1:,} may be taken"
    ]


def test_products_without_a_kernel_are_named_and_not_measured():
    def emulated(n, device):
        return time.sleep, (0.006,)

    def absent(n, device):
        raise NotImplementedError("no _scaled_mm for CPU\nand more")

    products = (Product("fp8", emulated, 1, 2), Product("int8", absent, 1, 4))
    found = matrix.measured(QUICK, quiet, "cpu", products)
    assert found.ceilings == []
    assert found.missing == [
        "matrix product, fp8: no kernel of torch's: 64 x 64 takes 6 ms",
        "matrix product, int8: no _scaled_mm for CPU",
    ]


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "int8"])
def test_each_product_is_the_product_of_its_dtype(name):
    [product] = [each for each in matrix.PRODUCTS if each.name == name]
    func, (a, b) = product.make(64, "cpu")
    got = func(a, b)
    assert (a.element_size(), got.element_size()) == (
        product.operand_bytes,
        product.result_bytes,
    )
    want = a.double() @ b.double()
    torch.testing.assert_close(got.double(), want, rtol=0.02, atol=0.5)


def test_a_launch_costs_microseconds():
    [ceiling] = launch.on_cpu(rounds=300).ceilings
    assert (ceiling.kind, ceiling.name, ceiling.threads) == ("launch", "csrc", 1)
    assert 0.05 < ceiling.value < 100


def test_of_a_launch_what_an_empty_function_costs_is_taken_out(monkeypatch):
    class Told(WallClock):
        def time(self, targets, rounds, before):
            return [Reading([us], [False], None, 1) for us in (2.0, 5.0)]

    monkeypatch.setattr(launch, "WallClock", Told)
    [ceiling] = launch.on_cpu(rounds=1).ceilings
    assert ceiling.value == 3.0


@pytest.mark.parametrize("gpu", [False, True])
def test_the_whole_course_measures_the_device_that_is_there(monkeypatch, gpu):
    l1 = Found([Ceiling("read", "L1", 1, 3.0), Ceiling("read", "L1", 2, 2.0)], ["L2: gone"])
    products, launched = Found(missing=["fp8: gone"]), Found([Ceiling("launch", "x", 1, 1.0)])
    where = types.SimpleNamespace(is_gpu=gpu, cache_bytes={2: MIB})
    monkeypatch.setattr(course, "time", types.SimpleNamespace(time=lambda: 7.0))
    monkeypatch.setattr("optest.arch.get_gfx_runtime", lambda: where)
    memory, device = (gpu_memory, "cuda") if gpu else (cpu_memory, "cpu")
    rest = [where.cache_bytes] if gpu else []
    monkeypatch.setattr(memory, "measured", lambda *given: given == (QUICK, quiet, *rest) and l1)
    monkeypatch.setattr(
        matrix, "measured", lambda *given: given == (QUICK, quiet, device) and products
    )
    monkeypatch.setattr(launch, "on_gpu" if gpu else "on_cpu", lambda: launched)
    found, missing = course.measure_all(PLACE, QUICK, quiet)
    assert found == Peaks(PLACE, 7.0, (*l1.ceilings[:2], *launched.ceilings))
    assert missing[:2] == ["L2: gone", "fp8: gone"]
    # A GPU's ceilings know no threads: there is nothing to hold against one another.
    assert [line.partition(":")[0] for line in missing[2:]] == ([] if gpu else ["read L1"])


def test_launches_of_a_gpu_are_counted_one_by_one():
    [ceiling] = launch.on_gpu(lambda: time.sleep(1e-4), lambda: None, rounds=3).ceilings
    assert 100 <= ceiling.value < 1000  # microseconds of one, not of the batch
    assert ceiling.threads == 0


# ---- published peaks and the table -------------------------------------------------------------


def place(gfx, device):
    return Place("host", gfx, device)


@pytest.mark.parametrize(
    ("gfx", "device", "memory", "bf16"),
    [
        ("gfx942", "AMD Instinct MI300X", 5.3e12, 1307.4e12),
        ("gfx950", "AMD Instinct MI355X", 8.0e12, 2516.6e12),
        ("sm_90", "NVIDIA H100 80GB HBM3", 3.35e12, 989.4e12),
        ("sm_90", "NVIDIA H200", 4.8e12, 989.4e12),
        ("sm_100", "NVIDIA B200", 7.7e12, 2250e12),
    ],
)
def test_a_card_is_known_by_arch_and_name(gfx, device, memory, bf16):
    card = published.of(place(gfx, device))
    assert published.value_of(card, Ceiling("read", "memory", 0, 1.0)) == memory
    assert published.value_of(card, Ceiling("copy", "memory", 0, 1.0)) == memory
    assert published.value_of(card, Ceiling("matrix", "bf16", 0, 1.0)) == bf16
    assert published.value_of(card, Ceiling("read", "L2", 0, 1.0)) is None
    assert published.value_of(card, Ceiling("launch", "kernel", 0, 1.0)) is None


@pytest.mark.parametrize(
    ("gfx", "device"),
    [("cpu", "AMD EPYC"), ("sm_90", "NVIDIA H100 PCIe"), ("gfx942", "AMD Instinct MI325X")],
)
def test_for_others_nothing_is_claimed(gfx, device):
    assert published.of(place(gfx, device)) is None


@pytest.mark.parametrize("card", published.CARDS, ids=lambda card: card.device)
def test_halving_the_bits_doubles_the_rate(card):
    assert card.matrix["fp16"] == card.matrix["bf16"]
    assert (
        card.matrix["fp8"]
        == card.matrix["int8"]
        == pytest.approx(2 * card.matrix["bf16"], rel=1e-3)
    )


def test_the_table_holds_measured_beside_published():
    ceilings = (
        Ceiling("read", "memory", 0, 4.24e12, 4 * GIB),
        Ceiling("copy", "L2", 0, 9.1e11, MIB),
        Ceiling("matrix", "bf16", 0, 653.7e12, 3 * MIB),
        Ceiling("matrix", "int8", 0, 1.2e12, 3 * MIB),
        Ceiling("launch", "kernel", 0, 2.345),
    )
    text = table.markdown(Peaks(place("gfx942", "AMD | Instinct MI300X"), 0.0, ceilings))
    head, _, *lines = text.splitlines()
    assert "AMD \\| Instinct MI300X (gfx942)" in head
    assert "AMD Instinct MI300X Accelerator Data Sheet" in head
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["what", "of", "threads", "bytes", "measured", "published", "share"]
    assert cells[2:] == [
        ["read", "memory", "", "4.0 GiB", "4.24 TB/s", "5.30 TB/s", "80%"],
        ["copy", "L2", "", "1.0 MiB", "910 GB/s", "", ""],
        ["matrix", "bf16", "", "3.0 MiB", "654 TFLOPS", "1307 TFLOPS", "50%"],
        ["matrix", "int8", "", "3.0 MiB", "1.20 TOPS", "2615 TOPS", "0%"],
        ["launch", "kernel", "", "", "2.35 us", "", ""],
    ]


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path / 'results.sqlite'}"


def invoke(*arguments):
    return CliRunner().invoke(app, ["peaks", *arguments])


def test_the_command_measures_keeps_and_shows_again(at):
    done = invoke("--store", at, "--budget", "0.01", "--memory", "16MiB", "--json")
    assert done.exit_code == 0, done.output
    with Store.open(at) as store:
        kept = store.peaks(here())
    assert {each.kind for each in kept.ceilings} == {"read", "copy", "matrix", "launch"}
    again = invoke("--store", at, "--stored", "--json")
    record = json.loads(again.stdout)
    assert [each["value"] for each in record["ceilings"]] == [e.value for e in kept.ceilings]
    assert record["place"]["gfx"] == here().gfx
    shown = invoke("--store", at, "--stored")
    assert shown.stdout == table.markdown(kept)


def test_a_store_without_ceilings_of_this_machine_says_so(at):
    with Store.open(at) as store:
        store.record_peaks(Peaks(PLACE, 1.0, (Ceiling("read", "L1", 1, 1.0),)))
    done = invoke("--store", at, "--stored")
    assert done.exit_code == 1
    assert "no ceilings of this machine" in done.output


def test_where_nothing_could_be_measured_nothing_is_kept(at, monkeypatch):
    empty = Peaks(here(), 1.0), ["matrix product: gone"]
    monkeypatch.setattr(course, "measure_all", lambda *_: empty)
    done = invoke("--store", at)
    assert done.exit_code == 1
    assert invoke("--store", at, "--stored").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--memory", "much"], "--memory"),
        (["--store", "sqlite:///none.sqlite", "--stored"], "no such store"),
        (["--budget", "0"], "0"),
    ],
)
def test_a_user_s_mistake_is_one_message_and_exit_code_2(at, arguments, words):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert words in done.output
