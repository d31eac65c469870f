// Rows made orthonormal in order, one block to a frame: Gram-Schmidt, twice over, which is enough.
//
// Compiled for one REAL; THREADS of them to a block.

constexpr unsigned EVERY = 0xffffffffu;
constexpr int WARPS = THREADS / 32;

__device__ __forceinline__ REAL warp_sum(REAL value) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(EVERY, value, apart);
  return value;
}

__device__ __forceinline__ REAL block_sum(REAL value) {
  __shared__ REAL sums[WARPS];
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int warp = 0; warp < WARPS; ++warp) value += sums[warp];
  return value;
}

// Takes out of row i what lies along the rows before it; returns the square of what is left.
__device__ REAL reduce_row(REAL* frame, REAL* along, int i, int d) {
  REAL* row = frame + (long long)i * d;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int j = warp; j < i; j += WARPS) {
    REAL dot = 0;
    for (int k = lane; k < d; k += 32) dot += frame[(long long)j * d + k] * row[k];
    dot = warp_sum(dot);
    if (lane == 0) along[j] = dot;
  }
  __syncthreads();
  REAL square = 0;
  for (int k = threadIdx.x; k < d; k += THREADS) {
    REAL left = row[k];
    for (int j = 0; j < i; ++j) left -= along[j] * frame[(long long)j * d + k];
    row[k] = left;
    square += left * left;
  }
  return block_sum(square);
}

__device__ void scale_row(REAL* row, REAL factor, int d) {
  for (int k = threadIdx.x; k < d; k += THREADS) row[k] *= factor;
  __syncthreads();
}

// frames (count, size, d) into out. `on_chip`: a frame fits into shared memory.
extern "C" __global__ void __launch_bounds__(THREADS) orthonormalise(
    REAL* out, const REAL* frames, int size, int d, int on_chip) {
  extern __shared__ unsigned char memory[];
  REAL* along = reinterpret_cast<REAL*>(memory);  // (size)
  const long long numbers = (long long)size * d;
  REAL* result = out + blockIdx.x * numbers;
  const REAL* given = frames + blockIdx.x * numbers;
  REAL* frame = on_chip ? along + size : result;
  for (long long k = threadIdx.x; k < numbers; k += THREADS) frame[k] = given[k];
  __syncthreads();
  for (int i = 0; i < size; ++i) {
    REAL* row = frame + (long long)i * d;
    REAL before = 0;
    for (int k = threadIdx.x; k < d; k += THREADS) before += row[k] * row[k];
    before = block_sum(before);
    REAL left = reduce_row(frame, along, i, d);
    const REAL rounding = sizeof(REAL) == 4 ? REAL(1e-6) : REAL(1e-14);
    for (int axis = 0; !(left > rounding * rounding * before) && before == before && axis < d; ++axis) {
      // Nothing of its own: an axis takes its place, the first that is not spanned yet.
      for (int k = threadIdx.x; k < d; k += THREADS) row[k] = REAL(k == axis);
      __syncthreads();
      before = 1;
      left = reduce_row(frame, along, i, d);
      if (!(left * d * 2 > 1)) left = 0;
    }
    scale_row(row, REAL(1) / REAL(sqrt(double(left))), d);
    left = reduce_row(frame, along, i, d);
    scale_row(row, REAL(1) / REAL(sqrt(double(left))), d);
  }
  if (on_chip)
    for (long long k = threadIdx.x; k < numbers; k += THREADS) result[k] = frame[k];
}
