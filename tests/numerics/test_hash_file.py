"""The hash file of the numerics: complete, and equal to what the reference wheel computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import matrix
import pytest
import structured
import torch

from torch_densecore.certify.comparison import oracle_for

NUMERICS = Path(__file__).resolve().parents[2] / "csrc" / "numerics"
Op = Callable[..., torch.Tensor]

# line of the hash file -> operator, inputs, arguments after them
UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "log", "log10",
    "log1p", "log2", "sigmoid", "sin", "sinc", "sinh", "sqrt", "tan", "tanh", "silu", "mish",
)  # fmt: skip
LINES: dict[str, tuple[str, int, tuple, dict]] = {f"{name}_f32": (f"aten::{name}", 1, (), {}) for name in UNARY} | {
    "pow_f32": ("aten::pow.Tensor_Tensor", 2, (), {}),
    "elu_f32": ("aten::elu", 1, (1.6732632423543772, 1.0507009873554805, 1.0), {}),
    "softplus_f32": ("aten::softplus", 1, (1.0, 20.0), {}),
    "softshrink_f32": ("aten::softshrink", 1, (0.5,), {}),
    "hardswish_backward_f32": ("aten::hardswish_backward", 2, (), {}),
    "hardtanh_backward_f32": ("aten::hardtanh_backward", 2, (-1.0, 2.0), {}),
    "gelu_erf_backward_f32": ("aten::gelu_backward", 2, (), {}),
    "gelu_tanh_backward_f32": ("aten::gelu_backward", 2, (), {"approximate": "tanh"}),
    "silu_backward_f32": ("aten::silu_backward", 2, (), {}),
    "mish_backward_f32": ("aten::mish_backward", 2, (), {}),
    "tanh_backward_f32": ("aten::tanh_backward", 2, (), {}),
    "softplus_backward_f32": ("aten::softplus_backward", 2, (1.0, 20.0), {}),
}
for _suffix in ("f32", "f64"):
    for _name in ("maximum", "minimum", "fmax", "fmin"):
        LINES[f"{_name}_{_suffix}"] = (f"aten::{_name}", 2, (), {})
    LINES[f"clamp_{_suffix}"] = ("aten::clamp.Tensor", 3, (), {})
    LINES[f"lerp_tensor_{_suffix}"] = ("aten::lerp.Tensor", 3, (), {})
    LINES[f"addcdiv_{_suffix}"] = ("aten::addcdiv", 3, (), {"value": -0.7})
    LINES[f"addcmul_{_suffix}"] = ("aten::addcmul", 3, (), {"value": 0.3})
    LINES[f"add_{_suffix}"] = ("aten::add.Tensor", 2, (), {"alpha": 0.3})
LINES["lerp_scalar_f32"] = ("aten::lerp.Scalar", 2, (0.3,), {})
LINES["lerp_scalar_f64"] = ("aten::lerp.Scalar", 2, (0.7,), {})
CONVERSIONS = ("uint8", "int8", "int16", "int32", "int64")


@pytest.fixture(scope="module")
def hash_file() -> dict[tuple[str, str], tuple[str, str]]:
    return matrix.parse(matrix.HASH_FILE.read_text())


def dispatched_kernels() -> set[str]:
    """The names that headers declare with DENSECORE_KERNEL."""
    declared = re.compile(r"^DENSECORE_KERNEL\((\w+), \w+\);", re.M)
    return {name for header in NUMERICS.glob("*/*.h") for name in declared.findall(header.read_text())}


def variant_kernels() -> set[str]:
    """The functions that the headers of variant/ declare and callers outside may use."""
    declared = re.compile(r"^(?:void|float) (\w+)\([^{;]*\);", re.M)
    headers = [header for header in (NUMERICS / "variant").glob("*.h") if header.name != "arithmetic.h"]  # what they share
    return {f"variant::{name}" for header in headers for name in declared.findall(header.read_text())}


def public_kernels() -> set[str]:
    return dispatched_kernels() | variant_kernels()


def test_every_public_kernel_has_a_line(hash_file: dict) -> None:
    assert len(dispatched_kernels()) > 100 and len(variant_kernels()) > 10
    what_to_do = "add the kernel to tests/numerics/digest, then run matrix.py --update"
    assert {name for name, _ in hash_file} == public_kernels(), what_to_do


def test_every_declaration_is_read() -> None:
    """No spelling of DENSECORE_KERNEL escapes the test above."""
    mentions = sum(header.read_text().count("DENSECORE_KERNEL(") for header in NUMERICS.glob("*/*.h"))
    assert mentions == len(dispatched_kernels())


CERTIFIED = {"variant::gemm": "gemm_parallel"}  # else the kernel of the same name
OTHER_COMPILERS = {"variant::bmm_loops"}  # a loop that the reference's compiler turned into vector code and others did not


def test_variant_kernels_give_the_certified_bits_in_the_reference_arithmetic(hash_file: dict) -> None:
    for variant in variant_kernels() - OTHER_COMPILERS:
        certified = CERTIFIED.get(variant, variant.removeprefix("variant::"))
        assert hash_file[variant, "reference"] == hash_file[certified, "float32"], variant
    assert hash_file["variant::sum_loop", "reference/nansum"] == hash_file["nansum_loop", "float32"]


def test_every_arithmetic_of_a_variant_kernel_has_bits_of_its_own(hash_file: dict) -> None:
    lines = [(name, row) for (name, _), row in hash_file.items() if name == "variant::gemm"]
    assert len(lines) == len(set(lines)) == 4


def test_a_changed_missing_or_new_line_is_reported() -> None:
    expected = matrix.parse("# comment\nexp float32 3 aa\nlog float32 3 bb\n")
    assert matrix.compare(expected, dict(expected)) == []
    got = matrix.parse("exp float32 3 ab\nsin float32 1 cc\n")
    assert [text.split(":")[0] for text in matrix.compare(expected, got)] == ["exp float32", "log float32", "sin float32"]


def _cell(**changes: object) -> matrix.Cell:
    return matrix.Cell("made up", "digest", "g++", "-O1", **changes)  # type: ignore[arg-type]


def test_a_build_that_must_differ_fails_when_it_does_not() -> None:
    expected = matrix.parse("exp float32 3 aa\n")
    assert matrix.judge(_cell(), "exp float32 3 aa\n", expected) == ""
    assert "1 lines differ" in matrix.judge(_cell(), "exp float32 3 ab\n", expected)
    assert matrix.judge(_cell(must_differ=True), "exp float32 3 ab\n", expected) == ""
    assert "built to differ" in matrix.judge(_cell(must_differ=True), "exp float32 3 aa\n", expected)


def test_nothing_run_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.report([], ["a cell: needs a compiler"]) == 1
    assert "NOT RUN: a cell: needs a compiler" in capsys.readouterr().out
    assert matrix.report([matrix.Outcome(_cell(), "avx2", 3, "")], []) == 0
    assert matrix.report([matrix.Outcome(_cell(), "avx2", 3, "wrong")], []) == 1


def test_a_cell_that_cannot_be_built_here_says_why() -> None:
    cell = matrix.Cell("made up", "sanitize", "g++", "-O1", levels=matrix.ARM_LEVELS, flags="-fsanitize=nothing-of-this-name")
    assert "needs" in cell.missing()
    assert "no-such-compiler" in matrix.Cell("made up", "digest", "no-such-compiler", "-O1").missing()


def _dtype(line: str) -> torch.dtype:
    return torch.float64 if line.endswith("f64") else torch.float32


def _reference_row(op: str, inputs: int, dtype: torch.dtype, args: tuple, kwargs: dict) -> tuple[str, str]:
    """The line that the reference wheel's own machine code gives."""
    oracle = oracle_for("2.13.0")
    line, seed = structured.Line(), 1
    try:
        for case in structured.loop_cases(inputs):
            oracle.num_threads = case.threads
            line.add(oracle.call(op, *structured.operands(case, seed, inputs, dtype), *args, **kwargs))
            seed += inputs
    finally:
        oracle.num_threads = 4
    return line.row()


@pytest.mark.oracle
@pytest.mark.parametrize("name", LINES)
def test_the_reference_wheel_gives_the_line(name: str, hash_file: dict) -> None:
    op, inputs, args, kwargs = LINES[name]
    variant = str(_dtype(name))[6:]
    assert _reference_row(op, inputs, _dtype(name), args, kwargs) == hash_file[name, variant]


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["convert_f32", "convert_f64"])
@pytest.mark.parametrize("to", CONVERSIONS)
def test_the_reference_wheel_converts_to_integers_so(name: str, to: str, hash_file: dict) -> None:
    row = _reference_row("aten::_to_copy", 1, _dtype(name), (), {"dtype": getattr(torch, to)})
    assert row == hash_file[name, to]


SOFTMAX = {"softmax_rows": ("aten::_softmax", (-1, False)), "log_softmax_rows": ("aten::_log_softmax", (-1, False))}
SOFTMAX["safe_softmax_rows"] = ("aten::_safe_softmax", (-1,))


@pytest.mark.oracle
@pytest.mark.parametrize("name", SOFTMAX)
def test_the_reference_wheels_softmax(name: str, hash_file: dict) -> None:
    op, rest = SOFTMAX[name]
    line = structured.Line()
    for x in structured.softmax_rows():
        line.add(oracle_for("2.13.0").call(op, x, *rest))
    assert line.row() == hash_file[name, "float32"]


@pytest.mark.oracle
def test_the_reference_wheels_layer_norm(hash_file: dict) -> None:
    line = structured.Line()
    for x, weight, bias in structured.layer_norm_rows():
        for result in oracle_for("2.13.0").call("aten::native_layer_norm", x, [x.shape[1]], weight, bias, 1e-5):
            line.add(result)
    assert line.row() == hash_file["layer_norm", "float32"]
