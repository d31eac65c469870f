// Rows made orthonormal in order, one block to a frame: each row, once it is done, is taken out of all rows
// after it (modified Gram-Schmidt). Two sweeps: the second puts right what rounding left of the first.
//
// Compiled for one REAL; THREADS of them to a block.

constexpr unsigned EVERY = 0xffffffffu;
constexpr int WARPS = THREADS / 32;

__device__ __forceinline__ REAL warp_sum(REAL value) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(EVERY, value, apart);
  return value;
}

// Takes out of a row, by one warp, what lies along a unit row.
__device__ __forceinline__ void reduce(REAL* row, const REAL* unit, int d, int lane) {
  REAL along = 0;
  for (int k = lane; k < d; k += 32) along += unit[k] * row[k];
  along = warp_sum(along);
  for (int k = lane; k < d; k += 32) row[k] -= along * unit[k];
}

// One warp: the square of a row's length.
__device__ __forceinline__ REAL square(const REAL* row, int d, int lane) {
  REAL sum = 0;
  for (int k = lane; k < d; k += 32) sum += row[k] * row[k];
  return warp_sum(sum);
}

// One warp: a row with nothing of its own is replaced by the first axis that the rows before it do not span.
__device__ REAL replace(REAL* frame, int i, int d, int lane) {
  REAL* row = frame + (long long)i * d;
  for (int axis = 0; axis < d; ++axis) {
    for (int k = lane; k < d; k += 32) row[k] = REAL(k == axis);
    for (int pass = 0; pass < 2; ++pass)
      for (int j = 0; j < i; ++j) reduce(row, frame + (long long)j * d, d, lane);
    const REAL left = square(row, d, lane);
    if (left * d * 2 > 1) return left;
  }
  return REAL(1);
}

// frames (count, size, d) into out. `on_chip`: a frame fits into shared memory.
extern "C" __global__ void __launch_bounds__(THREADS) orthonormalize(
    REAL* out, const REAL* frames, int size, int d, int on_chip) {
  extern __shared__ unsigned char memory[];
  REAL* before = reinterpret_cast<REAL*>(memory);  // (size), squares of the lengths of the rows given
  const long long numbers = (long long)size * d;
  REAL* result = out + blockIdx.x * numbers;
  const REAL* given = frames + blockIdx.x * numbers;
  REAL* frame = on_chip ? before + size : result;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (long long k = threadIdx.x; k < numbers; k += THREADS) frame[k] = given[k];
  __syncthreads();
  for (int i = warp; i < size; i += WARPS) {
    const REAL length = square(frame + (long long)i * d, d, lane);
    if (lane == 0) before[i] = length;
  }
  __syncthreads();
  const REAL rounding = sizeof(REAL) == 4 ? REAL(1e-6) : REAL(1e-14);
  for (int sweep = 0; sweep < 2; ++sweep) {
    for (int i = 0; i < size; ++i) {
      REAL* row = frame + (long long)i * d;
      if (warp == 0) {
        REAL left = square(row, d, lane);
        // Written so that NaN is left alone.
        if (sweep == 0 && left <= rounding * rounding * before[i]) left = replace(frame, i, d, lane);
        const REAL factor = REAL(1) / REAL(sqrt(left));
        for (int k = lane; k < d; k += 32) row[k] *= factor;
      }
      __syncthreads();
      for (int j = i + 1 + warp; j < size; j += WARPS) reduce(frame + (long long)j * d, row, d, lane);
      __syncthreads();
    }
  }
  if (on_chip)
    for (long long k = threadIdx.x; k < numbers; k += THREADS) result[k] = frame[k];
}
