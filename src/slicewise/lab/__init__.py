"""The study around the library: data, runs, reports. Imports everything; nothing imports it."""
