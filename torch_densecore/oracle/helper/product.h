/* Matrix products of one type; product.c includes this file twice. Needs T, NAME(suffix), FMA(a, b, c), and for the
 * chain V (a vector), VL (its elements), VLOAD(p), VSET(x), VFMA(a, b, c), VSTORE(p, v). Matrices are column-major. */

static T NAME(element)(const T *a, long lda, int trans, long i, long j) {
  return trans ? a[j + i * lda] : a[i + j * lda];
}

static void NAME(finish)(T total, T alpha, T beta, T *c) {
  if (beta == 0) *c = alpha == 1 ? total : alpha * total;
  else if (beta == 1 && alpha == 1) *c = total + *c;
  else *c = FMA(alpha, total, beta * *c);
}

/* ---- one fused chain in index order per element of the result ---- */

enum { NAME(rows) = 2 * VL, NAME(columns) = 6 };

/* tile += a b over `k` steps; the chain goes on where the previous call left it */
static void NAME(kernel)(long k, const T *restrict a, const T *restrict b, T *restrict tile) {
  V sum[NAME(columns)][2];
#pragma GCC unroll 6
  for (int j = 0; j < NAME(columns); j++) {
    sum[j][0] = VLOAD(tile + j * NAME(rows));
    sum[j][1] = VLOAD(tile + j * NAME(rows) + VL);
  }
  for (long p = 0; p < k; p++) {
    V low = VLOAD(a + p * NAME(rows)), high = VLOAD(a + p * NAME(rows) + VL);
#pragma GCC unroll 6
    for (int j = 0; j < NAME(columns); j++) {
      V w = VSET(b[p * NAME(columns) + j]);
      sum[j][0] = VFMA(low, w, sum[j][0]);
      sum[j][1] = VFMA(high, w, sum[j][1]);
    }
  }
#pragma GCC unroll 6
  for (int j = 0; j < NAME(columns); j++) {
    VSTORE(tile + j * NAME(rows), sum[j][0]);
    VSTORE(tile + j * NAME(rows) + VL, sum[j][1]);
  }
}

/* panels of `width` rows of op(a), k steps from `from`; missing rows are zero */
static void NAME(pack)(T *restrict out, const T *restrict a, long lda, int trans, long m, long from, long k,
                       int width) {
  for (long i0 = 0; i0 < m; i0 += width) {
    long w = m - i0 < width ? m - i0 : width;
    if (trans) {
      if (w < width) memset(out, 0, sizeof(T) * (size_t)(k * width));
      for (long i = 0; i < w; i++)
        for (long p = 0; p < k; p++) out[p * width + i] = a[from + p + (i0 + i) * lda];
    } else {
      for (long p = 0; p < k; p++)
        for (long i = 0; i < width; i++) out[p * width + i] = i < w ? a[i0 + i + (from + p) * lda] : 0;
    }
    out += k * width;
  }
}

void NAME(chain)(int ta, int tb, long m, long n, long k, T alpha, const T *a, long lda, const T *b, long ldb, T beta,
                 T *c, long ldc) {
  enum { R = NAME(rows), C = NAME(columns), STEPS = 256 };
  long rows = (m + R - 1) / R, columns = (n + C - 1) / C, steps = k < STEPS ? k : STEPS;
  T *left = malloc(sizeof(T) * (size_t)(rows * R * steps + 1));
  T *right = malloc(sizeof(T) * (size_t)(columns * C * steps + 1));
  T *tiles = calloc((size_t)(rows * R * columns * C), sizeof(T));
  for (long from = 0; from < k; from += STEPS) {
    long part = k - from < STEPS ? k - from : STEPS;
    NAME(pack)(left, a, lda, ta, m, from, part, R);
    NAME(pack)(right, b, ldb, !tb, n, from, part, C);
    for (long j = 0; j < columns; j++)
      for (long i = 0; i < rows; i++)
        NAME(kernel)(part, left + i * part * R, right + j * part * C, tiles + (j * rows + i) * R * C);
  }
  for (long j = 0; j < n; j++) {
    const T *column = tiles + j / C * rows * R * C + j % C * R;
    for (long i0 = 0; i0 < m; i0 += R)
      for (long i = i0; i < m && i < i0 + R; i++) NAME(finish)(column[i0 * C + i - i0], alpha, beta, c + i + j * ldc);
  }
  free(left);
  free(right);
  free(tiles);
}

/* ---- the other orders ---- */

enum { NAME(block) = 64 };

/* sum of neighbours, then of neighbouring sums, of `count` rows that lie `step` rows apart; the result is in row 0 */
static void NAME(tree)(T (*rows)[NAME(block)], int count, int step) {
  for (; count > 1; count = (count + 1) / 2)
    for (int i = 0; i < count; i += 2)
      for (int r = 0; r < NAME(block); r++)
        rows[i / 2 * step][r] = i + 1 < count ? rows[i * step][r] + rows[(i + 1) * step][r] : rows[i * step][r];
}

/* dot products of NAME(block) packed rows with column j of op(b); the sums are left in sums[0] */
static void NAME(dots)(const struct order *order, long k, const T *rows, const T *b, long ldb, int tb, long j,
                       T (*sums)[NAME(block)]) {
  int lanes = order->lanes ? order->lanes : (int)(16 / sizeof(T));
  int used = order->accumulators;
  if (lanes == 1) used = k < used ? (k < 1 ? 1 : (int)k) : used;
  memset(sums, 0, sizeof(T) * (size_t)(NAME(block) * lanes * used));
  long whole = k / lanes * lanes;
  for (long p = 0; p < whole; p++) {
    T w = NAME(element)(b, ldb, tb, p, j), *s = sums[p / lanes % used * lanes + p % lanes];
    const T *x = rows + p * NAME(block);
    for (int r = 0; r < NAME(block); r++) s[r] = FMA(x[r], w, s[r]);
  }
  for (int lane = 0; lane < lanes; lane++) NAME(tree)(sums + lane, used, lanes);
  NAME(tree)(sums, lanes, 1);
  for (long p = whole; p < k; p++) {
    T w = NAME(element)(b, ldb, tb, p, j);
    const T *x = rows + p * NAME(block);
    for (int r = 0; r < NAME(block); r++)
      sums[0][r] = order->fused_tail ? FMA(x[r], w, sums[0][r]) : sums[0][r] + x[r] * w;
  }
}

void NAME(ordered)(const struct order *order, int ta, int tb, long m, long n, long k, T alpha, const T *a, long lda,
                   const T *b, long ldb, T beta, T *c, long ldc) {
  T *rows = malloc(sizeof(T) * (size_t)(NAME(block) * k + 1)), sums[LANES * ACCUMULATORS][NAME(block)];
  for (long i0 = 0; i0 < m; i0 += NAME(block)) {
    long count = m - i0 < NAME(block) ? m - i0 : NAME(block);
    NAME(pack)(rows, ta ? a + i0 * lda : a + i0, lda, ta, count, 0, k, NAME(block));
    for (long j = 0; j < n; j++) {
      NAME(dots)(order, k, rows, b, ldb, tb, j, sums);
      for (long i = 0; i < count; i++) NAME(finish)(sums[0][i], alpha, beta, c + i0 + i + j * ldc);
    }
  }
  free(rows);
}
