"""Benchmarks of slicewise, run from a clone of the repository; they are not part of the installed package.

| folder | make target | what is measured |
|---|---|---|
| `speed` | `make bench` | the time of a step on a CPU, against POT, OTT-JAX and a plain sort |
| `gpu` | `make bench-gpu` | the same on a CUDA device, and whole flows |
| `color` | `make bench-color` | color transfer against other methods |
| `steps` | `make bench-steps` | how many steps flows and trainings take |
| `networks` | `make bench-networks` | networks trained without a learning rate, against a search over Adam's rates |
| `claims` | `make claims` | the quality that training in a latent space promises |
| `study` | – | the write-up of the paper's experiments: `docs/reproduction.md` and its pictures, from the records in `results` |
| `first_use` | – | the time of `import slicewise`, and of help, mistakes and completion of the command |

Each is also a module to run, such as `python -m benchmarks.speed --help`, and writes its record into the folder given by
`--out`; records that the documentation quotes are in `benchmarks/results`. Benchmarks may import every room of slicewise.
"""
