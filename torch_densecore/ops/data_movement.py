"""Ops that move or make elements without computing any."""

from torch_densecore.registry import ANY, INTEGRAL, exact, kernel

kernel(
    "empty.memory_format empty_strided resize_ set_ set_.source_Storage set_.source_Storage_storage_offset "
    "set_.source_Tensor view _reshape_alias as_strided unfold view_as_real view_as_complex _local_scalar_dense",
    ANY,
    reason="metadata only",
    source="csrc/aten/TensorFactories.cpp, csrc/aten/TensorShape.cpp",
)

kernel(
    "copy_",
    ANY,
    reason="moves elements; a float becomes an integer by Arm's saturating rule",
    source="csrc/aten/Copy.cpp, csrc/aten/Convert.cpp",
)

exact(
    "fill_.Scalar fill_.Tensor zero_ cat cat.out _stack _stack.out index.Tensor index.Tensor_out index_select "
    "index_select.out gather gather.out take take.out masked_select masked_select.out masked_fill_.Scalar "
    "masked_fill_.Tensor masked_scatter_ where.self where.self_out flip roll repeat_interleave.Tensor tril tril.out tril_ "
    "triu triu.out triu_ eye.out eye.m_out index_copy index_copy.out index_copy_ index_fill_.int_Scalar "
    "index_fill_.int_Tensor narrow_copy narrow_copy.out scatter.src scatter.src_out scatter_.src scatter.value "
    "scatter.value_out scatter_.value channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle im2col "
    "im2col.out is_set_to equal nonzero nonzero.out nonzero_static nonzero_static.out reflection_pad1d reflection_pad1d.out "
    "reflection_pad2d reflection_pad2d.out reflection_pad3d reflection_pad3d.out replication_pad1d replication_pad1d.out "
    "replication_pad2d replication_pad2d.out replication_pad3d replication_pad3d.out upsample_nearest1d "
    "upsample_nearest1d.out upsample_nearest2d upsample_nearest2d.out upsample_nearest3d upsample_nearest3d.out "
    "_conj_physical conj_physical.out complex.out _foreach_copy_ _foreach_zero_ split_with_sizes_copy.out _chunk_cat "
    "_chunk_cat.out",
    ANY,
    reason="moves elements or compares them for equality; no arithmetic",
)

exact(
    "arange.start_out tril_indices triu_indices bincount searchsorted.Tensor "
    "searchsorted.Tensor_out bucketize.Tensor bucketize.Tensor_out isin.Tensor_Tensor isin.Tensor_Scalar isin.Scalar_Tensor "
    "_unique _unique2 unique_consecutive unique_dim unique_dim_consecutive",
    INTEGRAL,
    reason="integers: exact on any host",
)
