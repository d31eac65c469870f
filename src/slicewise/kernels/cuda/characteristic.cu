// Characteristic functions of projections at equally spaced points, and weighted sums of their terms.
//
// REAL are numbers. A block has THREADS threads and takes CHUNK numbers of one line. Points are k * STEP for k below
// POINTS. cos(k x) and sin(k x) follow from cos(x) and sin(x) by a recurrence of three terms, and weighted sums of them
// by Clenshaw's: two trigonometric functions are taken of a number, and nothing of its size times POINTS is kept.

constexpr unsigned EVERY = 0xffffffffu;
constexpr int WARPS = THREADS / 32;

__device__ __forceinline__ void both_of(float angle, float& sine, float& cosine) { sincosf(angle, &sine, &cosine); }
__device__ __forceinline__ void both_of(double angle, double& sine, double& cosine) { sincos(angle, &sine, &cosine); }

// out (2, rows, chunks, POINTS): sums of cosines, and of sines, over each chunk of lines (rows, n).
extern "C" __global__ void __launch_bounds__(THREADS) sums(
    double* out, const REAL* __restrict__ lines, int n, int rows, int chunks) {
  __shared__ double by_warp[2][WARPS][POINTS];
  const long long row = blockIdx.x / chunks;
  const int first = int(blockIdx.x % chunks) * CHUNK, end = min(first + CHUNK, n);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  REAL cosines[POINTS], sines[POINTS];
#pragma unroll
  for (int k = 0; k < POINTS; ++k) cosines[k] = sines[k] = 0;
  for (int i = first + int(threadIdx.x); i < end; i += THREADS) {
    REAL sine, cosine;
    both_of(lines[row * n + i] * REAL(STEP), sine, cosine);
    const REAL twice = 2 * cosine;
    REAL cos_before = 1, sin_before = 0;
    cosines[0] += 1;
#pragma unroll
    for (int k = 1; k < POINTS; ++k) {
      cosines[k] += cosine;
      sines[k] += sine;
      const REAL next_cosine = twice * cosine - cos_before, next_sine = twice * sine - sin_before;
      cos_before = cosine;
      sin_before = sine;
      cosine = next_cosine;
      sine = next_sine;
    }
  }
  // A thread has added few numbers: from here on in double precision.
#pragma unroll
  for (int k = 0; k < POINTS; ++k) {
    double one = cosines[k], other = sines[k];
    for (int apart = 16; apart > 0; apart /= 2) {
      one += __shfl_xor_sync(EVERY, one, apart);
      other += __shfl_xor_sync(EVERY, other, apart);
    }
    if (lane == 0) {
      by_warp[0][warp][k] = one;
      by_warp[1][warp][k] = other;
    }
  }
  __syncthreads();
  for (int place = threadIdx.x; place < 2 * POINTS; place += THREADS) {
    const int side = place / POINTS, k = place % POINTS;
    double total = 0;
    for (int w = 0; w < WARPS; ++w) total += by_warp[side][w][k];
    out[((long long)side * rows * chunks + blockIdx.x) * POINTS + k] = total;
  }
}

// out (rows, n): sum over k of a_k cos(k STEP u) + b_k sin(k STEP u), for coefficients (rows, POINTS) of each line.
extern "C" __global__ void __launch_bounds__(THREADS) slopes(
    REAL* out, const REAL* __restrict__ lines, const REAL* __restrict__ of_cosine, const REAL* __restrict__ of_sine, int n,
    int chunks) {
  __shared__ REAL a[POINTS], b[POINTS];
  const long long row = blockIdx.x / chunks;
  const int first = int(blockIdx.x % chunks) * CHUNK, end = min(first + CHUNK, n);
  for (int k = threadIdx.x; k < POINTS; k += THREADS) {
    a[k] = of_cosine[row * POINTS + k];
    b[k] = of_sine[row * POINTS + k];
  }
  __syncthreads();
  for (int i = first + int(threadIdx.x); i < end; i += THREADS) {
    REAL sine, cosine;
    both_of(lines[row * n + i] * REAL(STEP), sine, cosine);
    const REAL twice = 2 * cosine;
    REAL c_now = 0, c_after = 0, s_now = 0, s_after = 0;
#pragma unroll
    for (int k = POINTS - 1; k > 0; --k) {
      const REAL c = a[k] - c_after + twice * c_now, s = b[k] - s_after + twice * s_now;
      c_after = c_now;
      s_after = s_now;
      c_now = c;
      s_now = s;
    }
    out[row * n + i] = a[0] - c_after + cosine * c_now + sine * s_now;
  }
}
