"""Networks trained in a latent space by a sliced distance: generation, translation, and how they are judged."""
