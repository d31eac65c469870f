// Rows of vectors, a team of threads to each: what both drawing and climbing are made of.
//
// Compiled for one REAL, and for TEAM threads to a row: part of a warp, a warp, or a whole block.

constexpr int BLOCK = TEAM > 128 ? TEAM : 128;
constexpr unsigned EVERY = 0xffffffffu;
constexpr int IN_WARP = TEAM < 32 ? TEAM : 32;

__device__ __forceinline__ REAL team_sum(REAL value) {
#pragma unroll
  for (int apart = IN_WARP / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(EVERY, value, apart);
  if constexpr (TEAM > 32) {
    __shared__ REAL sums[TEAM / 32 + 1];
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < TEAM / 32; ++warp) value += sums[warp];
  }
  return value;
}

__device__ __forceinline__ REAL team_largest(REAL value) {
#pragma unroll
  for (int apart = IN_WARP / 2; apart > 0; apart /= 2) {
    const REAL other = __shfl_xor_sync(EVERY, value, apart);
    value = other > value ? other : value;
  }
  if constexpr (TEAM > 32) {
    __shared__ REAL tops[TEAM / 32 + 1];
    __syncthreads();
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = value;
    __syncthreads();
    for (int warp = 0; warp < TEAM / 32; ++warp) value = tops[warp] > value ? tops[warp] : value;
  }
  return value;
}

__device__ __forceinline__ REAL square_root(REAL value) { return sqrt(value); }

struct Row {
  long long index;  // of all rows
  int lane;
  bool there;
};

__device__ __forceinline__ Row my_row(long long rows) {
  const int teams = blockDim.x / TEAM;
  const long long index = (long long)blockIdx.x * teams + threadIdx.x / TEAM;
  return {index, int(threadIdx.x % TEAM), index < rows};
}

// A row divided by its length, careful of its size; the first axis if it is zero.
__device__ __forceinline__ void normalise_row(REAL* out, const REAL* given, int d, int lane) {
  REAL largest = 0;
  bool unordered = false;
  for (int j = lane; j < d; j += TEAM) {
    const REAL size = given[j] < 0 ? -given[j] : given[j];
    largest = size > largest ? size : largest;
    unordered |= !(size <= size);
  }
  largest = team_largest(largest);
  if (team_sum(REAL(unordered)) > 0) largest = REAL(0) / REAL(0);
  const REAL divisor = largest == 0 ? REAL(1) : largest;
  REAL square = 0;
  for (int j = lane; j < d; j += TEAM) {
    const REAL scaled = given[j] / divisor;
    square += scaled * scaled;
  }
  const REAL length = square_root(team_sum(square));
  for (int j = lane; j < d; j += TEAM)
    out[j] = largest == 0 ? REAL(j == 0) : given[j] / divisor / length;
}

extern "C" __global__ void __launch_bounds__(BLOCK) normalise_rows(REAL* out, const REAL* given, int rows, int d) {
  const Row row = my_row(rows);
  if (row.there) normalise_row(out + row.index * d, given + row.index * d, d, row.lane);
}

// Rows (rows, d) to unit length, and what their length was; 1 for a zero row.
extern "C" __global__ void __launch_bounds__(BLOCK) unit_rows(
    REAL* out, REAL* lengths, const REAL* given, int rows, int d) {
  const Row row = my_row(rows);
  if (!row.there) return;
  const REAL* mine = given + row.index * d;
  REAL square = 0;
  for (int j = row.lane; j < d; j += TEAM) square += mine[j] * mine[j];
  const REAL length = square_root(team_sum(square));
  if (row.lane == 0) lengths[row.index] = length > 0 ? length : REAL(1);
  normalise_row(out + row.index * d, mine, d, row.lane);
}

// Slices (sets, n_slices, d) after one step up their costs (sets, n_slices), by gradients of the shape of the
// slices. `rate` < 0: the unit gradient, nothing where it is zero. Else a step of that rate on the p-th root
// of the cost summed over `points`; `coupled`, on the root of the mean over all slices of a set.
extern "C" __global__ void __launch_bounds__(BLOCK) ascend_rows(
    REAL* out, const REAL* slices, const REAL* gradients, const REAL* costs, double rate, double p,
    double points, int coupled, int back_to_sphere, int rows, int n_slices, int d) {
  const Row row = my_row(rows);
  if (!row.there) return;
  const REAL* slice = slices + row.index * d;
  const REAL* gradient = gradients + row.index * d;
  REAL* mine = out + row.index * d;
  if (rate < 0) {
    normalise_row(mine, gradient, d, row.lane);
    REAL largest = 0;
    for (int j = row.lane; j < d; j += TEAM) largest = gradient[j] != 0 ? REAL(1) : largest;
    const bool still = team_largest(largest) == 0;
    for (int j = row.lane; j < d; j += TEAM) mine[j] = slice[j] + (still ? REAL(0) : mine[j]);
  } else {
    REAL cost = costs[row.index] * REAL(points), share = REAL(points);
    if (coupled) {
      cost = 0;
      const REAL* all = costs + row.index / n_slices * n_slices;
      for (int l = 0; l < n_slices; ++l) cost += all[l] * REAL(points);
      cost /= n_slices;
      share /= n_slices;
    }
    // d cost^(1/p) = cost^(1/p - 1) / p; where the cost is 0 so is its gradient.
    const REAL step = REAL(REAL(rate) * share * pow(cost > 0 ? cost : REAL(1), REAL(1 / p - 1)) / REAL(p));
    for (int j = row.lane; j < d; j += TEAM) mine[j] = slice[j] + step * gradient[j];
  }
  if (back_to_sphere) normalise_row(mine, mine, d, row.lane);
}

// For slices that a map made (see PushForward): how the raw vectors behind them, of these lengths, should turn.
// outer * ascent - 2 * penalty / n_slices^2 * closeness, what is orthogonal to the slice, over the length;
// outer from the mean cost of a set.
extern "C" __global__ void __launch_bounds__(BLOCK) turn_rows(
    REAL* out, const REAL* slices, const REAL* ascent, const REAL* closeness, const REAL* lengths,
    const REAL* means, double p, double points, double penalty, int rows, int n_slices, int d) {
  const Row row = my_row(rows);
  if (!row.there) return;
  const REAL mean = means[row.index / n_slices] * REAL(points);
  const REAL outer = mean > 0 ? REAL(pow(mean, REAL(1 / p - 1)) * REAL(points / p / n_slices)) : REAL(0);
  const REAL apart = REAL(2 * penalty / n_slices / n_slices);
  const REAL* slice = slices + row.index * d;
  REAL* mine = out + row.index * d;
  REAL along = 0;
  for (int j = row.lane; j < d; j += TEAM) {
    mine[j] = outer * ascent[row.index * d + j] - apart * closeness[row.index * d + j];
    along += mine[j] * slice[j];
  }
  along = team_sum(along);
  for (int j = row.lane; j < d; j += TEAM) mine[j] = (mine[j] - along * slice[j]) / lengths[row.index];
}

// One step of Adam uphill, number by number; numbers of one set have one count of steps.
extern "C" __global__ void __launch_bounds__(BLOCK) adam(
    REAL* value, REAL* first, REAL* second, const REAL* old_value, const REAL* old_first,
    const REAL* old_second, const REAL* gradient, const long long* steps, double rate, double early,
    double late, int count, int per_set) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const REAL step = REAL(steps[i / per_set]);
  const REAL g = gradient[i];
  const REAL m = old_first[i] + REAL(1 - early) * (g - old_first[i]);
  const REAL v = old_second[i] + REAL(1 - late) * (g * g - old_second[i]);
  const REAL direction = m / (1 - REAL(pow(REAL(early), step)));
  const REAL size = square_root(v / (1 - REAL(pow(REAL(late), step)))) + REAL(1e-8);
  first[i] = m;
  second[i] = v;
  value[i] = old_value[i] + REAL(rate) * direction / size;
}

// The largest size of a number in each of (sets, count), into out (sets), which must hold zeros.
extern "C" __global__ void __launch_bounds__(BLOCK) largest_of(
    REAL* out, const REAL* given, int count, int blocks_a_set) {
  const long long set = blockIdx.x / blocks_a_set;
  const long long first = (long long)(blockIdx.x % blocks_a_set) * blockDim.x + threadIdx.x;
  REAL largest = 0;
  for (long long i = first; i < count; i += (long long)blocks_a_set * blockDim.x) {
    const REAL size = given[set * count + i] < 0 ? -given[set * count + i] : given[set * count + i];
    largest = size <= largest || largest != largest ? largest : size;  // NaN is kept
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const REAL other = __shfl_xor_sync(EVERY, largest, apart);
    largest = other <= largest || largest != largest ? largest : other;
  }
  if (threadIdx.x % 32 == 0) {
    // Numbers >= 0 are in order as integers are; NaN, without a sign, is above them all.
    if constexpr (sizeof(REAL) == 4)
      atomicMax(reinterpret_cast<unsigned*>(out + set), __float_as_uint(float(largest)) & 0x7fffffffu);
    else
      atomicMax(
          reinterpret_cast<unsigned long long*>(out + set),
          (unsigned long long)__double_as_longlong(double(largest)) & 0x7fffffffffffffffull);
  }
}
