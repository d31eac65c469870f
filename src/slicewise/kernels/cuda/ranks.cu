// Long lines that are in order, priced. Taken together with price.cu, which says what masses and cells are.
//
// REAL are numbers, ORDER is p. A block has READERS threads, and takes CHUNK ranks, or a tile of READERS * CELLS cells.
// MASSES is 0 for equal numbers of equal weights, 1 for unequal numbers of them, 2 where weights are given.
//
// u (sets, n_slices, n) and v (sets, n_slices, m) are in order, one set if all rows share it; so are the indices of their
// samples. If MOVED, v are points (n,), which lie at loc + scale * v on each line: both (v_sets, n_slices).
// Where u_grad (rows, n) or v_grad (rows, m) is not null, it takes the slopes at the places the order names.

#if MASSES == 0
// sums (rows, chunks) take the costs.
extern "C" __global__ void __launch_bounds__(READERS) price_ranks(
    const REAL* __restrict__ u, const REAL* __restrict__ v, const unsigned* __restrict__ u_order,
    const unsigned* __restrict__ v_order, REAL* u_grad, REAL* v_grad, double* sums, int n, int n_slices,
    int u_sets, int v_sets, int chunks
#if MOVED
    , const REAL* loc, const REAL* scale
#endif
) {
  __shared__ double by_warp[READERS / 32];
  const int thread = threadIdx.x;
  const long long row = blockIdx.x / chunks;
  const int first = int(blockIdx.x % chunks) * CHUNK, end = min(first + CHUNK, n);
  const long long u_line = (u_sets == 1 ? row % n_slices : row) * n;
  const long long v_row = v_sets == 1 ? row % n_slices : row;
#if MOVED
  const REAL at = loc[v_row], wide = scale[v_row];
#endif
  const REAL factor = REAL(1) / REAL(n);
  double total = 0;
#pragma unroll 8
  for (int rank = first + thread; rank < end; rank += READERS) {
    REAL cost, slope;
#if MOVED
    const REAL other = at + wide * v[rank];
#else
    const REAL other = v[v_row * n + rank];
#endif
    price(u[u_line + rank] - other, cost, slope);
    total += double(cost);
    if (u_grad) u_grad[row * n + u_order[u_line + rank]] = slope * factor;
    if (v_grad) v_grad[row * n + v_order[v_row * n + rank]] = -slope * factor;
  }
  for (int apart = 16; apart > 0; apart /= 2) total += __shfl_xor_sync(EVERY, total, apart);
  if (thread % 32 == 0) by_warp[thread / 32] = total;
  __syncthreads();
  if (thread > 0) return;
  for (int w = 1; w < READERS / 32; ++w) total += by_warp[w];
  sums[blockIdx.x] = total;
}
#else
#if MASSES == 2
// A sum over the block up to this thread; `sums` must be fresh.
__device__ __forceinline__ Mass sum_up_to(Mass own, Mass* sums) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int apart = 1; apart < 32; apart *= 2) {
    const Mass other = __shfl_up_sync(EVERY, own, apart);
    if (lane >= apart) own += other;
  }
  if (lane == 31) sums[warp] = own;
  __syncthreads();
  for (int w = 0; w < warp; ++w) own += sums[w];
  return own;
}

// The mass of each chunk of ranks into sums (rows, chunks): shares (share_sets, n) of WHOLE, by sample, taken in the
// order (order_sets, n_slices, n). Sets are 1 where all rows share them.
extern "C" __global__ void __launch_bounds__(READERS) sum_masses(
    const Mass* __restrict__ shares, const unsigned* __restrict__ order, Mass* sums, int n, int n_slices, int share_sets,
    int order_sets, int chunks) {
  __shared__ Mass by_warp[READERS / 32];
  const long long row = blockIdx.x / chunks;
  const int first = int(blockIdx.x % chunks) * CHUNK, end = min(first + CHUNK, n);
  order += (order_sets == 1 ? row % n_slices : row) * n;
  shares += (share_sets == 1 ? 0 : row / n_slices) * n;
  Mass sum = 0;
#pragma unroll 8
  for (int rank = first + int(threadIdx.x); rank < end; rank += READERS) sum += shares[order[rank]];
  sum = sum_up_to(sum, by_warp);
  if (threadIdx.x == READERS - 1) sums[blockIdx.x] = sum;
}

// knots (rows, n): where each rank ends. up_to (rows, chunks) is the mass up to the end of a chunk.
extern "C" __global__ void __launch_bounds__(READERS) lay_knots(
    Mass* knots, const Mass* __restrict__ shares, const unsigned* __restrict__ order, const Mass* __restrict__ up_to, int n,
    int n_slices, int share_sets, int order_sets, int chunks) {
  __shared__ Mass by_warp[2][READERS / 32];
  const long long row = blockIdx.x / chunks;
  const int chunk = int(blockIdx.x % chunks), first = chunk * CHUNK, end = min(first + CHUNK, n);
  order += (order_sets == 1 ? row % n_slices : row) * n;
  shares += (share_sets == 1 ? 0 : row / n_slices) * n;
  up_to += row * chunks;
  const Mass total = up_to[chunks - 1];
  Mass before = chunk > 0 ? up_to[chunk - 1] : 0;
  int turn = 0;
  for (int start = first; start < end; start += READERS, turn ^= 1) {
    const int rank = start + int(threadIdx.x);
    const Mass sum = sum_up_to(rank < end ? shares[order[rank]] : 0, by_warp[turn]);
    if (rank < end) knots[row * n + rank] = knot_of(before + sum, total);
    for (int w = 0; w < READERS / 32; ++w) before += by_warp[turn][w];
  }
}

#endif

constexpr int TILE = READERS * CELLS;

// Both sides of a whole line: where ranks end.
struct Whole {
#if MASSES == 1
  typedef long long Count;
  int n, m;
  __device__ __forceinline__ Count u_end(int i) const { return (Count(i) + 1) * m; }
  __device__ __forceinline__ Count v_end(int j) const { return (Count(j) + 1) * n; }
#else
  typedef Mass Count;
  int n, m;
  const Mass* __restrict__ u_knots;  // null for equal weights
  const Mass* __restrict__ v_knots;
  __device__ __forceinline__ Count u_end(int i) const { return u_knots ? u_knots[i] : even_knot(i, n); }
  __device__ __forceinline__ Count v_end(int j) const { return v_knots ? v_knots[j] : even_knot(j, m); }
#endif

  // As `split`, by a warp: 32 places are tried at once.
  __device__ __forceinline__ int split_by_warp(int d) const {
    int low = max(d - m, 0), high = min(d, n);
    while (low < high) {
      const int step = (high - low + 31) / 32;
      const long long middle = low + (long long)step * (threadIdx.x % 32);
      const bool before = middle < high && u_end(int(middle)) <= v_end(d - 1 - int(middle));
      const int found = __popc(__ballot_sync(EVERY, before));
      if (found == 0) return low;
      high = int(min((long long)high, low + (long long)step * found));
      low += step * (found - 1) + 1;
    }
    return low;
  }
};

// Shared by a block: the numbers and knots of a tile, u's in front of v's, and for each side a number more, whose rank
// does not end here.
struct Tile {
  REAL numbers[TILE + 2];
#if MASSES == 2
  Mass knots[TILE];
#endif
  Edges<double> edges;
  int splits[2];
};

// The part of a line that is in a tile; see `price_cells`.
struct Line {
  Tile& tile;
  const Whole& whole;
  int n, m;              // knots of each side in this tile
  int u_first, v_first;  // ranks
  Whole::Count start;
  double unit;
  typedef Whole::Count Count;
  static constexpr Count BEYOND = Count(1) << 62;
  __device__ __forceinline__ REAL& u(int i) { return tile.numbers[min(i, n)]; }
  __device__ __forceinline__ REAL& v(int j) { return tile.numbers[n + 1 + min(j, m)]; }
  __device__ __forceinline__ REAL u_number(int i) { return u(i); }
  __device__ __forceinline__ REAL v_number(int j) { return v(j); }
#if MASSES == 1
  __device__ __forceinline__ Count u_end(int i) const { return whole.u_end(u_first + i); }
  __device__ __forceinline__ Count v_end(int j) const { return whole.v_end(v_first + j); }
#else
  __device__ __forceinline__ Count u_end(int i) const { return tile.knots[i]; }
  __device__ __forceinline__ Count v_end(int j) const { return tile.knots[n + j]; }
#endif
};

// What a tile knows of ranks that it shares with the tiles beside it, for each of (rows, tiles).
struct Ends {
  double* heads;  // slope of the first rank that ends in the tile, from the tile on
  double* tails;  // slope of the rank that does not end in it, or of all of it if none does
  int* ranks;     // the first rank that ends, -1 if none does
};

// Records one side of a tile, and completes ranks that several threads but only this tile looks at.
__device__ __forceinline__ void end_ranks(
    Walked<double>& side, const Carried<double>& carried, Ends ends, long long place, int first, REAL& number,
    double sign) {
  bool ended;
  if (side.take(carried, ended)) {
    if (side.ended) number = REAL(sign * side.head);
  } else if (side.ended && ends.heads) {
    ends.heads[place] = side.head;
  }
  if (threadIdx.x == 0 && ends.heads) {
    ends.tails[place] = side.tail;
    ends.ranks[place] = ended ? first : -1;
  }
}

// sums (rows, tiles) take the costs. Heads, tails and ranks (2, rows, tiles), u's first, are null if no gradient is
// asked for.
extern "C" __global__ void __launch_bounds__(READERS) price_tiles(
    const REAL* __restrict__ u, const REAL* __restrict__ v, const unsigned* __restrict__ u_order,
    const unsigned* __restrict__ v_order, REAL* u_grad, REAL* v_grad, double* sums, double* heads, double* tails,
    int* ranks, int n, int m, int n_slices, int u_sets, int v_sets, int tiles
#if MASSES == 2
    , const Mass* __restrict__ u_knots, const Mass* __restrict__ v_knots, const double* u_totals,
    const double* v_totals, int u_knot_sets, int v_knot_sets, int u_total_sets, int v_total_sets
#endif
) {
  __shared__ Tile tile;
  const int thread = threadIdx.x;
  const long long row = blockIdx.x / tiles;
  const int first = int(blockIdx.x % tiles) * TILE, cells = min(TILE, n + m - first);
  u += (u_sets == 1 ? row % n_slices : row) * n;
  v += (v_sets == 1 ? row % n_slices : row) * m;
#if MASSES == 1
  const Whole whole{n, m};
  const double unit = 1 / (double(n) * double(m));
#else
  if (u_knots) u_knots += (u_knot_sets == 1 ? row % n_slices : row) * n;
  if (v_knots) v_knots += (v_knot_sets == 1 ? row % n_slices : row) * m;
  const Whole whole{n, m, u_knots, v_knots};
  const double u_total = u_totals ? u_totals[u_total_sets == 1 ? 0 : row / n_slices] : 1;
  const double v_total = v_totals ? v_totals[v_total_sets == 1 ? 0 : row / n_slices] : 1;
  const double infinite = 1 / 0.0;
  const bool fine = u_total > 0 && u_total < infinite && v_total > 0 && v_total < infinite;
  const double unit = fine ? 1 / double(WHOLE) : 0 * infinite;
#endif
  if (thread < 64) {
    const int found = whole.split_by_warp(thread < 32 ? first : first + cells);
    if (thread % 32 == 0) tile.splits[thread / 32] = found;
  }
  __syncthreads();
  const int i = tile.splits[0], j = first - i;
  const int of_u = max(0, min(tile.splits[1] - i, cells)), of_v = cells - of_u;
  for (int k = thread; k < cells + 2; k += READERS)
    tile.numbers[k] = k <= of_u ? u[min(i + k, n - 1)] : v[min(j + k - of_u - 1, m - 1)];
#if MASSES == 2
  for (int k = thread; k < cells; k += READERS)
    tile.knots[k] = k < of_u ? whole.u_end(min(i + k, n - 1)) : whole.v_end(min(j + k - of_u, m - 1));
#endif
  Whole::Count start = 0;
  if (i > 0) start = whole.u_end(i - 1);
  if (j > 0) start = max(start, whole.v_end(j - 1));
  __syncthreads();
  Line line{tile, whole, of_u, of_v, i, j, start, unit};
  Priced<double> found = price_cells<double>(line, tile.edges);
  if (thread == 0) sums[blockIdx.x] = found.cost;
  if (!u_grad && !v_grad) return;
  const long long all = gridDim.x;
  const Ends u_ends = u_grad ? Ends{heads, tails, ranks} : Ends{};
  const Ends v_ends = v_grad ? Ends{heads + all, tails + all, ranks + all} : Ends{};
  end_ranks(found.u, tile.edges.u, u_ends, blockIdx.x, i, line.u(found.i), 1);
  end_ranks(found.v, tile.edges.v, v_ends, blockIdx.x, j, line.v(found.j), -1);
  __syncthreads();
  // The first rank may have begun before: `settle` completes it.
  if (u_grad) {
    u_order += (u_sets == 1 ? row % n_slices : row) * n;
    for (int k = thread + 1; k < of_u; k += READERS) u_grad[row * n + u_order[i + k]] = tile.numbers[k];
  }
  if (v_grad) {
    v_order += (v_sets == 1 ? row % n_slices : row) * m;
    for (int k = thread + 1; k < of_v; k += READERS)
      v_grad[row * m + v_order[j + k]] = tile.numbers[of_u + 1 + k];
  }
}

// Completes the first rank that ends in each tile. One block for each row of u, then of v, of `rows`.
extern "C" __global__ void __launch_bounds__(READERS) settle(
    const unsigned* __restrict__ u_order, const unsigned* __restrict__ v_order, REAL* u_grad, REAL* v_grad,
    const double* __restrict__ heads, const double* __restrict__ tails, const int* __restrict__ ranks, int n, int m,
    int n_slices, int u_sets, int v_sets, int rows, int tiles) {
  __shared__ Carried<double> carried[2];
  const bool of_u = blockIdx.x < rows;
  REAL* grad = of_u ? u_grad : v_grad;
  if (!grad) return;
  const long long row = of_u ? blockIdx.x : blockIdx.x - rows;
  const int size = of_u ? n : m;
  const unsigned* order = of_u ? u_order : v_order;
  order += ((of_u ? u_sets : v_sets) == 1 ? row % n_slices : row) * size;
  grad += row * size;
  const long long place = (long long)blockIdx.x * tiles;
  double before = 0;  // of the rank that has not ended yet, in all tiles so far
  int turn = 0;
  for (int start = 0; start < tiles; start += READERS, turn ^= 1) {
    const int mine = start + int(threadIdx.x);
    const int rank = mine < tiles ? ranks[place + mine] : -1;
    Walked<double> side;
    side.ended = rank >= 0;
    side.head = side.ended ? heads[place + mine] : 0;
    side.tail = mine < tiles ? tails[place + mine] : 0;
    side.leave(carried[turn]);
    __syncthreads();
    bool ended;
    if (!side.take(carried[turn], ended)) side.head += before;
    if (side.ended) grad[order[rank]] = REAL(of_u ? side.head : -side.head);
    before = ended ? side.tail : before + side.tail;
  }
}
#endif
