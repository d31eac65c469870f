// Writes one number: does compiling and launching work here?
extern "C" __global__ void trial(int* out, int number) {
  if (threadIdx.x == 0) out[0] = number;
}
