"""The paper's fourth experiment: generators and translators trained in a latent space."""
