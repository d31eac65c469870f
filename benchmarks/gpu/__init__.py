"""benchmarks.gpu."""
