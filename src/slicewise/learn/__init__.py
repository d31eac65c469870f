"""What people do with the distance."""
