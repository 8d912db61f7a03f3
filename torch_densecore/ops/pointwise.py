"""Elementwise ops that any host computes alike: integers, comparisons, and single IEEE operations of float32 and float64."""

import torch

from torch_densecore.registry import ANY, INTEGRAL, REAL, exact, kernel

IEEE = frozenset({torch.float32, torch.float64})


def _variants(names: str, overload: str = "", in_place: bool = True) -> str:
    """Functional, in-place and out variants: mul.Tensor mul_.Tensor mul.out."""
    words = []
    for name in names.split():
        suffix = f".{overload}" if overload else ""
        out = f"{overload}_out" if overload == "Scalar" else "out"
        words += [f"{name}{suffix}", f"{name}.{out}"] + ([f"{name}_{suffix}"] if in_place else [])
    return " ".join(words)


def _comparisons(names: str) -> str:
    words = []
    for name in names.split():
        for overload in ("Tensor", "Scalar"):
            words += [f"{name}.{overload}", f"{name}.{overload}_out", f"{name}_.{overload}"]
    return " ".join(words)


exact(_comparisons("eq ne"), ANY, reason="comparison")
exact(_comparisons("lt le gt ge"), REAL, reason="comparison")
exact(
    "isnan isposinf isposinf.out isneginf isneginf.out signbit signbit.out logical_not.out logical_and.out logical_or.out "
    "logical_xor.out any any.out any.all_out any.dim any.dims any.dims_out all all.out all.all_out all.dim all.dims "
    "all.dims_out count_nonzero.dim_IntList",
    ANY,
    reason="truth values",
)
exact(
    "max max.unary_out min min.unary_out amax amax.out amin amin.out aminmax aminmax.out median nanmedian",
    INTEGRAL,
    reason="integers are selected by comparison (of floats the order decides among zeros of both signs)",
)
exact(
    "max.dim max.dim_max min.dim min.dim_min argmax argmax.out argmin argmin.out kthvalue.values "
    "median.dim_values nanmedian.dim_values _cummax_helper _cummin_helper threshold threshold.out threshold_ "
    "threshold_backward threshold_backward.grad_input",
    REAL,
    reason="selects elements by comparison",
)
_MIN_MAX = (
    "maximum maximum.out minimum minimum.out fmax fmax.out fmin fmin.out clamp.Tensor clamp.Tensor_out clamp_.Tensor "
    "clamp_min.Tensor clamp_min.Tensor_out clamp_min_.Tensor clamp_max.Tensor clamp_max.Tensor_out clamp_max_.Tensor relu "
    "relu_ hardtanh hardtanh.out hardtanh_ " + _variants("clamp clamp_min clamp_max")
)
exact(_MIN_MAX, INTEGRAL, reason="integer arithmetic")
kernel(
    _MIN_MAX,
    IEEE,
    reason="which of -0 and +0 is the larger differs among hosts, and in the reference between vector and scalar code",
    source="ATen/native/cpu/BinaryOpsKernel.cpp, TensorCompareKernel.cpp; csrc/numerics/pointwise/min_max.cpp",
    fields="threads",
)
kernel(
    _variants("add sub", "Tensor") + " rsub.Tensor",
    IEEE,
    reason="self + alpha * other is fused",
    source="ATen/native/ufunc/add.h; csrc/numerics/pointwise/binary_ops.cpp",
    fields="threads",
)
kernel(
    _variants("addcmul addcdiv"),
    IEEE,
    reason="addcmul is fused in scalar code only: loop tails and strided inputs",
    source="ATen/native/cpu/PointwiseOpsKernel.cpp; csrc/numerics/pointwise/pointwise_ops.cpp",
    fields="threads",
)
kernel(
    "lerp.Scalar lerp_.Scalar lerp.Scalar_out lerp.Tensor lerp_.Tensor lerp.Tensor_out",
    IEEE,
    reason="one fused multiply-add from the nearer end",
    source="ATen/native/Lerp.h, cpu/LerpKernel.cpp; csrc/numerics/pointwise/lerp.cpp",
    fields="threads",
)
exact(
    _variants("neg abs sgn sign floor ceil trunc round frac"),
    IEEE,
    reason="one exact operation an element",
)
exact(
    _variants("mul", "Tensor") + " mul.out div.Tensor div.out div_.Tensor",
    IEEE,
    reason="one IEEE operation an element; IEEE 754 fixes its result",
)
exact(
    "div.Tensor div.out",
    INTEGRAL,
    reason="integers are rounded once to the floating dtype and divided",
    source="ATen/native/BinaryOps.cpp",
)
exact(
    "bucketize.Tensor bucketize.Tensor_out searchsorted.Tensor searchsorted.Tensor_out",
    REAL,
    reason="comparisons",
    source="ATen/native/Bucketization.cpp",
)
exact(
    "floor_divide floor_divide_.Tensor floor_divide.out div.Tensor_mode div_.Tensor_mode div.out_mode copysign.Tensor "
    "copysign_.Tensor copysign.out nextafter nextafter_ nextafter.out heaviside heaviside_ heaviside.out nan_to_num nan_to_num_ "
    "nan_to_num.out",
    IEEE,
    reason="single IEEE operations, an exact remainder (of scalars; that of vectors is not) and comparisons",
    source="ATen/native/cpu/BinaryOpsKernel.cpp, UnaryOpsKernel.cpp",
)
exact(
    _variants("neg abs sgn sign floor ceil trunc round bitwise_not")
    + " add.Tensor add.out add_.Tensor sub.Tensor sub.out sub_.Tensor mul.Tensor mul.out mul_.Tensor rsub.Tensor "
    "div.Tensor_mode div.out_mode div_.Tensor_mode floor_divide floor_divide.out floor_divide_.Tensor remainder.Tensor "
    "remainder.Tensor_out remainder_.Tensor remainder.Scalar_Tensor fmod.Tensor fmod.Tensor_out fmod_.Tensor gcd gcd.out "
    "gcd_ lcm lcm.out lcm_ bitwise_and.Tensor bitwise_and.Tensor_out bitwise_and_.Tensor bitwise_or.Tensor "
    "bitwise_or.Tensor_out bitwise_or_.Tensor bitwise_xor.Tensor bitwise_xor.Tensor_out bitwise_xor_.Tensor "
    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_out bitwise_left_shift_.Tensor bitwise_right_shift.Tensor "
    "bitwise_right_shift.Tensor_out bitwise_right_shift_.Tensor __lshift__.Scalar __lshift__.Tensor __rshift__.Scalar "
    "__rshift__.Tensor pow.Tensor_Scalar pow.Tensor_Tensor sum.dim_IntList sum.IntList_out prod prod.dim_int prod.int_out "
    "cumsum cumsum.out cumprod cumprod.out trace _foreach_add_.Scalar _foreach_mul_.Scalar",
    INTEGRAL,
    reason="integer arithmetic",
)
