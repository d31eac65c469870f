"""The write-up of the study: `docs/reproduction.md` and its pictures, made from the records in `results`.

`facts` computes from the records every number that the page prints, `page` puts them into `reproduction.md.j2`, `pictures` draws
them. `full_size.sh` makes the runs. `python -m benchmarks.study` writes page and pictures again after runs were added by
`slicewise runs STORE --keep results`.
"""
