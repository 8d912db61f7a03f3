// sgemm: the large product, packed and register-blocked. Every output is one accumulator, k ascending, each step fused; beta * D
// is added last. Blocks of k continue the chain from memory, so blocking changes no bit.
#include "gemm.h"

#include "../host_threads.h"
#include "../scratch.h"
#include "gemm_product.h"
#include "gemm_unpacked.h"
#include "small.h"

namespace densecore::DENSECORE_ISA {
namespace gemm {
namespace {

constexpr int64_t kDepth = 512;                 // k per block
constexpr int64_t kPanelFloats = 768 * 1024;    // panels whose sums are carried from one block of k to the next
constexpr int64_t kTileFloats = 384 * 1024;     // packed tiles of one block
// m * n * k up to which waking other threads costs more than it gains; few rows are bound by memory, which one thread keeps busy.
constexpr int64_t kSerialProduct = 64 * 64 * 64;
constexpr int64_t kSerialThinProduct = 4 * kSerialProduct;

constexpr int64_t kGroupPanels = 4;   // panels that meet a tile while it is in the first-level cache
constexpr int64_t kClaims = 4;        // groups a thread should find, so that a late one leaves its share to others
constexpr int64_t kRangeTiles = 8;    // tiles for which packing a panel once more is worth it
constexpr int64_t kUnitTiles = 8;     // tiles packed together where k is not contiguous, so that memory is read in lines

constexpr int64_t kSlice = 16;  // k packed at a time where the other index is contiguous

// Lanes past the edge get zeros: whatever lay there could be slow to multiply.
void clear(float* out, int64_t count) { std::memset(out, 0, static_cast<size_t>(count) * sizeof(float)); }

// One block of the product: a range of v and w, and a range of k.
struct Block {
  const Product& product;
  int64_t v_begin, v_end, w_begin, w_end, k_begin, k_end;
  float* panels;
  float* tiles;
  float* carry;  // sums of the k blocks before this one; unused if k is not split

  int64_t depth() const { return k_end - k_begin; }
  int64_t panel_count() const { return ceil_div(v_end - v_begin, kPanel); }
  int64_t tile_count() const { return ceil_div(w_end - w_begin, kRows); }
  int64_t tile_row(int64_t t) const { return w_begin + part_begin(w_end - w_begin, tile_count(), t); }
  float* panel(int64_t p) const { return panels + p * kPanel * depth(); }
  float* tile(int64_t t) const { return tiles + t * (kRows * depth() + kWidth); }
  int64_t panel_columns(int64_t p) const { return smaller(kPanel, v_end - v_begin - p * kPanel); }

  int64_t panel_pitch(int64_t p) const { return panel_columns(p) <= kWidth ? kWidth : kPanel; }

  // k values [from, to) of panel p or tile t, counted from the block's first.
  void pack_panel(int64_t p, int64_t from, int64_t to) const {
    const int64_t v = v_begin + p * kPanel, columns = panel_columns(p), pitch = panel_pitch(p);
    const Side& side = product.v_side;
    float* out = panel(p) + from * pitch;
    if (columns < pitch) clear(out, pitch * (to - from));
    pack({side.at(v, k_begin + from), side.stride, side.along_k}, columns, product.v_size - v, to - from, pitch, out);
  }
  void pack_tile(int64_t t, int64_t from, int64_t to) const {
    const int64_t row = tile_row(t), rows = tile_row(t + 1) - row;
    const Side& side = product.w_side;
    pack({side.at(row, k_begin + from), side.stride, side.along_k}, rows, product.w_size - row, to - from, rows,
         tile(t) + from * rows);
  }

  // Panels or tiles [first, end), in the order of memory: one after the other where k is contiguous, else by slices of k.
  void pack_panels(int64_t first, int64_t end) const {
    in_memory_order(product.v_side, first, end, [&](int64_t p, int64_t from, int64_t to) { pack_panel(p, from, to); });
  }
  void pack_tiles(int64_t first, int64_t end) const {
    in_memory_order(product.w_side, first, end, [&](int64_t t, int64_t from, int64_t to) { pack_tile(t, from, to); });
  }
  template <class F>
  void in_memory_order(const Side& side, int64_t first, int64_t end, const F& f) const {
    const int64_t step = side.along_k ? larger(1, depth()) : kSlice;
    for (int64_t k = 0; k < depth(); k += step) {
      for (int64_t i = first; i < end; ++i) f(i, k, smaller(depth(), k + step));
    }
  }

  void compute(int64_t p, int64_t t) const {
    const int64_t row = tile_row(t), rows = tile_row(t + 1) - row, columns = panel_columns(p), v = v_begin + p * kPanel;
    TileFn* run = choose_tile(columns <= kWidth ? 1 : kVectors, static_cast<int>(rows));
    const Output& out = product.out;
    float* kept = carry + (p * tile_count() + t) * kRows * kPanel;
    const float* in = k_begin == 0 ? nullptr : kept;
    if (k_end < product.depth) return run(depth(), panel(p), tile(t), in, kPanel, kept, kPanel);
    const bool whole = columns == kPanel || columns == kWidth;
    if (whole && out.plain() && out.v_stride == 1) {
      return run(depth(), panel(p), tile(t), in, kPanel, out.data + v + row * out.w_stride, out.w_stride);
    }
    alignas(64) float sums[kTileRows * kPanel];
    run(depth(), panel(p), tile(t), in, kPanel, sums, kPanel);
    write_tile(out, sums, v, row, columns, rows);
  }
};

// Of one block of k; whole cache lines, so that the panels behind them begin at one.
constexpr int64_t floats_of_tiles(int64_t count, int64_t depth) { return ceil_div(count * (kRows * depth + kWidth), 16) * 16; }

// One range of v and w, and some blocks of k, shared out among threads. A thread claims a group of panels and a range of tiles at a
// time, packs the panels for itself, and packs the tiles that it comes across and nobody has begun: all threads meet once, at the end.
struct Region {
  const Product& product;
  int64_t v_begin, v_end, w_begin, w_end;
  int64_t first_block, end_block, k_blocks;
  int64_t threads;
  int64_t group_panels, groups, ranges;
  float* tiles;   // of every block of k
  float* carry;
  float* panels;  // one group for each thread
  int32_t* states;  // of every block's units of tiles: untouched, begun, packed
  int32_t claimed = 0;

  int64_t k_begin(int64_t b) const { return part_begin(product.depth, k_blocks, b); }
  int64_t widest_block() const { return ceil_div(product.depth, k_blocks); }
  int64_t tile_count() const { return ceil_div(w_end - w_begin, kRows); }
  int64_t unit_tiles() const { return product.w_side.along_k ? 1 : kUnitTiles; }
  int64_t units() const { return ceil_div(tile_count(), unit_tiles()); }
  int64_t tile_floats() const { return floats_of_tiles(tile_count(), widest_block()); }

  Block block(int64_t b, int64_t group, int64_t thread) const {
    const int64_t v = v_begin + group * group_panels * kPanel;
    return {product, v, smaller(v + group_panels * kPanel, v_end), w_begin, w_end, k_begin(b), k_begin(b + 1),
            panels + thread * group_panels * kPanel * widest_block(), tiles + (b - first_block) * tile_floats(),
            carry + group * group_panels * tile_count() * kRows * kPanel};
  }

  void ensure_packed(const Block& block, int64_t b, int64_t t) const {
    enum : int32_t { kUntouched, kBegun, kPacked };
    const int64_t unit = product.w_side.along_k ? t : t / kUnitTiles;
    int32_t* state = states + (b - first_block) * units() + unit;
    if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == kPacked) return;
    int32_t expected = kUntouched;
    if (__atomic_compare_exchange_n(state, &expected, kBegun, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
      block.pack_tiles(unit * unit_tiles(), smaller((unit + 1) * unit_tiles(), tile_count()));
      __atomic_store_n(state, kPacked, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(state, __ATOMIC_ACQUIRE) != kPacked) yield_to_other_threads();
  }

  void run_group(int64_t group, int64_t range, int64_t thread) const {
    const int64_t first = part_begin(tile_count(), ranges, range), count = part_begin(tile_count(), ranges, range + 1) - first;
    const int64_t start = count * thread / threads;  // threads begin with different tiles, so that each packs some
    for (int64_t b = first_block; b < end_block; ++b) {
      const Block at = block(b, group, thread);
      const int64_t panels_here = at.panel_count();
      at.pack_panels(0, panels_here);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t t = first + start + i - (start + i < count ? 0 : count);
        ensure_packed(at, b, t);
        for (int64_t p = 0; p < panels_here; ++p) at.compute(p, t);
      }
    }
  }

  // One thread has nothing to claim.
  void run_alone() const {
    for (int64_t b = first_block; b < end_block; ++b) {
      block(b, 0, 0).pack_tiles(0, tile_count());
      for (int64_t group = 0; group < groups; ++group) {
        const Block at = block(b, group, 0);
        const int64_t panels_here = at.panel_count(), tiles_here = at.tile_count();
        at.pack_panels(0, panels_here);
        for (int64_t t = 0; t < tiles_here; ++t) {
          for (int64_t p = 0; p < panels_here; ++p) at.compute(p, t);
        }
      }
    }
  }

  void run_thread(int64_t thread) {
    for (;;) {
      const int64_t next = __atomic_fetch_add(&claimed, 1, __ATOMIC_RELAXED);
      if (next >= groups * ranges) return;
      run_group(next / ranges, next % ranges, thread);
    }
  }
};

void multiply(const Product& product, bool parallel) {
  const int64_t threads = parallel ? host_threads() : 1;
  const int64_t k_blocks = larger(1, ceil_div(product.depth, kDepth)), depth = larger(1, ceil_div(product.depth, k_blocks));
  const int64_t v_size = k_blocks == 1 ? product.v_size : smaller(product.v_size, larger(1, kPanelFloats / (depth * kPanel)) * kPanel);
  const int64_t w_size = smaller(product.w_size, larger(1, kTileFloats / (depth * kRows)) * kRows);
  const int64_t panel_count = ceil_div(v_size, kPanel), tile_count = ceil_div(w_size, kRows);
  const int64_t claims = threads == 1 ? 1 : kClaims * threads;
  const int64_t group_panels = smaller(kGroupPanels, ceil_div(panel_count, claims));
  const int64_t groups = ceil_div(panel_count, group_panels);
  const int64_t ranges = larger(1, smaller(ceil_div(claims, groups), tile_count / kRangeTiles));
  const int64_t tile_floats = floats_of_tiles(tile_count, depth);
  const int64_t blocks_at_once = threads == 1 ? 1 : smaller(k_blocks, larger(1, 2 * kTileFloats / tile_floats));
  const int64_t carry_floats = k_blocks == 1 ? 0 : groups * group_panels * kPanel * tile_count * kRows;
  const int64_t state_count = ceil_div(blocks_at_once * tile_count, kWidth) * kWidth;
  float* tiles = thread_scratch(Scratch::kGemm, blocks_at_once * tile_floats + carry_floats + threads * group_panels * kPanel * depth + state_count);
  float* carry = tiles + blocks_at_once * tile_floats;
  float* panels = carry + carry_floats;
  int32_t* states = reinterpret_cast<int32_t*>(panels + threads * group_panels * kPanel * depth);
  for (int64_t v = 0; v < product.v_size; v += v_size) {
    for (int64_t w = 0; w < product.w_size; w += w_size) {
      for (int64_t b = 0; b < k_blocks; b += blocks_at_once) {
        const int64_t v_end = smaller(v + v_size, product.v_size);
        Region region{product, v, v_end, w, smaller(w + w_size, product.w_size), b, smaller(b + blocks_at_once, k_blocks), k_blocks,
                      threads, group_panels, ceil_div(ceil_div(v_end - v, kPanel), group_panels), ranges, tiles, carry, panels, states};
        if (threads == 1) {
          region.run_alone();
        } else {
          std::memset(states, 0, static_cast<size_t>(state_count) * sizeof(int32_t));
          parallel_run(threads, [&](int64_t thread) { region.run_thread(thread); });
        }
      }
    }
  }
}

// What it costs to spread `v` over lanes and broadcast `w`: register tiles times cycles per step of k, plus for a transposed output
// about half a cycle per element.
double cost(int64_t v, int64_t w, int64_t depth, bool transposed_output) {
  const double vectors = static_cast<double>(ceil_div(v, kWidth)), rows = static_cast<double>(larger(w, 4));
  return vectors * rows * (static_cast<double>(depth) + (transposed_output ? kWidth / 2 : 0));
}

Product as_product(const GemmCall& call) {
  const Side a{call.a, call.lda, call.transa != 'N'}, b{call.b, call.ldb, call.transb == 'N'};
  if (cost(call.m, call.n, call.k, false) <= cost(call.n, call.m, call.k, true)) {
    return {a, b, call.m, call.n, call.k, {call.c, 1, call.ldc, call.d, call.d_row, call.d_column, call.alpha, call.beta}};
  }
  return {b, a, call.n, call.m, call.k, {call.c, call.ldc, 1, call.d, call.d_column, call.d_row, call.alpha, call.beta}};
}

void run_gemm(const Profile& profile, const GemmCall& call, bool parallel) {
  if (call.m == 0 || call.n == 0) return;
  const int64_t product = call.m * call.n * call.k;
  const BlasRule& rule = *profile.blas->find(BlasRoutine::kGemm, call.transa, call.m, call.n, call.k);
  if (!is_chain(rule.order) || !is_chain(rule.odd_last_column)) return small_gemm(rule, call);
  const Product sides = as_product(call);
  const bool parallel_product = parallel && product > kSerialProduct && host_threads() > 1;
  if (is_thin(sides)) multiply_thin(sides, parallel && product > kSerialThinProduct);
  else if (is_small(sides)) multiply_small(sides, parallel_product);
  else multiply(sides, parallel_product);
}

}  // namespace
}  // namespace gemm

void gemm_parallel(const Profile& profile, const GemmCall& call) { gemm::run_gemm(profile, call, true); }
void gemm_serial(const Profile& profile, const GemmCall& call) { gemm::run_gemm(profile, call, false); }

}  // namespace densecore::DENSECORE_ISA
