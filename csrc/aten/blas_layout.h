// How ATen hands a matrix to Fortran BLAS (addmm_impl_cpu_ in ATen/native/LinearAlgebra.cpp). Which layouts are copied decides the
// transpose flag, and with it the order of summation of a small product.
#pragma once

#include <cstdint>

namespace densecore {

// The strides of a matrix.
struct Strides {
  int64_t row;
  int64_t column;
  Strides turned() const { return {column, row}; }
};

// A matrix as BLAS takes it: transposed or not, with a leading dimension; `copy` if it must be made contiguous first.
struct BlasLayout {
  char trans;
  int64_t lead;
  bool copy;
};

inline int64_t at_least_one(int64_t size) { return size > 1 ? size : 1; }

// For op(X) of `rows` by `columns`. `turned`: BLAS sees the transpose of the tensor, so a contiguous copy has its columns in memory.
inline BlasLayout operand_layout(int64_t rows, int64_t columns, Strides strides, bool turned) {
  if (strides.row == 1 && strides.column >= at_least_one(rows)) return {'N', strides.column, false};
  if (strides.column == 1 && strides.row >= at_least_one(columns)) return {'T', strides.row, false};
  return turned ? BlasLayout{'N', rows, true} : BlasLayout{'T', columns, true};
}

// For the result, `rows` by `columns`: 'N' if BLAS can write it as it is, 'T' if it writes the transpose.
inline BlasLayout result_layout(int64_t rows, int64_t columns, Strides strides) {
  if (strides.row == 1 && (columns == 1 || strides.column >= at_least_one(rows))) return {'N', strides.column, false};
  if (strides.column == 1 && (rows == 1 || strides.row >= at_least_one(columns))) return {'T', strides.row, false};
  return {'N', rows, true};
}

}  // namespace densecore
