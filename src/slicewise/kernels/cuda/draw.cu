// Random numbers by counting: number i of a draw is a function of (seed, purpose, step, draw, i) alone, the
// same one that NumPy's Philox gives. Rows of directions are drawn and finished in one go.
//
// Compiled behind rows.cu.

typedef unsigned long long Word;
typedef unsigned int Half;

constexpr int ROUNDS = 32;        // proposals for a cosine, as in sphere.vmf_cosine
constexpr int OWN_STEPS = 20;     // the bit of a draw's number that says: each run has its own step
constexpr int GAMMA_ROUNDS = 10;  // for a gamma number, as in Randomness.gamma

struct Four {
  Word word[4];
};

// J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011: Philox-4x64-10.
__device__ __forceinline__ Four philox(Word block, Word step, Word draw, Word seed, Word purpose) {
  Word a = block + 1, b = step, c = draw, d = 0;  // NumPy counts before it draws
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const Word high_a = __umul64hi(0xD2E7470EE14C6C93ull, a), low_a = 0xD2E7470EE14C6C93ull * a;
    const Word high_c = __umul64hi(0xCA5A826395121157ull, c), low_c = 0xCA5A826395121157ull * c;
    a = high_c ^ b ^ seed;
    b = low_c;
    c = high_a ^ d ^ purpose;
    d = low_a;
    seed += 0x9E3779B97F4A7C15ull;
    purpose += 0xBB67AE8584CAA73Bull;
  }
  return {{a, b, c, d}};
}

__device__ __forceinline__ double uniform_of(Word word) { return double(word >> 11) * 0x1p-53; }

// Two normal numbers of one word: a radius of its upper half, an angle of its lower.
__device__ __forceinline__ void normals_of(Word word, float& one, float& other) {
  // 23 bits, so that a level is exact and never 1: a radius of 0 would be a direction of no length.
  const float radius = sqrtf(-2.0f * logf(float(Half(word >> 41)) * 0x1p-23f + 0x1p-24f));
  float sine, cosine;
  sincospif(float(Half(word)) * 0x1p-31f, &sine, &cosine);
  one = radius * cosine;
  other = radius * sine;
}

struct Draw {
  Word seed, step, draw, purpose;

  __device__ Four words(Word block) const { return philox(block, step, draw, seed, purpose); }

  __device__ double uniform(Word i) const { return uniform_of(words(i / 4).word[i % 4]); }

  __device__ float normal(Word i) const {
    float number[2];
    normals_of(words(i / 8).word[(i / 2) % 4], number[0], number[1]);
    return number[i % 2];
  }

  // use(i, number) for the normal numbers from `begin` to `end` that are this thread's.
  template <class Use>
  __device__ __forceinline__ void normals(Word begin, Word end, int lane, int team, Use use) const {
    for (Word block = begin / 8 + lane; block * 8 < end; block += team) {
      const Four four = words(block);
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        float number[2];
        normals_of(four.word[pair], number[0], number[1]);
#pragma unroll
        for (int which = 0; which < 2; ++which) {
          const Word i = block * 8 + pair * 2 + which;
          if (i >= begin && i < end) use(i, number[which]);
        }
      }
    }
  }
};

__device__ __forceinline__ Draw draw_of(
    const long long* seeds, long long run, const long long* steps, int draw, int purpose) {
  // A draw's number below, and above it whether every run is at a step of its own.
  const bool own = draw >> OWN_STEPS;
  return {Word(seeds[run]), Word(steps[own ? run : 0]), Word(draw & ((1 << OWN_STEPS) - 1)), Word(purpose)};
}

// `normal` numbers into out (runs, inner), as REAL.
extern "C" __global__ void draw_normals(
    REAL* out, const long long* seeds, const long long* steps, int draw, int purpose, int runs, int inner) {
  const Word blocks = (Word(inner) + 7) / 8;
  const Word mine = Word(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= blocks * runs) return;
  const Word run = mine / blocks, block = mine % blocks;
  const Draw numbers = draw_of(seeds, run, steps, draw, purpose);
  numbers.normals(
      block * 8, min(block * 8 + 8, Word(inner)), 0, 1,
      [&](Word i, float number) { out[run * inner + i] = number; });
}

// Uniform numbers in [0, 1) into out (runs, inner).
extern "C" __global__ void draw_uniforms(
    double* out, const long long* seeds, const long long* steps, int draw, int purpose, int runs, int inner) {
  const Word blocks = (Word(inner) + 3) / 4;
  const Word mine = Word(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= blocks * runs) return;
  const Word run = mine / blocks, block = mine % blocks;
  const Four four = draw_of(seeds, run, steps, draw, purpose).words(block);
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (block * 4 + k < inner) out[run * inner + block * 4 + k] = uniform_of(four.word[k]);
}

// Unit rows of normal numbers into out (runs, per_run, d).
extern "C" __global__ void __launch_bounds__(BLOCK) draw_directions(
    REAL* out, const long long* seeds, const long long* steps, int draw, int purpose, int runs, int per_run,
    int d) {
  const Row row = my_row((long long)runs * per_run);
  if (!row.there) return;  // a whole team
  const long long run = row.index / per_run;
  const Word begin = Word(row.index % per_run) * d;
  const Draw numbers = draw_of(seeds, run, steps, draw, purpose);
  REAL* mine = out + row.index * d;
  REAL square = 0;
  numbers.normals(begin, begin + d, row.lane, TEAM, [&](Word i, float number) {
    mine[i - begin] = number;
    square += REAL(number) * REAL(number);
  });
  const REAL length = square_root(team_sum(square));
  // Each thread goes over the numbers it wrote.
  for (Word block = begin / 8 + row.lane; block * 8 < begin + d; block += TEAM)
    for (Word i = max(block * 8, begin); i < min(block * 8 + 8, begin + d); ++i)
      mine[i - begin] = d == 1 ? (mine[0] < 0 ? REAL(-1) : REAL(1)) : mine[i - begin] / length;
}

// A uniform draw among the directions orthogonal to one: what is left of normal numbers, unit length.
__device__ __forceinline__ void orthogonal_row(
    REAL* out, const REAL* direction, const Draw& numbers, Word begin, int d, int lane) {
  numbers.normals(begin, begin + d, lane, TEAM, [&](Word i, float number) { out[i - begin] = number; });
  if constexpr (TEAM > 32) __syncthreads(); else __syncwarp();
  REAL square = 0;
  // Twice: when the draw is nearly parallel, what the first pass leaves is mostly rounding.
  for (int pass = 0; pass < 2; ++pass) {
    REAL along = 0;
    for (int j = lane; j < d; j += TEAM) along += out[j] * direction[j];
    along = team_sum(along);
    square = 0;
    for (int j = lane; j < d; j += TEAM) {
      out[j] -= along * direction[j];
      square += out[j] * out[j];
    }
  }
  const REAL length = square_root(team_sum(square));
  for (int j = lane; j < d; j += TEAM) out[j] = length == 0 ? REAL(j == 0) : out[j] / length;
}

// For each of directions (runs, per_run, d), one orthogonal to it.
extern "C" __global__ void __launch_bounds__(BLOCK) draw_orthogonal(
    REAL* out, const REAL* directions, const long long* seeds, const long long* steps, int draw, int purpose,
    int runs, int per_run, int d) {
  const Row row = my_row((long long)runs * per_run);
  if (!row.there) return;
  const Draw numbers = draw_of(seeds, row.index / per_run, steps, draw, purpose);
  const Word begin = Word(row.index % per_run) * d;
  orthogonal_row(out + row.index * d, directions + row.index * d, numbers, begin, d, row.lane);
}

// At a given cosine and sine from a direction, turned about it uniformly.
__device__ __forceinline__ void around_row(
    REAL* out, const REAL* direction, double cosine, double sine, const Draw& sides, Word begin, int d,
    int lane) {
  orthogonal_row(out, direction, sides, begin, d, lane);
  REAL square = 0;
  for (int j = lane; j < d; j += TEAM) {
    out[j] = REAL(cosine) * direction[j] + REAL(sine) * out[j];
    square += out[j] * out[j];
  }
  // Along a chain of draws rounding would otherwise accumulate.
  const REAL length = square_root(team_sum(square));
  for (int j = lane; j < d; j += TEAM) out[j] /= length;
}

// One von Mises-Fisher draw around each of directions (runs, per_run, d): the cosine by rejection from
// `draw`, the side from `draw` + 1. law = (a, b, shift) as in sphere.vmf_cosine.
extern "C" __global__ void __launch_bounds__(BLOCK) draw_around(
    REAL* out, const REAL* directions, const double* law, const long long* seeds, const long long* steps,
    int draw, int purpose, int runs, int per_run, int d) {
  const Row row = my_row((long long)runs * per_run);
  if (!row.there) return;
  const long long run = row.index / per_run, place = row.index % per_run;
  const double a = law[0], b = law[1], shift = law[2], pi = 3.14159265358979323846;

  // Each lane of a warp tries one round; the first that is accepted counts, the first of all if none is.
  const Draw proposals = draw_of(seeds, run, steps, draw, purpose);
  const int round = row.lane % 32;
  const Word at = Word(place) * 3 * ROUNDS + round;
  const double u = proposals.uniform(at), v = proposals.uniform(at + ROUNDS),
               w = proposals.uniform(at + 2 * ROUNDS);
  const double radius = d > 2 ? sqrt(1 - pow(u, 2.0 / (d - 2))) : 1.0;
  const double beta = (1 + radius * cos(2 * pi * v)) / 2;
  const double spread = 1 - (1 - b) * beta;
  double cosine = (1 - (1 + b) * beta) / spread;
  const double s = 2 * a * b / spread;
  const bool accepted = (d - 1) * log(s) - s + shift >= log(1 - w);
  const unsigned votes = __ballot_sync(EVERY, accepted);
  cosine = __shfl_sync(EVERY, cosine, votes ? __ffs(votes) - 1 : 0);
  const double sine = sqrt((1 - cosine) * (1 + cosine));

  REAL* mine = out + row.index * d;
  const REAL* direction = directions + row.index * d;
  const Draw sides = draw_of(seeds, run, steps, draw + 1, purpose);
  around_row(mine, direction, cosine, sine, sides, Word(place) * d, d, row.lane);
}

// A Gamma(shape) number in a fixed number of rounds, one to each of the lanes from `first` on (as in
// Randomness.gamma). All lanes of the warp must come here; those of one gamma number share its draws.
__device__ __forceinline__ double gamma_number(
    const Draw& boosts, const Draw& normals, const Draw& levels, Word place, double shape, int lane, int first,
    bool boosted) {
  const bool small = shape < 1;
  const double d = (small ? shape + 1 : shape) - 1.0 / 3.0;
  const int round = lane - first;
  double value = 0;
  bool accepted = false;
  if (round >= 0 && round < GAMMA_ROUNDS) {
    const double normal = normals.normal(place * GAMMA_ROUNDS + round);
    const double root = 1 + normal / sqrt(9 * d), cube = root * root * root;
    const double level = log(1 - levels.uniform(place * GAMMA_ROUNDS + round));
    accepted = cube > 0 && level < 0.5 * normal * normal + d * (1 - cube + log(cube > 0 ? cube : 1.0));
    value = cube > 0 ? d * cube : 0.0;
  }
  const unsigned votes = __ballot_sync(EVERY, accepted) >> first & ((1u << GAMMA_ROUNDS) - 1);
  value = __shfl_sync(EVERY, value, first + (votes ? __ffs(votes) - 1 : 0));
  if (boosted && small) value *= pow(boosts.uniform(place), 1 / shape);
  return value;
}

// One power-spherical draw around each of directions: the cosine from two gamma numbers, of shapes (above,
// below) = law, each from a boost (if `boosted`), normal and uniform numbers; the side from the draw after.
extern "C" __global__ void __launch_bounds__(BLOCK) draw_power_around(
    REAL* out, const REAL* directions, const double* law, const long long* seeds, const long long* steps,
    int draw, int purpose, int runs, int per_run, int d, int boosted) {
  const Row row = my_row((long long)runs * per_run);
  if (!row.there) return;
  const long long run = row.index / per_run, place = row.index % per_run;
  const int lane = row.lane % 32;
  double gamma[2];
  for (int which = 0; which < 2; ++which) {
    const Draw boosts = draw_of(seeds, run, steps, draw, purpose);
    draw += boosted;
    const Draw normals = draw_of(seeds, run, steps, draw, purpose);
    const Draw levels = draw_of(seeds, run, steps, draw + 1, purpose);
    draw += 2;
    gamma[which] = gamma_number(boosts, normals, levels, place, law[which], lane, 0, boosted);
  }
  const double sum = gamma[0] + gamma[1];
  const Draw sides = draw_of(seeds, run, steps, draw, purpose);
  around_row(
      out + row.index * d, directions + row.index * d, (gamma[0] - gamma[1]) / sum,
      2 * sqrt(gamma[0] * gamma[1]) / sum, sides, Word(place) * d, d, row.lane);
}

// Directions from a random sample of x (sets, n, d) to one of y (sets, m, d), by draws `draw` and `draw` + 1;
// where the two coincide, a uniform one by the draw after.
extern "C" __global__ void __launch_bounds__(BLOCK) draw_paths(
    REAL* out, const REAL* x, const REAL* y, const long long* seeds, const long long* steps, int draw,
    int purpose, int runs, int per_run, int d, int n, int m, int x_sets, int y_sets) {
  const Row row = my_row((long long)runs * per_run);
  if (!row.there) return;
  const long long run = row.index / per_run, place = row.index % per_run;
  const double start = draw_of(seeds, run, steps, draw, purpose).uniform(place);
  const double end = draw_of(seeds, run, steps, draw + 1, purpose).uniform(place);
  const long long i = min((long long)(start * n), (long long)n - 1);
  const long long j = min((long long)(end * m), (long long)m - 1);
  const REAL* from = x + ((x_sets == 1 ? 0 : run) * n + i) * d;
  const REAL* to = y + ((y_sets == 1 ? 0 : run) * m + j) * d;
  REAL* mine = out + row.index * d;
  REAL size = 0, largest = 0;
  for (int k = row.lane; k < d; k += TEAM) {
    const REAL a = from[k] < 0 ? -from[k] : from[k], b = to[k] < 0 ? -to[k] : to[k];
    const REAL path = from[k] - to[k], length = path < 0 ? -path : path;
    mine[k] = path;
    size = a > size ? a : size;
    size = b > size ? b : size;
    largest = length > largest ? length : largest;
  }
  size = team_largest(size);
  largest = team_largest(largest);
  const REAL rounding = sizeof(REAL) == 4 ? REAL(0x1p-23) : REAL(0x1p-52);
  // Written as the plain version has it: NaN is no coincidence.
  if (largest <= rounding * size) {
    const Word begin = Word(place) * d;
    draw_of(seeds, run, steps, draw + 2, purpose)
        .normals(begin, begin + d, row.lane, TEAM, [&](Word k, float number) { mine[k - begin] = number; });
  }
  if constexpr (TEAM > 32) __syncthreads(); else __syncwarp();
  normalise_row(mine, mine, d, row.lane);
}
