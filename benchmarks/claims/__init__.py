"""What training in a latent space promises, measured: `python -m benchmarks.claims`.

`promises` lists the claims and their bounds; `__main__` trains, judges and prints each figure beside its bound.
"""
