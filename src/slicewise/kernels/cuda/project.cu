// Projections of few samples on few slices in many dimensions, which are summed in parts: a block takes 64 slices,
// 64 samples and a stretch of the dimensions.
//
// Compiled for one REAL.

constexpr int TILE = 64;
constexpr int DEPTH = 32;
constexpr int THREADS = 256;

__device__ __forceinline__ void load_tile(
    REAL (*tile)[TILE + 1], const REAL* rows, int first, int count, int d, int begin, int end) {
  constexpr int EACH = TILE * DEPTH / THREADS;
  const int depth = threadIdx.x % DEPTH, first_row = threadIdx.x / DEPTH;
  REAL numbers[EACH];  // all are under way before the first is waited for
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int row = first_row + k * (THREADS / DEPTH);
    const bool there = first + row < count && begin + depth < end;
    numbers[k] = there ? rows[(long long)(first + row) * d + begin + depth] : REAL(0);
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k) tile[depth][first_row + k * (THREADS / DEPTH)] = numbers[k];
}

// samples (sets or 1, n, d), slices (sets or 1, n_slices, d), parts (n_parts, sets, n_slices, n).
extern "C" __global__ void __launch_bounds__(THREADS) project_parts(
    REAL* parts, const REAL* samples, const REAL* slices, int sets, int n, int n_slices, int d, int n_parts,
    int samples_shared, int slices_shared) {
  __shared__ REAL of_slices[DEPTH][TILE + 1];
  __shared__ REAL of_samples[DEPTH][TILE + 1];
  const int across = (n + TILE - 1) / TILE, down = (n_slices + TILE - 1) / TILE;
  int block = blockIdx.x;
  const int part = block % n_parts;
  block /= n_parts;
  const int first_sample = block % across * TILE;
  block /= across;
  const int first_slice = block % down * TILE;
  const long long set = block / down;
  samples += (samples_shared ? 0 : set) * n * d;
  slices += (slices_shared ? 0 : set) * n_slices * d;
  const int stretch = ((d + n_parts - 1) / n_parts + DEPTH - 1) / DEPTH * DEPTH;
  const int end = min(d, (part + 1) * stretch);
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;  // of 16 x 16 threads, each 4 x 4 sums
  REAL sums[4][4] = {};
  for (int begin = part * stretch; begin < end; begin += DEPTH) {
    __syncthreads();
    load_tile(of_slices, slices, first_slice, n_slices, d, begin, end);
    load_tile(of_samples, samples, first_sample, n, d, begin, end);
    __syncthreads();
#pragma unroll 8
    for (int depth = 0; depth < DEPTH; ++depth) {
      REAL a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i] = of_slices[depth][row + 16 * i];
        b[i] = of_samples[depth][column + 16 * i];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += a[i] * b[j];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int slice = first_slice + row + 16 * i, sample = first_sample + column + 16 * j;
      if (slice < n_slices && sample < n)
        parts[(((long long)part * sets + set) * n_slices + slice) * n + sample] = sums[i][j];
    }
}
