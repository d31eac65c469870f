"""Checks of what random directions are, and of how much of the data each of them sees."""
