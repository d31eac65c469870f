"""What a step costs, beside what users have: `python -m benchmarks.speed`."""
