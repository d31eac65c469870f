"""benchmarks.claims."""
