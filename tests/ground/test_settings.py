from __future__ import annotations

from pathlib import Path

import pytest

from optest import settings
from optest.errors import SettingError

GOOD = {
    "OPTEST_MODE": (" Check ", "check"),
    "OPTEST_GUARDS": ("FULL", "full"),
    "OPTEST_GUARD_PAGES": ("1", True),
    "OPTEST_ONLY": ("list.txt", None),
    "OPTEST_EVENTS": ("/tmp/e.jsonl", Path("/tmp/e.jsonl")),
    "OPTEST_CACHE": ("warm", "warm"),
    "OPTEST_BUDGET_S": ("0.25", 0.25),
    "OPTEST_SEED": ("-3", -3),
    "OPTEST_GFX": ("GFX90A", "gfx90a"),
    "OPTEST_ISA": ("avx2", "avx2"),
    "OPTEST_LOG_LEVEL": ("warning", "WARNING"),
    "OPTEST_SAVE_FAILED": ("failed", Path("failed")),
    "OPTEST_BUILD_DIR": ("/tmp/b", Path("/tmp/b")),
    "OPTEST_NATIVE": ("off", "off"),
    "OPTEST_GOLDEN_NUM_THREADS": ("3", 3),
    "OPTEST_BENCH": ("1", True),
    "OPTEST_BENCH_ROUNDS": ("20", 20),
    "OPTEST_BENCH_WARMUP": ("0", 0),
    "OPTEST_BENCH_RAW": ("False", False),
    "PYPTO_GOLDEN_NUM_THREADS": ("3", "3"),
    "PYPTO_BENCH": ("1", "1"),
    "PYPTO_BENCH_ROUNDS": ("20", "20"),
    "PYPTO_BENCH_WARMUP": ("0", "0"),
    "PYPTO_BENCH_RAW": ("1", "1"),
    "KERNELFOUNDRY_PROFILER": ("ncu", "ncu"),
    "KERNELFOUNDRY_unitrace_cmd": ("/opt/unitrace", "/opt/unitrace"),
    "KERNELFOUNDRY_vtune_cmd": ("/opt/vtune", "/opt/vtune"),
    "KERNELFOUNDRY_vtune_result_dir": ("r000", Path("r000")),
    "GITHUB_STEP_SUMMARY": ("summary.md", Path("summary.md")),
}
BAD = [
    ("OPTEST_MODE", "fast"),
    ("OPTEST_GUARDS", "1"),
    ("OPTEST_GUARD_PAGES", "2"),
    ("OPTEST_CACHE", "hot"),
    ("OPTEST_BUDGET_S", "0"),
    ("OPTEST_BUDGET_S", "inf"),
    ("OPTEST_BUDGET_S", "nan"),
    ("OPTEST_BUDGET_S", "1 s"),
    ("OPTEST_SEED", "1.5"),
    ("OPTEST_GFX", "MI300"),
    ("OPTEST_ISA", "sse"),
    ("OPTEST_LOG_LEVEL", "LOUD"),
    ("OPTEST_NATIVE", "no"),
    ("OPTEST_GOLDEN_NUM_THREADS", "0"),
    ("OPTEST_BENCH", "yes please"),
    ("OPTEST_BENCH_ROUNDS", "0"),
    ("OPTEST_BENCH_WARMUP", "-1"),
]


def test_every_row_has_an_example_here():
    assert {row.name for row in settings.TABLE} == set(GOOD)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_value_is_read_and_an_empty_one_is_unset(name):
    text, value = GOOD[name]
    read = settings.get(name, {name: text})
    assert value is None or read == value
    default = next(row.default for row in settings.TABLE if row.name == name)
    assert settings.get(name, {name: " "}) == settings.get(name, {}) == default


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_is_an_error_that_names_it(name, text):
    with pytest.raises(SettingError) as caught:
        settings.get(name, {name: text})
    assert str(caught.value).startswith(f"{name}={text!r}: expected ")


def test_validate_lists_every_bad_variable_at_once():
    environ = {"OPTEST_MODE": "fast", "OPTEST_CACHE": "warm", "OPTEST_SEED": "x", "PATH": "/"}
    with pytest.raises(SettingError) as caught:
        settings.validate(environ)
    lines = str(caught.value).splitlines()
    assert [line.partition("=")[0] for line in lines] == ["OPTEST_MODE", "OPTEST_SEED"]


def test_validate_warns_of_misspelt_names_and_leaves_others_alone():
    environ = {"OPTEST_MDOE": "check", "OPTEST_WEATHER": "fair", "PATH": "/", "OPTEST": "x"}
    near, far = settings.validate(environ)
    assert "OPTEST_MDOE" in near
    assert "did you mean OPTEST_MODE?" in near
    assert "OPTEST_WEATHER" in far
    assert "OPTEST_GUARDS" in far, "without a likeness it names the known ones"


def test_validate_is_silent_when_all_is_well():
    assert settings.validate({name: text for name, (text, _) in GOOD.items()}) == []
    assert settings.validate({}) == []


def test_values_are_read_when_asked(monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "2")
    assert settings.get_float("OPTEST_BUDGET_S") == 2.0
    monkeypatch.setenv("OPTEST_BUDGET_S", "3")
    assert settings.get_float("OPTEST_BUDGET_S") == 3.0


def test_a_variable_that_is_in_no_row_cannot_be_read():
    with pytest.raises(KeyError):
        settings.get("OPTEST_WEATHER")


def test_the_documentation_s_table_has_every_row():
    table = settings.markdown_table()
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        row.name for row in settings.TABLE
    ]
    assert all(line.count("|") == 5 for line in table.splitlines())


def test_the_documentation_shows_the_table_the_code_reads():
    page = Path(__file__).parents[2] / "docs/environment.md"
    assert settings.markdown_table() in page.read_text(encoding="utf-8")


def test_given_holds_what_is_set_and_nothing_else():
    environ = {"OPTEST_SEED": "3", "OPTEST_ISA": " ", "PATH": "/bin", "OPTEST_NOSUCH": "1"}
    assert settings.given(environ) == {"OPTEST_SEED": "3"}
