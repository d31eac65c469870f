// One block prices one line: sorts both sides, sums the cost, and leaves each sample its slope. Half of its
// threads sort u, the other half v, at the same time.
//
// Compiled for one size. REAL and WORD are numbers and the unsigned integers as wide; PADDED is a power of
// two, at least n and m; a thread holds ITEMS of them in registers; DIM is 0 where projections are given, else
// the dimension of the samples to project here; ORDER is p. MASSES is 0 for equal numbers of equal weights, 1 for
// unequal numbers of them, 2 where weights are given, as WEIGHTs. A block has SHARED bytes. Projections of a single
// set may be given as PARTS arrays to be added up. MOVED is 1 where v is the same on every line but for place and scale,
// and in order, 2 where slices alone say where that is: a block then has the threads and the memory of one side.
//
// A number and its index are sorted as one word: the number in fixed point over its line's range, the
// index below it. What is equal in fixed point is then put right by the numbers themselves.

#if MASSES != 2
typedef REAL WEIGHT;
#endif
constexpr int SIDES = MOVED ? 1 : 2;
constexpr int THREADS = PADDED / ITEMS;
constexpr int WARPS = THREADS / 32;
__device__ constexpr int log2_of(int n) { return n == 1 ? 0 : 1 + log2_of(n / 2); }
constexpr int INDEX_BITS = log2_of(PADDED);
constexpr int MANTISSA = sizeof(REAL) == 4 ? 23 : 52;  // more would round past the end
constexpr int SPARE = 8 * sizeof(WORD) - INDEX_BITS;
constexpr int KEY_BITS = MANTISSA < SPARE ? MANTISSA : SPARE;
constexpr WORD LARGEST_KEY = (WORD(1) << KEY_BITS) - 1;
constexpr WORD INDEX_MASK = (WORD(1) << INDEX_BITS) - 1;
constexpr int REPAIR_ROUNDS = 12;
// How many blocks a multiprocessor shall hold. Those of one side, in single precision, need no more registers than as many
// as it has room for can have: a thousand lines of 2,048 are then one wave on 132 multiprocessors.
constexpr int FULL = 2048 / THREADS < 32 ? 2048 / THREADS : 32;
constexpr int RESIDENT = MOVED && DIM == 0 && sizeof(REAL) == 4 && ITEMS <= 8 ? FULL : 1;

struct Shared {
  union {
    REAL line[SIDES][PADDED];
#if MASSES == 2
    Mass knots[2][PADDED];  // once lines are in order
#endif
  };
  union {
    WORD words[SIDES][PADDED];
    REAL numbers[SIDES][PADDED];
  } exchange;
  REAL lows[2][32];
  REAL highs[2][32];
#if MASSES > 0
  Edges<REAL> edges;
#endif
#if MASSES == 2
  double totals[2][32];
  Mass sums[2][32];
#endif
};
static_assert(sizeof(Shared) <= SHARED, "what the launch asks for");

__device__ __forceinline__ WORD smaller(WORD a, WORD b) { return a < b ? a : b; }
__device__ __forceinline__ WORD larger(WORD a, WORD b) { return a < b ? b : a; }

// One compare-exchange stage of the bitonic network over element thread * ITEMS + k.
template <int SIZE, int STRIDE>
__device__ __forceinline__ void stage(WORD (&a)[ITEMS], WORD* exchange, int thread) {
  if constexpr (STRIDE < ITEMS) {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      if ((k & STRIDE) == 0) {
        const bool up = SIZE < ITEMS ? (k & SIZE) == 0 : ((thread * ITEMS) & SIZE) == 0;
        const WORD low = smaller(a[k], a[k | STRIDE]), high = larger(a[k], a[k | STRIDE]);
        a[k] = up ? low : high;
        a[k | STRIDE] = up ? high : low;
      }
    }
  } else {
    constexpr int APART = STRIDE / ITEMS;  // threads
    const bool up = ((thread * ITEMS) & SIZE) == 0;
    const bool keep_smaller = ((thread & APART) == 0) == up;
    if constexpr (APART >= 32) {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) exchange[k * THREADS + thread] = a[k];
      __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      WORD other;
      if constexpr (APART >= 32) {
        other = exchange[k * THREADS + (thread ^ APART)];
      } else {
        other = __shfl_xor_sync(EVERY, a[k], APART);
      }
      a[k] = keep_smaller ? smaller(a[k], other) : larger(a[k], other);
    }
    if constexpr (APART >= 32) __syncthreads();
  }
}

template <int SIZE, int STRIDE>
__device__ __forceinline__ void merge(WORD (&a)[ITEMS], WORD* exchange, int thread) {
  stage<SIZE, STRIDE>(a, exchange, thread);
  if constexpr (STRIDE > 1) merge<SIZE, STRIDE / 2>(a, exchange, thread);
}

template <int SIZE>
__device__ __forceinline__ void sort_up_to(WORD (&a)[ITEMS], WORD* exchange, int thread) {
  if constexpr (SIZE > 2) sort_up_to<SIZE / 2>(a, exchange, thread);
  merge<SIZE, SIZE / 2>(a, exchange, thread);
}

// Numbers (or their projections) of one line into shared memory; their range, and the sum of their weights if there
// are any, on the way. Samples of weight zero may lie anywhere: they do not count.
__device__ __forceinline__ void load(
    REAL* line, const REAL* given, long long apart, const REAL* slice, const WEIGHT* weights, int n, int thread,
    REAL& low, REAL& high, double& total) {
  low = REAL(1) / REAL(0);
  high = -low;
  for (int i = thread; i < n; i += THREADS) {
    REAL value = 0;
    if constexpr (DIM == 0) {
      value = given[i];
#pragma unroll 8
      for (int part = 1; part < PARTS; ++part) value += given[part * apart + i];
    } else {
#pragma unroll
      for (int j = 0; j < DIM; ++j) value += slice[j] * given[(long long)i * DIM + j];
    }
#if MASSES == 2
    if (weights) {
      const double weight = weights[i];
      total += weight;
      if (!(weight > 0)) {
        line[i] = value == value ? value : REAL(0);  // NaN has no place in an order
        continue;
      }
    }
#endif
    line[i] = value;
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const REAL other_low = __shfl_xor_sync(EVERY, low, apart);
    const REAL other_high = __shfl_xor_sync(EVERY, high, apart);
    low = other_low < low ? other_low : low;
    high = other_high > high ? other_high : high;
#if MASSES == 2
    total += __shfl_xor_sync(EVERY, total, apart);
#endif
  }
}

__device__ __forceinline__ void pack(
    WORD (&a)[ITEMS], const REAL* line, int n, int thread, const REAL* lows, const REAL* highs) {
  REAL low = lows[0], high = highs[0];
#pragma unroll
  for (int w = 1; w < WARPS; ++w) {
    low = lows[w] < low ? lows[w] : low;
    high = highs[w] > high ? highs[w] : high;
  }
  // Where the range is 0, not finite or too small to divide by, all keys may be equal: repaired below.
  const REAL scale = high > low ? REAL(LARGEST_KEY) / (high - low) : REAL(0);
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int i = k * THREADS + thread;
    a[k] = ~WORD(0);  // padding goes last
    if (i < n) {
      const REAL place = (line[i] - low) * scale;
      // Written so that NaN becomes 0.
      const WORD key =
          place > REAL(0) ? WORD(place < REAL(LARGEST_KEY) ? place : REAL(LARGEST_KEY)) : WORD(0);
      a[k] = (key << INDEX_BITS) | WORD(i);
    }
  }
}

__device__ __forceinline__ bool same_key(WORD one, WORD other) {
  return ((one ^ other) >> INDEX_BITS) == 0;
}

// Of two neighbours that are equal in fixed point, only the numbers can tell the order.
__device__ __forceinline__ bool wrong_way(WORD one, WORD next, const REAL* line) {
  return same_key(one, next) && line[one & INDEX_MASK] > line[next & INDEX_MASK];
}

// Puts neighbours of one thread right, most of what there is to be put right.
__device__ __forceinline__ void settle_neighbours(WORD (&a)[ITEMS], const REAL* line, int n, int thread) {
#pragma unroll
  for (int k = 0; k + 1 < ITEMS; ++k) {
    if (thread * ITEMS + k + 1 < n && wrong_way(a[k], a[k + 1], line)) {
      const WORD other = a[k];
      a[k] = a[k + 1];
      a[k + 1] = other;
    }
  }
}

// Is anything left to be put right, within a thread or from one to the next?
__device__ __forceinline__ bool unsettled(
    const WORD (&a)[ITEMS], const REAL* line, const WORD* first, int n, int thread) {
  bool found = false;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    if (thread * ITEMS + k + 1 < n) {
      const WORD next = k + 1 < ITEMS ? a[k + 1 < ITEMS ? k + 1 : 0] : first[thread + 1];
      found |= wrong_way(a[k], next, line);
    }
  }
  return found;
}

__device__ __forceinline__ bool out_of_order(const REAL* line, WORD i, WORD j, int n) {
  if (i >= n || j >= n) return i > j;
  return line[i] > line[j] || (line[i] == line[j] && i > j);
}

// Put an almost sorted order right: neighbours swap until none wants to. If that takes long (numbers far
// denser than their range lets fixed point tell), sort the whole order by the numbers. All threads of the
// block must come here.
__device__ void repair(WORD (&a)[ITEMS], const REAL* line, WORD* order, int n, int thread) {
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) order[thread * ITEMS + k] = a[k] & INDEX_MASK;
  __syncthreads();
  bool unsettled = true;
  for (int round = 0; round < REPAIR_ROUNDS && unsettled; ++round) {
    bool swapped = false;
    for (int odd = 0; odd < 2; ++odd) {
      for (int i = 2 * thread + odd; i + 1 < n; i += 2 * THREADS) {
        const WORD here = order[i], next = order[i + 1];
        if (line[here] > line[next]) {
          order[i] = next;
          order[i + 1] = here;
          swapped = true;
        }
      }
      __syncthreads();
    }
    unsettled = __syncthreads_or(swapped);
  }
  if (unsettled) {
    for (int size = 2; size <= PADDED; size *= 2) {
      for (int stride = size / 2; stride > 0; stride /= 2) {
        for (int pair = thread; pair < PADDED / 2; pair += THREADS) {
          const int i = 2 * pair - (pair & (stride - 1)), j = i + stride;
          const WORD one = order[i], other = order[j];
          const bool up = (i & size) == 0;
          if (up ? out_of_order(line, one, other, n) : out_of_order(line, other, one, n)) {
            order[i] = other;
            order[j] = one;
          }
        }
        __syncthreads();
      }
    }
  }
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) a[k] = order[thread * ITEMS + k];
  __syncthreads();  // the order's place is used for other things next
}

// Sorts the lines of a block, one to each half of its threads: indices in order, rank thread * ITEMS + k.
__device__ __forceinline__ void sort_lines(
    WORD (&a)[ITEMS], Shared& shared, const REAL* given, long long apart, const REAL* slice, const WEIGHT* weights,
    int n, int side, int thread) {
  REAL low, high;
  double total = 0;
  load(shared.line[side], given, apart, slice, weights, n, thread, low, high, total);
  if (thread % 32 == 0) {
    shared.lows[side][thread / 32] = low;
    shared.highs[side][thread / 32] = high;
#if MASSES == 2
    shared.totals[side][thread / 32] = total;
#endif
  }
  __syncthreads();
  WORD* words = shared.exchange.words[side];
  pack(a, shared.line[side], n, thread, shared.lows[side], shared.highs[side]);
  sort_up_to<PADDED>(a, words, thread);
  settle_neighbours(a, shared.line[side], n, thread);
  words[thread] = a[0];
  __syncthreads();
  const bool left = unsettled(a, shared.line[side], words, n, thread);
  if (__syncthreads_or(left)) repair(a, shared.line[side], words, n, thread);
}

#if MOVED == 2
// The mean of the law along a slice, and the square of the slice's length: what each warp found of them. They lie where the
// range of a second line would; `sort_lines` has the barrier after which all threads may read them.
__device__ __forceinline__ void place_law(Shared& shared, const REAL* slice, const REAL* mean, int d, int thread) {
  REAL at = 0, square = 0;
  for (int j = thread; j < d; j += THREADS) {
    const REAL one = slice[j];
    at += one * mean[j];
    square += one * one;
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    at += __shfl_xor_sync(EVERY, at, apart);
    square += __shfl_xor_sync(EVERY, square, apart);
  }
  if (thread % 32 == 0) {
    shared.lows[1][thread / 32] = at;
    shared.highs[1][thread / 32] = square;
  }
}
#endif

#if MASSES > 0
// A rank's place in shared memory: threads that hold neighbouring ranks read and write side by side.
__device__ __forceinline__ int place(int rank) { return rank % ITEMS * THREADS + rank / ITEMS; }

// The samples at a thread's ranks, two in a register.
struct Order {
  unsigned pairs[ITEMS / 2];
  __device__ __forceinline__ explicit Order(const WORD (&a)[ITEMS]) {
#pragma unroll
    for (int k = 0; k < ITEMS; k += 2)
      pairs[k / 2] = unsigned(a[k] & INDEX_MASK) | unsigned(a[k + 1] & INDEX_MASK) << 16;
  }
  __device__ __forceinline__ int operator[](int k) const { return pairs[k / 2] >> (k % 2 * 16) & 0xffff; }
};

// A sorted line, in shared memory; see `price_cells`.
struct Line {
  Shared& shared;
  int n, m;
  REAL unit;
  __device__ __forceinline__ REAL& u(int i) { return shared.exchange.numbers[0][place(i)]; }
  __device__ __forceinline__ REAL& v(int j) { return shared.exchange.numbers[1][place(j)]; }
  // Beyond the last knot no cell has a width; the last number may be its rank's slope by now.
  __device__ __forceinline__ REAL u_number(int i) { return i < n ? u(i) : REAL(0); }
  __device__ __forceinline__ REAL v_number(int j) { return j < m ? v(j) : REAL(0); }
#if MASSES == 1
  typedef int Count;  // n * m of them in all
  static constexpr Count start = 0, BEYOND = 0x7fffffff;
  __device__ __forceinline__ Count u_end(int i) const { return (i + 1) * m; }
  __device__ __forceinline__ Count v_end(int j) const { return (j + 1) * n; }
#else
  typedef Mass Count;
  static constexpr Count start = 0, BEYOND = 2 * WHOLE;
  __device__ __forceinline__ Count u_end(int i) const { return shared.knots[0][place(i)]; }
  __device__ __forceinline__ Count v_end(int j) const { return shared.knots[1][place(j)]; }
#endif
};
#endif

#if MASSES == 2
// The knots of a side, in the place of its line. All threads of the block must come here.
__device__ __forceinline__ void lay_knots(
    Shared& shared, const Order& order, const WEIGHT* weights, int n, int side, int thread) {
  const int lane = thread % 32, warp = thread / 32;
  Mass* mine = shared.knots[side] + thread;  // the next is THREADS on
  Mass before = 0, total = 0;
  if (weights) {
    double whole = 0;
    for (int w = 0; w < WARPS; ++w) whole += shared.totals[side][w];
    Mass sum = 0;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      if (thread * ITEMS + k < n) mine[k * THREADS] = sum += share_of(double(weights[order[k]]), 1 / whole);
    }
    before = sum;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      const Mass other = __shfl_up_sync(EVERY, before, apart);
      if (lane >= apart) before += other;
    }
    if (lane == 31) shared.sums[side][warp] = before;
    before -= sum;
  }
  __syncthreads();
  if (weights) {
    for (int w = 0; w < WARPS; ++w) {
      before += w < warp ? shared.sums[side][w] : 0;
      total += shared.sums[side][w];
    }
  }
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int rank = thread * ITEMS + k;
    if (rank < n) mine[k * THREADS] = weights ? knot_of(before + mine[k * THREADS], total) : even_knot(rank, n);
  }
}

// What a count of 1 weighs; NaN if the weights of one side have no finite sum above 0.
__device__ __forceinline__ REAL unit_of(const Shared& shared, const WEIGHT* u_weights, const WEIGHT* v_weights) {
  double u_total = 0, v_total = 0;
  for (int w = 0; w < WARPS; ++w) {
    u_total += shared.totals[0][w];
    v_total += v_weights ? shared.totals[1][w] : 0;
  }
  const double infinite = 1 / 0.0;
  const bool fine =
      (!u_weights || (u_total > 0 && u_total < infinite)) && (!v_weights || (v_total > 0 && v_total < infinite));
  return fine ? REAL(1 / double(WHOLE)) : REAL(0) * REAL(infinite);
}
#endif

// u, v: projections (rows, n) and (rows, m), or samples (sets, n, DIM) where DIM > 0; `u_sets` of them, 1 if all share.
// slices (rows, DIM), or (n_slices, DIM) if `slices_shared`. v may be sorted projections (`v_sorted`): only
// half the threads are then needed. u_grad, v_grad may be null. Weights are (sets, n), (sets, m) or null.
// If MOVED, v are points (n,), which lie at loc + scale * v, and scale^2 * variance is added to the cost. Where it is 1, loc
// and scale are (v_sets, n_slices). Where it is 2, the law has a mean (v_sets, d) and is as wide in every direction.
extern "C" __global__ void __launch_bounds__(SIDES * THREADS, RESIDENT) match_rows(
    const REAL* u, const REAL* v, const REAL* slices, REAL* costs, REAL* u_grad, REAL* v_grad, int n, int n_slices,
    int u_sets, int v_sets, int slices_shared, int v_sorted
#if MASSES > 0
    , int m
#endif
#if MASSES == 2
    , const WEIGHT* u_weights, const WEIGHT* v_weights, int u_weight_sets, int v_weight_sets
#endif
#if MOVED == 1
    , const REAL* variance, const REAL* loc, const REAL* scale
#elif MOVED == 2
    , const REAL* variance, const REAL* mean, double width, int d
#endif
) {
  extern __shared__ unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const long long row = blockIdx.x;
  const long long set = row / n_slices, line = row % n_slices;
  const int side = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
#if MASSES == 0
  const int m = n;
#endif
  const int size = side == 0 ? n : m;
  const WEIGHT* weights = nullptr;
#if MASSES == 2
  if (u_weights && u_weight_sets > 1) u_weights += set * n;
  if (v_weights && v_weight_sets > 1) v_weights += set * m;
  weights = side == 0 ? u_weights : v_weights;
#endif

  // A row of projections, or the set to be projected.
  const bool projected = DIM == 0 || (side == 1 && v_sorted);
  const long long mine = (side == 0 ? u_sets : v_sets) == 1 ? 0 : set;
  const REAL* given = (side == 0 ? u : v) + (projected ? (mine * n_slices + line) * size : mine * size * DIM);
  REAL slice[DIM == 0 ? 1 : DIM];
  if constexpr (DIM > 0) {
#pragma unroll
    for (int j = 0; j < DIM; ++j) slice[j] = slices[(slices_shared ? line : row) * DIM + j];
  }
  WORD a[ITEMS];
#if MOVED == 2
  place_law(shared, slices + (slices_shared ? line : row) * d, mean + (v_sets == 1 ? 0 : set * d), d, thread);
#endif
  sort_lines(a, shared, given, (long long)n_slices * size, slice, weights, size, side, thread);

#if MOVED == 1
  const long long placed = (v_sets == 1 ? 0 : set) * n_slices + line;
  const REAL at = loc[placed], wide = scale[placed];
#elif MOVED == 2
  REAL at = 0, square = 0;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) {
    at += shared.lows[1][w];
    square += shared.highs[1][w];
  }
  const REAL wide = REAL(width) * REAL(sqrt(square));
#else
  // v in order of rank, in a layout that threads read and write side by side.
  REAL* v_ordered = shared.exchange.numbers[1];
  if (v_sorted) {
    const REAL* known = v + ((v_sets == 1 ? 0 : set) * n_slices + line) * m;
    for (int i = thread; i < m; i += THREADS) v_ordered[(i % ITEMS) * THREADS + i / ITEMS] = known[i];
  } else if (side == 1) {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      if (thread * ITEMS + k < m)
        v_ordered[k * THREADS + thread] = shared.line[1][a[k] & INDEX_MASK];
  }
#endif
  REAL* slopes = shared.exchange.numbers[0];
#if MASSES == 0
  __syncthreads();
  const REAL factor = REAL(1) / REAL(n);
  if (side == 0) {
    REAL total = 0;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      if (thread * ITEMS + k < n) {
        const int i = int(a[k] & INDEX_MASK);
        REAL cost, slope;
#if MOVED
        const REAL other = at + wide * v[thread * ITEMS + k];
#else
        const REAL other = v_ordered[k * THREADS + thread];
#endif
        price(shared.line[0][i] - other, cost, slope);
        total += cost;
        // Only this rank reads i, so its place may take what is written out next.
        shared.line[0][i] = slope * factor;
        slopes[k * THREADS + thread] = slope * factor;
      }
    }
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) total += __shfl_xor_sync(EVERY, total, apart);
    if (thread % 32 == 0) shared.lows[0][thread / 32] = total;
  }
  __syncthreads();
#if !MOVED
  if (v_grad) {
    if (side == 1) {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k)
        if (thread * ITEMS + k < n)
          shared.line[1][a[k] & INDEX_MASK] = -slopes[k * THREADS + thread];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 2 * THREADS) v_grad[row * n + i] = shared.line[1][i];
  }
#endif
  if (u_grad)
    for (int i = threadIdx.x; i < n; i += blockDim.x) u_grad[row * n + i] = shared.line[0][i];
  if (threadIdx.x == 0) {
    REAL sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += shared.lows[0][w];
#if MOVED
    costs[row] = sum / REAL(n) + wide * wide * *variance;
#else
    costs[row] = sum / REAL(n);
#endif
  }
#else
  const Order order(a);
  if (side == 0) {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      if (thread * ITEMS + k < n) slopes[k * THREADS + thread] = shared.line[0][order[k]];
  }
  __syncthreads();
#if MASSES == 1
  const REAL unit = REAL(1) / (REAL(n) * REAL(m));
#else
  const REAL unit = unit_of(shared, u_weights, v_weights);
  lay_knots(shared, order, weights, size, side, thread);
  if (v_sorted)
    for (int j = thread; j < m; j += THREADS) shared.knots[1][place(j)] = even_knot(j, m);
  __syncthreads();
#endif
  Line both{shared, n, m, unit};
  Priced<REAL> found = price_cells<REAL>(both, shared.edges);
  bool ignored;
  found.u.take(shared.edges.u, ignored);
  found.v.take(shared.edges.v, ignored);
  if (found.u.ended) both.u(found.i) = found.u.head;
  if (found.v.ended) both.v(found.j) = -found.v.head;
  if (threadIdx.x == 0) costs[row] = found.cost;
  __syncthreads();
  // From ranks to samples, where lines were.
  REAL* const grad = side == 0 ? u_grad : v_grad;
  if (grad) {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      if (thread * ITEMS + k < size)
        shared.line[side][order[k]] = shared.exchange.numbers[side][k * THREADS + thread];
  }
  __syncthreads();
  if (grad)
    for (int i = thread; i < size; i += THREADS) grad[row * size + i] = shared.line[side][i];
#endif
}

// Lines (rows, n) into out, each in order.
extern "C" __global__ void __launch_bounds__(THREADS) sort_rows(REAL* out, const REAL* lines, int n) {
  extern __shared__ unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  WORD a[ITEMS];
  const int thread = threadIdx.x;
  const long long start = (long long)blockIdx.x * n;
  if constexpr (DIM == 0) {
    sort_lines(a, shared, lines + start, 0, nullptr, nullptr, n, 0, thread);
    __syncthreads();
    REAL* ordered = shared.exchange.numbers[0];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      if (thread * ITEMS + k < n) ordered[thread * ITEMS + k] = shared.line[0][a[k] & INDEX_MASK];
    __syncthreads();
    for (int i = thread; i < n; i += THREADS) out[start + i] = ordered[i];
  }
}
