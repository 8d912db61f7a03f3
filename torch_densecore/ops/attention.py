"""Scaled dot-product attention."""

from torch_densecore.registry import kernel

kernel(
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward",
    reason="flash attention in the reference's blocks, groups of 4 scores and order of sums; its products follow the BLAS profile",
    source="ATen/native/cpu/FlashAttentionKernel.cpp",
    groups="reduction transcendental",
    fields="blas",
)
