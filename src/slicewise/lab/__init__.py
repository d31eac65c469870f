"""The `slicewise` command, and the study of the paper behind it.

`cli` is the command; `experiments` says which runs are made, `study` makes and stores them, `report` shows them beside the
`published` numbers; `data`, `images` and `latents` read and draw what experiments work on; `names` has the words that the
command offers. These are rooms of their own, in the order errors, names, published, data, images, latents, study, experiments, report, cli: each imports only earlier ones.

Imports every room of the library. Used by nobody: it belongs to the command.
"""
