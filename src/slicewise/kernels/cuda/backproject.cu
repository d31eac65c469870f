// Back from the lines: each sample gets the sum over slices of factor * slope * slice, for few dimensions.
//
// Compiled for one REAL and DIM. A block takes 32 samples of one set; its rows of threads share the slices.

constexpr int SHARES = 8;

// By one warp: the mean of costs (sets, n_slices) over a set, into means (sets).
__device__ __forceinline__ void mean_of_set(REAL* means, const REAL* costs, long long set, int n_slices) {
  REAL sum = 0;
  for (int l = threadIdx.x; l < n_slices; l += 32) sum += costs[set * n_slices + l];
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  if (threadIdx.x == 0) means[set] = sum / n_slices;
}

// slopes (sets, n_slices, n), slices (sets or 1, n_slices, DIM), factors (sets, n_slices) or null, out (sets, n, DIM).
// With rates (sets): out = base - rate * sum, one step of a descent. With means (sets): those of the costs, too.
extern "C" __global__ void __launch_bounds__(32 * SHARES) turn(
    REAL* out, const REAL* slopes, const REAL* slices, const REAL* factors,
    const REAL* base, const REAL* rates, const REAL* costs, REAL* means, double scale, int n, int n_slices,
    int slices_shared, int blocks_a_set) {
  __shared__ REAL sums[SHARES][32][DIM];
  if (means && threadIdx.x < 32 && blockIdx.x % blocks_a_set == 0)
    mean_of_set(means, costs, blockIdx.x / blocks_a_set, n_slices);
  const long long set = blockIdx.x / blocks_a_set;
  const int lane = threadIdx.x % 32, share = threadIdx.x / 32;
  const int i = (blockIdx.x % blocks_a_set) * 32 + lane;
  REAL sum[DIM] = {};
  if (i < n) {
#pragma unroll 4
    for (int l = share; l < n_slices; l += SHARES) {
      const long long row = set * n_slices + l;
      REAL slope = slopes[row * n + i];
      if (factors) slope *= factors[row];
      const REAL* slice = slices + (slices_shared ? l : row) * DIM;
#pragma unroll
      for (int j = 0; j < DIM; ++j) sum[j] += slope * slice[j];
    }
  }
#pragma unroll
  for (int j = 0; j < DIM; ++j) sums[share][lane][j] = sum[j];
  __syncthreads();
  // The block's 32 * DIM numbers lie one after another in `out`.
  for (int k = threadIdx.x; k < 32 * DIM; k += 32 * SHARES) {
    const long long place = ((blockIdx.x % blocks_a_set) * 32LL) * DIM + k;
    if (place < (long long)n * DIM) {
      REAL total = 0;
#pragma unroll
      for (int s = 0; s < SHARES; ++s) total += sums[s][k / DIM][k % DIM];
      total *= REAL(scale);
      const long long at = set * n * DIM + place;
      out[at] = rates ? base[at] - rates[set] * total : total;
    }
  }
}

// out = base - rate * gradient, (sets, count), a step of a descent; and the means of costs (sets, n_slices).
extern "C" __global__ void __launch_bounds__(256) step(
    REAL* out, const REAL* base, const REAL* gradient, const REAL* rates, const REAL* costs, REAL* means,
    int count, int n_slices, int blocks_a_set) {
  const long long set = blockIdx.x / blocks_a_set;
  const int block = blockIdx.x % blocks_a_set;
  if (block == 0 && threadIdx.x < 32) mean_of_set(means, costs, set, n_slices);
  const REAL rate = rates[set];
  for (long long i = (long long)block * 256 + threadIdx.x; i < count; i += (long long)blocks_a_set * 256)
    out[set * count + i] = base[set * count + i] - rate * gradient[set * count + i];
}
