from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
import torch

from optest import arch
from optest.errors import SettingError


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.delenv("GPU_ARCHS", raising=False)
    _forget()
    yield
    _forget()


def _forget():
    arch._gpu_arch.cache_clear()
    arch._cpu_arch.cache_clear()
    arch._named.cache_clear()


@pytest.fixture
def cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def _install_gpu(monkeypatch, *, hip, **properties):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**properties)
    )
    monkeypatch.setattr(torch.version, "hip", hip)


MI300 = {
    "hip": "6.4",
    "name": "AMD Instinct MI300X",
    "gcnArchName": "gfx942:sramecc+:xnack-",
    "major": 9,
    "minor": 4,
    "multi_processor_count": 304,
    "warp_size": 64,
    "L2_cache_size": 4 << 20,
}
H100 = {
    "hip": None,
    "name": "NVIDIA H100",
    "gcnArchName": "NVIDIA H100",  # CUDA builds of torch fill this field with the name
    "major": 9,
    "minor": 0,
    "multi_processor_count": 132,
    "warp_size": 32,
    "L2_cache_size": 50 << 20,
}


def test_without_a_gpu_it_is_the_cpu_with_facts(cpu):
    found = arch.get_arch()
    assert arch.get_gfx() == arch.get_gfx_runtime() == found == "cpu"
    assert found.instruction_set in {"avx512", "avx2", "neon", "portable"}
    assert found.wave_size == 1
    assert not found.is_gpu
    assert arch.get_cu_num() == found.compute_units >= 1
    assert arch.gpu_archs() == ()


def test_features_are_cut_off_a_rocm_name(monkeypatch):
    _install_gpu(monkeypatch, **MI300)
    found = arch.get_arch()
    assert found == "gfx942"
    assert (found.vendor, found.wave_size, found.instruction_set) == ("amd", 64, "amdgcn")
    assert found.last_level_cache_bytes == 256 << 20, "the Infinity Cache lies behind the L2"
    assert arch.get_cu_num() == 304
    assert arch.gpu_archs() == ("gfx942",)


def test_cuda_is_named_by_compute_capability(monkeypatch):
    _install_gpu(monkeypatch, **H100)
    found = arch.get_arch()
    assert found == "sm_90"
    assert (found.vendor, found.wave_size) == ("nvidia", 32)
    assert found.last_level_cache_bytes == 50 << 20


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ({**MI300, "gcnArchName": "gfx1151"}, "gfx1151"),
        ({**MI300, "gcnArchName": "gfx1999:x+"}, "gfx1999"),
        ({**H100, "major": 12, "minor": 1}, "sm_121"),
        ({**H100, "major": 15, "minor": 0}, "sm_150"),
    ],
)
def test_cards_newer_than_the_tables_keep_their_name(monkeypatch, card, name):
    _install_gpu(monkeypatch, **card)
    assert arch.get_gfx() == name


def test_a_torch_without_cache_sizes_is_borne(monkeypatch):
    old = {key: value for key, value in H100.items() if key not in ("L2_cache_size", "warp_size")}
    _install_gpu(monkeypatch, **old)
    assert arch.get_arch().last_level_cache_bytes == 0
    assert arch.get_arch().wave_size == 32


def test_each_device_is_asked_for_itself(monkeypatch):
    _install_gpu(monkeypatch, **MI300)
    cards = [{**MI300, "gcnArchName": "gfx942"}, {**MI300, "gcnArchName": "gfx950"}]
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(**cards[index])
    )
    names = []
    for index in (0, 1):
        monkeypatch.setattr(torch.cuda, "current_device", lambda index=index: index)
        names.append(arch.get_gfx_runtime())
    assert names == ["gfx942", "gfx950"], "a mixed machine answers for the current device"


def test_the_override_changes_only_what_get_gfx_answers(monkeypatch, cpu):
    monkeypatch.setenv("OPTEST_GFX", " GFX950 ")
    found = arch.get_arch()
    assert found == arch.get_gfx() == "gfx950"
    assert arch.get_gfx_runtime() == "cpu"
    assert arch.get_cu_num() == arch._usable_cores()
    assert arch.gpu_archs() == ()
    assert (found.wave_size, found.compute_units, found.cache_bytes) == (64, 0, {})


def test_the_override_is_read_at_each_call(monkeypatch, cpu):
    monkeypatch.setenv("OPTEST_GFX", "gfx942")
    assert arch.get_gfx() == "gfx942"
    monkeypatch.setenv("OPTEST_GFX", "sm_90")
    assert arch.get_gfx() == "sm_90"
    monkeypatch.delenv("OPTEST_GFX")
    assert arch.get_gfx() == "cpu"


def test_an_override_that_names_the_device_keeps_its_facts(monkeypatch):
    _install_gpu(monkeypatch, **MI300)
    monkeypatch.setenv("OPTEST_GFX", "gfx942")
    assert arch.get_arch().compute_units == 304


@pytest.mark.parametrize("value", ["MI300", "gfx", "sm90", "gfx942;gfx950", "nvidia"])
def test_an_override_that_is_no_arch_is_named(monkeypatch, cpu, value):
    monkeypatch.setenv("OPTEST_GFX", value)
    with pytest.raises(SettingError, match=r"OPTEST_GFX='.*expected an arch name"):
        arch.get_gfx()


@pytest.mark.parametrize(
    ("value", "targets"),
    [
        ("gfx942;gfx950", ("gfx942", "gfx950")),
        (" gfx942", ("gfx942",)),
        ("gfx942;", ("gfx942",)),
        ("GFX942", ("gfx942",)),
        (" gfx942 ; SM_90 ;", ("gfx942", "sm_90")),
        ("gfx942;gfx942", ("gfx942",)),
    ],
)
def test_gpu_archs_forgives_blanks_case_and_a_trailing_separator(monkeypatch, cpu, value, targets):
    monkeypatch.setenv("GPU_ARCHS", value)
    assert arch.gpu_archs() == targets
    assert arch.get_gfx() == "cpu", "GPU_ARCHS lists compile targets only"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("", "an entry is empty"),
        ("  ", "an entry is empty"),
        (";", "an entry is empty"),
        ("gfx942;;gfx950", "an entry is empty"),
        (";gfx942", "an entry is empty"),
        ("gfx942;gfx9999", "unknown arch 'gfx9999'"),
        ("gfx942,gfx950", "unknown arch 'gfx942,gfx950'"),
        ("native", "'native' needs a GPU"),
    ],
)
def test_gpu_archs_names_what_it_cannot_take(monkeypatch, cpu, value, named):
    monkeypatch.setenv("GPU_ARCHS", value)
    with pytest.raises(SettingError, match=named) as caught:
        arch.gpu_archs()
    assert str(caught.value).startswith(f"GPU_ARCHS={value!r}: ")
    assert "gfx942;gfx950" in str(caught.value), "it shows the form expected"


def test_gpu_archs_is_read_when_asked_not_at_import(monkeypatch, cpu):
    monkeypatch.setenv("GPU_ARCHS", "gfx942")
    assert arch.gpu_archs() == ("gfx942",)
    monkeypatch.setenv("GPU_ARCHS", "gfx950")
    assert arch.gpu_archs() == ("gfx950",)


def test_native_stands_for_the_device(monkeypatch):
    _install_gpu(monkeypatch, **MI300)
    monkeypatch.setenv("GPU_ARCHS", "native;gfx950")
    assert arch.gpu_archs() == ("gfx942", "gfx950")


def test_a_gate_is_recognised_by_its_question_the_house_does_not_count(cpu):
    before = arch.gfx_reads()
    arch.current()
    arch.get_gfx_runtime()
    arch.gpu_archs()
    assert arch.gfx_reads() == before
    arch.get_gfx()
    arch.get_arch()
    assert arch.gfx_reads() == before + 2
    assert arch.gfx_was_read()


def test_an_arch_is_a_plain_string_wherever_it_goes(cpu):
    found = arch.get_arch()
    twin = pickle.loads(pickle.dumps(found))
    assert (twin, twin.cache_bytes, twin.vendor) == (found, found.cache_bytes, found.vendor)
    assert {found: 1}["cpu"] == 1
    assert f"{found}" == "cpu"


@pytest.mark.parametrize(
    ("flags", "machine", "isa"),
    [
        ("avx2 fma f16c avx512f avx512bw avx512dq avx512vl", "x86_64", "avx512"),
        ("avx2 fma f16c avx512f", "x86_64", "avx2"),  # first-generation Xeon Phi has F alone
        ("avx2 fma f16c", "x86_64", "avx2"),
        ("sse4_2 avx", "x86_64", "portable"),
        ("", "aarch64", "neon"),
        ("", "arm64", "neon"),
        ("", "riscv64", "portable"),
    ],
)
def test_instruction_set_follows_the_flags(flags, machine, isa):
    assert arch._cpu_instruction_set(flags.split(), machine) == isa


def _write_cache(root, index, kind, level, size):
    folder = root / f"index{index}"
    folder.mkdir(parents=True)
    for field, text in (("type", kind), ("level", level), ("size", size)):
        (folder / field).write_text(f"{text}\n")


def test_cpu_caches_are_those_that_hold_data(tmp_path):
    _write_cache(tmp_path, 0, "Data", 1, "48K")
    _write_cache(tmp_path, 1, "Instruction", 1, "32K")
    _write_cache(tmp_path, 2, "Unified", 2, "2048K")
    _write_cache(tmp_path, 3, "Unified", 3, "300M")
    assert arch._cpu_caches(tmp_path) == {1: 48 << 10, 2: 2 << 20, 3: 300 << 20}


def test_a_machine_that_tells_nothing_of_its_caches_is_borne(tmp_path):
    assert arch._cpu_caches(tmp_path / "missing") == {}
    _write_cache(tmp_path, 0, "Unified", 2, "lots")
    (tmp_path / "index1").mkdir()
    assert arch._cpu_caches(tmp_path) == {}
    assert arch._cpuinfo(tmp_path / "missing") == {}


@pytest.mark.gpu
def test_a_real_device_has_its_facts():
    found = arch.get_arch()
    assert found.is_gpu
    assert found.compute_units > 0
    assert found.last_level_cache_bytes > 0
    assert found.wave_size in (32, 64)
