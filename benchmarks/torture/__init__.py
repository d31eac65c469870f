"""An adversarial trial of slicewise: fuzzed values, hostile arguments, damaged files, kills, concurrent writers, ranks in trouble.

`make torture MINUTES=30` runs it. Each trial makes numbered batches of cases from a seed, so that a failure can be made
again; batches that are done are kept in a file, and a run that was stopped goes on after them. Results: docs/reliability.md.
"""
