"""Networks trained without a learning rate, against a search over Adam's rates: `python -m benchmarks.networks`.

`settings` draws the grid, `samples` makes its data, `training` trains and judges generators and translators,
`autoencoders` does so for a loop written out, `rules` holds the two ways of training, `store` keeps what is finished,
`report` and `picture` sum it up, `overhead` times a step.
"""
