"""slicewise.lab.images."""
