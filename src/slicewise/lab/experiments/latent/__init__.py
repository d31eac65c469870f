"""The experiments `generate` and `translate`: generators and translators trained in a latent space.

`tasks` says what networks learn and how they are judged, `cells` trains them, `presets` lists the trainings of a study.
"""
