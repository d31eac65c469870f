"""Samples against a law: how fast, beside samples of it and beside the modules of others; and over two processes."""
