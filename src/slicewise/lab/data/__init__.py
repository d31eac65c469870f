"""slicewise.lab.data."""
