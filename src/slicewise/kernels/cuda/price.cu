// What transport on a line costs, and its slopes: between two numbers, and between two sorted sides of unlike masses.
// Taken together with another file, in front of it.
//
// REAL are numbers, ORDER is p.

constexpr unsigned EVERY = 0xffffffffu;

__device__ __forceinline__ void price(REAL gap, REAL& cost, REAL& slope) {
  if constexpr (ORDER == 2) {
    cost = gap * gap;
    slope = 2 * gap;
  } else if constexpr (ORDER == 1) {
    cost = gap < 0 ? -gap : gap;
    slope = REAL(gap > 0) - REAL(gap < 0);
  } else {
    const REAL size = gap < 0 ? -gap : gap;
    const REAL below = size > 0 ? REAL(pow(size, REAL(ORDER) - 1)) : size;  // keeps NaN
    cost = below * size;
    slope = REAL(ORDER) * (gap < 0 ? -below : below);
  }
}

// Masses are counted in whole numbers, so that a sum does not depend on its order and a sample of weight zero
// takes exactly none. Samples without weights, n of them against m, have m each; those with weights share WHOLE.
typedef long long Mass;
constexpr Mass WHOLE = Mass(1) << 61;

// The share of a weight, given the inverse of their sum; 0 of NaN.
__device__ __forceinline__ Mass share_of(double weight, double inverse) {
  const double share = weight * inverse;
  return share > 0 ? __double2ll_rn((share < 1 ? share : 1) * double(WHOLE)) : 0;
}

// Where a rank ends, up to which `sum` of `total` shares lie. Rounding made them a little more or less than WHOLE.
__device__ __forceinline__ Mass knot_of(Mass sum, Mass total) { return sum < total && sum < WHOLE ? sum : WHOLE; }

// Where rank i of n equal ones ends.
__device__ __forceinline__ Mass even_knot(int i, int n) {
  return i + 1 < n ? __double2ll_rn((double(i) + 1) * (double(WHOLE) / n)) : WHOLE;
}

// A cell is a stretch of mass on which neither side's rank changes; each of the n + m knots ends one, u's first
// where two meet. Threads take equal numbers of neighbouring cells. A rank whose cells several threads took is
// completed by the last of them, from what those before carry on.
template <class Sum>
struct Carried {
  Sum sums[32];  // of each warp, since a rank last ended in it
  int ended[32];
};

template <class Sum>
struct Edges {
  Carried<Sum> u, v;
  Sum costs[32];
};

// The sum over the lanes up to this one, since the last at which a rank ended (bits of `ends`).
template <class Sum>
__device__ __forceinline__ Sum since_the_last(Sum own, unsigned ends, int lane) {
  const unsigned up_to_me = ends & ((2u << lane) - 1);
  const int reach = up_to_me ? lane - (31 - __clz(int(up_to_me))) : lane;
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const Sum before = __shfl_up_sync(EVERY, own, apart);
    if (apart <= reach) own += before;
  }
  return own;
}

// One side of what a thread found in its cells.
template <class Sum>
struct Walked {
  Sum head;       // of the rank at which it began, if that ended
  Sum tail;       // of the rank at which it stopped
  bool ended;     // did a rank end?
  unsigned ends;  // in which lanes did one?
  Sum sum;        // of the lanes up to this one, since the last end

  __device__ __forceinline__ void leave(Carried<Sum>& carried) {
    const int lane = threadIdx.x % 32;
    ends = __ballot_sync(EVERY, ended);
    sum = since_the_last(tail, ends, lane);
    if (lane == 31) {
      carried.sums[threadIdx.x / 32] = sum;
      carried.ended[threadIdx.x / 32] = ends != 0;
    }
  }

  // After a barrier: completes `head`. Returns whether a rank had ended before in this block. `tail` becomes what the
  // block leaves behind, `ended` stays the thread's own.
  __device__ __forceinline__ bool take(const Carried<Sum>& carried, bool& block_ended) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const unsigned warp_ends = __ballot_sync(EVERY, lane < warps && carried.ended[lane]);
    const Sum by_warp = since_the_last(lane < warps ? carried.sums[lane] : Sum(0), warp_ends, lane);
    const Sum warp_before = __shfl_sync(EVERY, by_warp, warp > 0 ? warp - 1 : 0);
    const Sum lane_before = __shfl_up_sync(EVERY, sum, 1);
    tail = __shfl_sync(EVERY, by_warp, warps - 1);
    block_ended = warp_ends != 0;
    const bool in_warp = (ends & ((1u << lane) - 1)) != 0;
    if (lane > 0) head += lane_before;
    if (warp > 0 && !in_warp) head += warp_before;
    return in_warp || (warp_ends & ((1u << warp) - 1)) != 0;
  }
};

template <class Sum>
struct Priced {
  Sum cost;  // of the block's cells, in thread 0
  Walked<Sum> u, v;
  int i, j;  // the ranks at which this thread began
};

// How many of the first d knots of both sides are u's. A Line says how many knots it has (n, m), where they are
// (u_end, v_end, in a Count, beginning at `start`), what a count of 1 weighs (`unit`), which numbers belong to a rank
// (u_number, v_number; also to the one beyond the last knot), and where its slope goes (u, v).
template <class Line>
__device__ __forceinline__ int split(const Line& line, int d) {
  int low = d > line.m ? d - line.m : 0, high = d < line.n ? d : line.n;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (line.u_end(middle) <= line.v_end(d - 1 - middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Prices all cells of a line, by all threads of a block, which must be whole warps. Slopes take the place of the numbers
// of ranks that only one thread looks at. For the others `head` of u and v is what to complete and to put there, after
// a barrier: nobody else writes to them.
template <class Sum, class Line>
__device__ __forceinline__ Priced<Sum> price_cells(Line& line, Edges<Sum>& edges) {
  const int cells = line.n + line.m, share = (cells + int(blockDim.x) - 1) / int(blockDim.x);
  const int from = min(int(threadIdx.x) * share, cells), to = min(from + share, cells);
  Priced<Sum> found;
  int i = split(line, from), j = from - i;
  found.i = i;
  found.j = j;
  typename Line::Count done = line.start;
  if (i > 0) done = max(done, line.u_end(i - 1));
  if (j > 0) done = max(done, line.v_end(j - 1));
  typename Line::Count u_end = i < line.n ? line.u_end(i) : Line::BEYOND;
  typename Line::Count v_end = j < line.m ? line.v_end(j) : Line::BEYOND;
  REAL u = line.u_number(i), v = line.v_number(j);
  Sum cost = 0, u_sum = 0, v_sum = 0, u_head = 0, v_head = 0;
  for (int k = from; k < to; ++k) {
    const bool of_u = u_end <= v_end;
    const typename Line::Count end = of_u ? u_end : v_end;
    if (end > done) {  // else it costs nothing, however far the two are apart
      REAL power, slope;
      price(u - v, power, slope);
      const Sum width = Sum(end - done) * line.unit;
      cost += width * Sum(power);
      u_sum += width * Sum(slope);
      v_sum += width * Sum(slope);
      done = end;
    }
    if (of_u) {
      if (i == found.i)
        u_head = u_sum;
      else
        line.u(i) = REAL(u_sum);
      u_sum = 0;
      ++i;
      u_end = i < line.n ? line.u_end(i) : Line::BEYOND;
      u = line.u_number(i);
    } else {
      if (j == found.j)
        v_head = v_sum;
      else
        line.v(j) = REAL(-v_sum);
      v_sum = 0;
      ++j;
      v_end = j < line.m ? line.v_end(j) : Line::BEYOND;
      v = line.v_number(j);
    }
  }
  found.u.head = u_head;
  found.u.tail = u_sum;
  found.u.ended = i > found.i;
  found.u.leave(edges.u);
  found.v.head = v_head;
  found.v.tail = v_sum;
  found.v.ended = j > found.j;
  found.v.leave(edges.v);
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) cost += __shfl_xor_sync(EVERY, cost, apart);
  if (threadIdx.x % 32 == 0) edges.costs[threadIdx.x / 32] = cost;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < int(blockDim.x / 32); ++w) cost += edges.costs[w];
  found.cost = cost;
  return found;
}
