// Many long lines sorted at once: a stable radix sort, least digit first.
//
// KEY are unsigned integers as wide as the numbers, compared as those are. THREADS hold ITEMS keys each, a tile;
// RESIDENT blocks of them should fit a multiprocessor, each with SHARED bytes. A block that counts has READERS threads
// and reads CHUNK numbers. Lines of u have n numbers, those of v have m.
//
// A pass reads its keys once. A tile learns where its digits go from the tiles before it in its line: each
// leaves word of its own counts as soon as it knows them, and of all counts up to it once it knows those.

constexpr int DIGITS = 256;
constexpr int PASSES = sizeof(KEY);
constexpr int TILE = THREADS * ITEMS, WARPS = THREADS / 32;
constexpr int COPIES = 4;   // of each counter, so that equal digits in a warp collide less
constexpr int AT_ONCE = 4;  // items voted on, or tiles looked back at, before the first is needed
constexpr int BATCH = 8;    // numbers a reader asks for at once
constexpr unsigned EVERY = 0xffffffffu;
constexpr KEY SIGN = KEY(1) << (8 * sizeof(KEY) - 1);
constexpr KEY INFINITE = sizeof(KEY) == 4 ? KEY(0x7f800000) : KEY(0x7ff0000000000000ull);
constexpr KEY LAST = ~KEY(0);  // as a number, NaN
// What a tile says of a digit: a count, and whether it is the tile's own or that of all up to it, to which
// the smaller digits of the line are added. No word is 0.
constexpr unsigned OWN = 1u << 30, WHOLE = 1u << 31, COUNT = OWN - 1;

static_assert(THREADS >= DIGITS && THREADS % 32 == 0 && ITEMS % AT_ONCE == 0, "one thread to a digit");
static_assert(CHUNK % (BATCH * READERS) == 0, "whole batches");

struct Shared {
  KEY keys[TILE];
  unsigned values[TILE];
  unsigned counts[WARPS][DIGITS];
  unsigned starts[DIGITS];
  unsigned sums[2][WARPS];
  unsigned ticket;
};
static_assert(sizeof(Shared) <= SHARED, "what the launch asks for");

// Keys in the order of the numbers: -0 is 0, and NaN of either sign comes last.
__device__ __forceinline__ KEY ordered(KEY bits) {
  const KEY size = bits & ~SIGN;
  if (size > INFINITE) return LAST;
  if (size == 0) return SIGN;
  return bits & SIGN ? ~bits : bits | SIGN;
}

__device__ __forceinline__ KEY restored(KEY key) { return key & SIGN ? key ^ SIGN : ~key; }
__device__ __forceinline__ int digit_of(KEY key, int pass) { return int(key >> (8 * pass)) & (DIGITS - 1); }

// Keeps what was computed from a number from being held in registers for later: it is cheap to compute.
__device__ __forceinline__ void forget(int& number) { asm volatile("" : "+r"(number)); }

// A word another block may be writing: read and written whole, and it is all there is to know.
__device__ __forceinline__ unsigned heard(const unsigned* word) { return *(const volatile unsigned*)word; }
__device__ __forceinline__ void say(unsigned* word, unsigned what) { *(volatile unsigned*)word = what; }

// How often each digit of each pass occurs in a line, added to totals (rows, PASSES, DIGITS): first the
// `u_rows` of u, then those of v.
extern "C" __global__ void __launch_bounds__(READERS) count_digits(
    const KEY* __restrict__ u, const KEY* __restrict__ v, unsigned* totals, int n, int m, int u_rows, int chunks) {
  __shared__ unsigned counts[PASSES * DIGITS][COPIES];
  const int thread = threadIdx.x, copy = thread % COPIES;
  for (int i = thread; i < PASSES * DIGITS * COPIES; i += READERS) counts[i / COPIES][i % COPIES] = 0;
  __syncthreads();
  const long long row = blockIdx.x / chunks;
  const KEY* line = row < u_rows ? u + row * n : v + (row - u_rows) * m;
  if (row >= u_rows) n = m;
  const int first = int(blockIdx.x % chunks) * CHUNK;
  for (int start = first + thread; start < first + CHUNK; start += BATCH * READERS) {
    KEY batch[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; ++k) batch[k] = start + k * READERS < n ? line[start + k * READERS] : 0;
#pragma unroll
    for (int k = 0; k < BATCH; ++k) {
      if (start + k * READERS < n) {
        const KEY key = ordered(batch[k]);
        for (int pass = 0; pass < PASSES; ++pass)
          atomicAdd(&counts[pass * DIGITS + digit_of(key, pass)][copy], 1u);
      }
    }
  }
  __syncthreads();
  for (int i = thread; i < PASSES * DIGITS; i += READERS) {
    unsigned sum = 0;
    for (int c = 0; c < COPIES; ++c) sum += counts[i][c];
    if (sum > 0) atomicAdd(&totals[row * PASSES * DIGITS + i], sum);
  }
}

// The sum of what the threads before this one in its block bring; `sums` must be fresh.
__device__ __forceinline__ unsigned sum_before(unsigned own, unsigned* sums) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned sum = own;
  for (int apart = 1; apart < 32; apart *= 2) {
    const unsigned other = __shfl_up_sync(EVERY, sum, apart);
    if (lane >= apart) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  sum -= own;
  for (int w = 0; w < WARPS; ++w) sum += w < warp ? sums[w] : 0;
  return sum;
}

// Where a digit of a tile > 0 goes, from the words (tiles, DIGITS) of its line, at that digit.
__device__ __forceinline__ unsigned look_back(const unsigned* words, int tile) {
  unsigned before = 0;
  for (int back = tile - 1;;) {
    unsigned seen[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) seen[j] = heard(words + (long long)max(back - j, 0) * DIGITS);
    bool known = true;
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      known = known && seen[j] != 0;
      if (known) {
        before += seen[j] & COUNT;
        --back;
        if (seen[j] & WHOLE) return before;  // at the first tile at the latest: it says nothing else
      }
    }
  }
}

// Each key's rank among those of its warp with its digit, in the order the tile came in.
__device__ __forceinline__ void rank_in_warp(
    unsigned (&ranks)[ITEMS], const KEY (&keys)[ITEMS], unsigned* counts, int pass) {
  const unsigned below_me = (1u << (threadIdx.x % 32)) - 1;
#pragma unroll
  for (int first = 0; first < ITEMS; first += AT_ONCE) {
    unsigned alike[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      const int digit = digit_of(keys[first + j], pass);
      alike[j] = EVERY;
      for (int bit = 0; bit < 8; ++bit) {
        const bool set = (digit >> bit) & 1;
        const unsigned votes = __ballot_sync(EVERY, set);
        alike[j] &= set ? votes : ~votes;
      }
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      unsigned* count = counts + digit_of(keys[first + j], pass);
      const unsigned below = __popc(alike[j] & below_me), so_far = *count;
      __syncwarp();
      if (below == 0) *count = so_far + __popc(alike[j]);
      __syncwarp();
      ranks[first + j] = so_far + below;
    }
  }
}

// One tile through one pass: `from`, `to` and their indices are a line's, `totals` and `words` its digits'.
template <bool PAIRED>
__device__ __forceinline__ void sweep_tile(
    Shared& shared, const KEY* __restrict__ from, KEY* __restrict__ to, const unsigned* __restrict__ index_from,
    unsigned* __restrict__ index_to, const unsigned* totals, unsigned* words, int n, int tile, int pass) {
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int first = tile * TILE + warp * 32 * ITEMS + lane;  // of this thread; its next is 32 on
  int left = n - first;

  KEY keys[ITEMS];
  from += first;
  // Padding has the last digit and comes after all else that has it: nothing gives way to it.
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) keys[k] = 32 * k < left ? from[32 * k] : LAST;
  if (pass == 0) {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) keys[k] = ordered(keys[k]);
  }
  for (int d = lane; d < DIGITS; d += 32) shared.counts[warp][d] = 0;
  __syncwarp();
  unsigned ranks[ITEMS];
  rank_in_warp(ranks, keys, shared.counts[warp], pass);
  __syncthreads();

  unsigned own = 0, before = 0;
  unsigned* word = words + (long long)tile * DIGITS + thread;
  if (thread < DIGITS) {
    for (int w = 0; w < WARPS; ++w) own += shared.counts[w][thread];
    if (tile > 0) say(word, OWN | own);
  }
  const unsigned start = sum_before(own, shared.sums[0]);
  if (tile == 0) {
    before = sum_before(thread < DIGITS ? totals[thread] : 0, shared.sums[1]);
    if (thread < DIGITS) say(word, WHOLE | (before + own));
  }
  if (thread < DIGITS) {
    unsigned running = start;
    for (int w = 0; w < WARPS; ++w) {
      const unsigned count = shared.counts[w][thread];
      shared.counts[w][thread] = running;
      running += count;
    }
  }
  __syncthreads();

  // Put in order within the tile first, so that neighbours are written to neighbouring places.
  forget(pass);
  forget(left);
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    ranks[k] += shared.counts[warp][digit_of(keys[k], pass)];
    shared.keys[ranks[k]] = keys[k];
  }
  unsigned values[PAIRED ? ITEMS : 1];
  if constexpr (PAIRED) {  // on their way while others are waited for
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) values[k] = first + 32 * k;
    if (pass > 0) {
      index_from += first;
#pragma unroll
      for (int k = 0; k < ITEMS; ++k)
        if (32 * k < left) values[k] = index_from[32 * k];
    }
  }
  if (thread < DIGITS) {
    if (tile > 0) {
      before = look_back(words + thread, tile);
      say(word, WHOLE | (before + own));
    }
    shared.starts[thread] = before - start;
  }
  if constexpr (PAIRED) {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) shared.values[ranks[k]] = values[k];
  }
  __syncthreads();

#pragma unroll 4
  for (int i = thread; i < min(n - tile * TILE, TILE); i += THREADS) {
    const KEY key = shared.keys[i];
    const unsigned target = shared.starts[digit_of(key, pass)] + unsigned(i);
    to[target] = pass == PASSES - 1 ? restored(key) : key;
    if constexpr (PAIRED) index_to[target] = shared.values[i];
  }
}

// One pass over the `u_rows` lines of u and the others, of v. Indices go along where `..._index_to` is not
// null. totals (rows, PASSES, DIGITS) as counted; words (PASSES, rows, tiles, DIGITS) and tickets (PASSES)
// begin as 0. The first pass reads numbers, the last writes them.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) sweep(
    const KEY* u_from, KEY* u_to, const unsigned* u_index_from, unsigned* u_index_to, const KEY* v_from,
    KEY* v_to, const unsigned* v_index_from, unsigned* v_index_to, const unsigned* totals, unsigned* words,
    unsigned* tickets, int n, int m, int u_rows, int rows, int tiles, int pass) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  // By ticket, a tile begins after those it waits for, however blocks are scheduled. Lines take turns, so
  // that few tiles of one are under way at a time.
  if (threadIdx.x == 0) shared.ticket = atomicAdd(&tickets[pass], 1u);
  __syncthreads();
  const int tile = int(shared.ticket / unsigned(rows));
  const long long row = shared.ticket % unsigned(rows);
  totals += (row * PASSES + pass) * DIGITS;
  words += ((long long)pass * rows + row) * tiles * DIGITS;
  const bool of_u = row < u_rows;
  if (!of_u) n = m;
  if ((long long)tile * TILE >= n) return;  // the other side has more tiles
  const long long line = (of_u ? row : row - u_rows) * n;
  const KEY* from = (of_u ? u_from : v_from) + line;
  KEY* to = (of_u ? u_to : v_to) + line;
  const unsigned* index_from = (of_u ? u_index_from : v_index_from) + line;
  unsigned* index_to = of_u ? u_index_to : v_index_to;
  if (index_to)
    sweep_tile<true>(shared, from, to, index_from, index_to + line, totals, words, n, tile, pass);
  else
    sweep_tile<false>(shared, from, to, nullptr, nullptr, totals, words, n, tile, pass);
}
