"""Functions of one operand, and pow. Integer and bool inputs become float32."""

from torch_densecore.registry import FLOAT32, INTEGRAL, exact, kernel

INPUTS = FLOAT32 | INTEGRAL


def _forms(names: str) -> str:
    """Functional, in-place and out form: exp exp_ exp.out."""
    return " ".join(f"{name} {name}_ {name}.out" for name in names.split())


kernel(
    _forms("acos asin atan cos erfc exp expm1 log log10 log1p log2 sin tan tanh"),
    INPUTS,
    reason="SLEEF's 1.0 ulp functions (erfc: 1.5) for every element; sin, cos and tan depend on the group of 4 lanes",
    source="SLEEF sleefsimdsp.c; ATen/native/cpu/UnaryOpsKernel.cpp; csrc/numerics/math, csrc/numerics/pointwise/unary.cpp",
    groups="transcendental",
    fields="threads",
)
kernel(
    _forms("sqrt"),
    INPUTS,
    reason="an IEEE square root; on an x86 host torch takes MKL's, which is not",
    source="ATen/native/cpu/UnaryOpsKernel.cpp; csrc/numerics/pointwise/unary.cpp",
)
kernel(
    _forms("erf"),
    INPUTS,
    reason="a polynomial with exp_u20, which depends on the group of 4 lanes",
    source="ATen/cpu/vec/vec128/vec128_float_neon.h; csrc/numerics/math/erf.h",
    groups="transcendental",
    fields="threads",
)
kernel(
    _forms("atanh cosh exp2 sigmoid sinh logit"),
    INPUTS,
    reason="SLEEF in pairs of whole vectors; the libm model in loop tails and for strided operands",
    source="ATen/native/cpu/UnaryOpsKernel.cpp; csrc/numerics/pointwise/unary.cpp, csrc/numerics/math/libm.h",
    groups="transcendental",
    fields="threads",
)
kernel(
    _forms("acosh asinh sinc"),
    INPUTS,
    reason="the libm model for every element",
    source="ATen/native/cpu/UnaryOpsKernel.cpp; csrc/numerics/libm_model.cpp",
    groups="transcendental",
)
kernel(
    "pow.Tensor_Scalar pow.Tensor_Scalar_out pow_.Scalar pow.Tensor_Tensor pow.Tensor_Tensor_out pow_.Tensor pow.Scalar "
    "pow.Scalar_out",
    FLOAT32,
    reason="SLEEF powf in pairs of whole vectors, the libm model elsewhere; products and roots for 0.5, 2, 3, -0.5, -1, -2",
    source="ATen/native/cpu/PowKernel.cpp; csrc/numerics/pointwise/pow.cpp",
    groups="transcendental",
    fields="threads",
)
exact(
    _forms("rsqrt reciprocal"),
    INPUTS,
    reason="an IEEE square root and quotient",
    source="ATen/native/cpu/UnaryOpsKernel.cpp",
)
