"""What the statistics of `slicewise.stats` promise, measured: calibration, power, coverage, speed, size."""
