"""What the page tells, in one screen and four chapters, every word of it computed from the runs of a store.

`chapters` puts it together. `opening` has the sentence, the numbers and the films of the first screen, `panels` charts as
SVG, `heat_map` all flows with computed steps, `pictures` what slides from before to after, `claims` the paper's statements
with their verdicts, `endings` how flows end.
"""
