"""The command line, and the study of the paper.

`cli` is the `slicewise` command; `experiments` says what is run, `study` runs and stores it, `report` shows it beside
the `published` numbers; `data`, `latents` and `images` read and draw what experiments are made of.

Imports every room. Used by nobody: it belongs to the command.
"""
