"""benchmarks.color."""
