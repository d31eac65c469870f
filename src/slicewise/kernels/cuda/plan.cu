// What surrounds a captured call: several copies in one launch, and the two sums of a Cauchy step, which is compiled
// where THREADS are given, the size of its blocks. REAL are numbers on lines, WEIGHT those of sample weights.

#ifndef THREADS
constexpr int MOST_COPIES = 6, MOST_NUMBERS = 4;

// All of it travels with the launch. Those of 0 bytes are not there.
struct Copies {
  unsigned char* to[MOST_COPIES];
  const unsigned char* from[MOST_COPIES];
  long long* numbers_to;
  long long numbers[MOST_NUMBERS];
  long long bytes[MOST_COPIES];
  long long n_numbers;
};

template <class Unit>
__device__ __forceinline__ void copy_units(unsigned char* to, const unsigned char* from, int units) {
#pragma unroll 1
  for (int k = 0; k < units; ++k) reinterpret_cast<Unit*>(to)[k] = reinterpret_cast<const Unit*>(from)[k];
}

// Copies all bytes, 16 to a thread at a time, and writes `n_numbers` numbers.
extern "C" __global__ void copy_many(Copies copies) {
  if (blockIdx.x == 0 && threadIdx.x < copies.n_numbers)
    copies.numbers_to[threadIdx.x] = copies.numbers[threadIdx.x];
  const long long step = (long long)gridDim.x * blockDim.x;
  long long word = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (int c = 0; c < MOST_COPIES;) {
    const long long bytes = copies.bytes[c], words = (bytes + 15) / 16;
    if (word >= words) {
      word -= words;
      ++c;
      continue;
    }
    unsigned char* const to = copies.to[c] + 16 * word;
    const unsigned char* const from = copies.from[c] + 16 * word;
    const unsigned long long places = (unsigned long long)to | (unsigned long long)from;
    const int left = bytes - 16 * word < 16 ? int(bytes - 16 * word) : 16;
    if (left == 16 && places % 16 == 0)
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    else if (left % 4 == 0 && places % 4 == 0)
      copy_units<unsigned>(to, from, left / 4);
    else
      copy_units<unsigned char>(to, from, left);
    word += step;
  }
}
#else
constexpr unsigned EVERY = 0xffffffffu;

struct Sums {
  double numerator, denominator;
};

// The sums over a block, in thread 0.
__device__ __forceinline__ Sums over_block(Sums sums, Sums* by_warp) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    sums.numerator += __shfl_xor_sync(EVERY, sums.numerator, apart);
    sums.denominator += __shfl_xor_sync(EVERY, sums.denominator, apart);
  }
  if (threadIdx.x % 32 == 0) by_warp[threadIdx.x / 32] = sums;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < THREADS / 32; ++w) {
      sums.numerator += by_warp[w].numerator;
      sums.denominator += by_warp[w].denominator;
    }
  }
  return sums;
}

// on_lines, projected (sets, n_slices, n); weights (weight_sets, n_slices) or null for `weight`; masses
// (mass_sets, n) or null for `mass`. parts (sets, n_slices, chunks, 2) take the sums of blocks, numerator and
// denominator (sets) those of all. tickets (sets) begin as 0 and end as 0: the last block of a set adds its parts,
// in the order of their places.
extern "C" __global__ void __launch_bounds__(THREADS) cauchy_sums(
    double* numerator, double* denominator, double* parts, unsigned* tickets, const REAL* on_lines,
    const REAL* projected, const REAL* weights, const WEIGHT* masses, double weight, double mass, int n, int n_slices,
    int chunks, int chunk, int weight_sets, int mass_sets) {
  __shared__ Sums by_warp[2][THREADS / 32];
  __shared__ int is_last;
  const int blocks = n_slices * chunks;
  const long long set = blockIdx.x / blocks, line = blockIdx.x / chunks;
  const int slice = int(line - set * n_slices), first = int(blockIdx.x % chunks) * chunk;
  const int end = min(n, first + chunk);
  const REAL* const mine = on_lines + line * n;
  const REAL* const others = projected + line * n;
  if (masses && mass_sets > 1) masses += set * n;
  Sums sums = {0, 0};
#pragma unroll 4
  for (int i = first + int(threadIdx.x); i < end; i += THREADS) {
    const double at = others[i], share = (masses ? double(masses[i]) : mass) * at;
    sums.numerator += share * double(mine[i]);
    sums.denominator += share * at;
  }
  sums = over_block(sums, by_warp[0]);
  if (threadIdx.x == 0) {
    const double factor = weights ? double(weights[(weight_sets > 1 ? set * n_slices : 0) + slice]) : weight;
    parts[2 * (long long)blockIdx.x] = factor * sums.numerator;
    parts[2 * (long long)blockIdx.x + 1] = (factor < 0 ? -factor : factor) * sums.denominator;
    __threadfence();
    const unsigned before = atomicAdd(&tickets[set], 1u);
    is_last = before == unsigned(blocks - 1);
    if (is_last) tickets[set] = 0;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  const volatile double* const found = parts + 2 * set * blocks;
  sums = {0, 0};
  for (int b = threadIdx.x; b < blocks; b += THREADS) {
    sums.numerator += found[2 * b];
    sums.denominator += found[2 * b + 1];
  }
  sums = over_block(sums, by_warp[1]);
  if (threadIdx.x > 0) return;
  numerator[set] = sums.numerator;
  denominator[set] = sums.denominator;
}
#endif
