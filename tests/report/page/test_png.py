"""Pictures as files: of the right names, drawn, and none where nothing was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import report_examples as examples
from PIL import Image

from optest.errors import UsageError
from optest.report import chosen, pictures, png, section


def read(store):
    return chosen.read(store, ["latest"], 30)


def only_section(found):
    (one,) = section.sections(found)
    return one


def test_every_picture_of_a_run_with_a_past(store, tmp_path):
    for slower in (1.0, 1.0, 1.2, 1.2):
        examples.keep(store, [*examples.sweep(slower=slower), *examples.failing()])
    written = png.write(read(store), tmp_path / "made" / "pictures")
    assert [path.name for path in written] == [
        "test_gemm-roofline-cpu.png",
        "test_gemm-axis.png",
        "test_gemm-samples.png",
        "test_gemm-history.png",
    ]
    for path in written:
        with Image.open(path) as picture:
            colours = np.asarray(picture.convert("RGB")).reshape(-1, 3).astype(int)
        assert len(np.unique(colours @ (65536, 256, 1))) > 20, path  # axes are black on white
        blue = np.abs(colours - (0x1F, 0x6F, 0xB4)).sum(axis=1) < 30
        assert blue.any() or "samples" in path.name, path


def test_points_and_ceilings_of_the_roofline_lie_where_the_numbers_say(store):
    examples.with_peaks(store)
    examples.keep(store, examples.sweep(sizes=(16,)))
    found = read(store)
    one = only_section(found)
    figure = pictures.roofline(one, "cpu A CPU", found.peaks_of(examples.PLACE))
    lines = figure.axes[0].get_lines()
    points = {line.get_label(): line.get_xydata() for line in lines[:2]}
    flops, nbytes = 2 * 16 * 64 * 64, 2 * (16 * 64 + 64 * 64 + 16 * 64)
    expected = [[flops / nbytes, flops / us * 1e-6] for us in (8.2, 13.0)]
    np.testing.assert_allclose(points["cpp"], expected, rtol=1e-5)
    heights = sorted({round(float(line.get_ydata()[0]), 6) for line in lines[2:4]})
    assert heights == [0.1, 0.4]  # fp32 and bf16, TFLOPS
    slope = lines[4].get_xydata()
    np.testing.assert_allclose(slope[:, 1] / slope[:, 0], 0.02)  # memory, TB/s
    assert slope[-1][1] <= 0.4 + 1e-9


def test_the_axis_is_the_argument_with_most_values_and_the_others_make_the_lines():
    sizes = [(m, n, dtype) for m in (1, 2) for n in (64, 16, 32) for dtype in ("bf16", "fp32")]
    results = [examples.gemm(examples.unit(m, d, n), {"cpp": 5.0 + m}) for m, n, d in sizes]
    figure = pictures.over_axis(only_section(chosen.Chosen([None], [results])))
    assert [axes.get_xlabel() for axes in figure.axes] == ["n"] * 3
    assert [axes.get_ylabel() for axes in figure.axes] == ["us", "TFLOPS", "TB/s"]
    lines = [line.get_xdata().tolist() for line in figure.axes[0].get_lines()]
    assert lines == [[16.0, 32.0, 64.0]] * 4  # two m in two dtypes


def test_samples_are_those_of_the_slowest_cases_over_their_median():
    found = chosen.Chosen([None], [examples.sweep(sizes=range(100, 1700, 100))])
    (axes,) = pictures.samples(only_section(found)).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert len(names) == 12
    assert names[-1].startswith("inductor us m=1600 n=64 dtype=fp32")  # drawn on top
    places = np.concatenate([line.get_xdata() for line in axes.get_lines()])
    assert places.min() > 0.9
    assert places.max() < 1.1


def test_the_history_is_of_what_moved_most_and_marks_where(store):
    sizes = range(100, 900, 100)  # 16 cases of two candidates; cpp alone is slower later on
    for slower in (1.0, 1.0, 1.0, 1.25, 1.25, 1.25):
        examples.keep(store, examples.sweep(sizes, slower))
    found = read(store)
    (axes,) = pictures.history(only_section(found), found).axes
    series = [line for line in axes.get_lines() if len(line.get_xdata()) == 6]
    assert len(series) == 12
    for line in series:
        assert line.get_label().startswith("cpp us m=")
        np.testing.assert_allclose(line.get_ydata(), [1.0] * 3 + [1.25] * 3)
    steps = [line.get_xdata() for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert [list(xs) for xs in steps] == [[2.5, 2.5]] * 12
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c0ffee0"] * 6


def test_a_run_that_measured_nothing_has_no_picture(store, tmp_path):
    examples.keep(store, examples.failing()[2:])
    assert png.write(read(store), tmp_path / "none") == []


@pytest.mark.parametrize("name", ["../../escape", "a/b", "$x^$", "", "ünï" + "x" * 300])
def test_a_functions_name_stays_in_the_folder_and_is_no_formula(store, tmp_path, name):
    unit = examples.unit(16)
    renamed = type(unit)(f"t.py::{name}[m=16]", "t.py", name, unit.arguments, table="t")
    examples.keep(store, [examples.gemm(renamed, {f"$cpp{name}^": 5.0})])
    folder = tmp_path / "pictures"
    written = png.write(read(store), folder)
    assert written
    assert {path.parent for path in written} == {folder}
    assert sorted(folder.iterdir()) == sorted(written)


def test_functions_of_one_name_have_files_of_their_own(store, tmp_path):
    one = examples.unit(16)
    other = replace(one, file="op_tests/test_other.py", id=one.id.replace("gemm.py", "other.py"))
    examples.keep(store, [examples.gemm(unit, {"cpp": 5.0}) for unit in (one, other)])
    written = png.write(read(store), tmp_path / "pictures")
    names = ["roofline-cpu", "samples", "roofline-cpu-2", "samples-2"]
    assert [path.name for path in written] == [f"test_gemm-{name}.png" for name in names]


def test_many_sets_of_arguments_are_points_and_no_thousand_lines():
    results = [
        examples.gemm(examples.unit(m, f"d{n}"), {"cpp": 5.0}) for m in (16, 32) for n in range(100)
    ]
    many = chosen.Chosen([None], [results])
    figure = pictures.over_axis(only_section(many))
    assert [len(axes.get_lines()) for axes in figure.axes] == [1, 1, 1]
    assert sum(len(line.get_xdata()) for line in figure.axes[0].get_lines()) == 200


def test_what_stands_in_the_way_is_said(tmp_path, store):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="this is a file: expected a folder"):
        png.check(tmp_path / "file")
    examples.keep(store, examples.sweep(sizes=(16,)))
    (tmp_path / "pictures" / "test_gemm-samples.png").mkdir(parents=True)
    with pytest.raises(UsageError, match="it cannot be written"):
        png.write(read(store), tmp_path / "pictures")
