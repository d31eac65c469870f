"""What the commands share: `options` that several of them take, `samples` that they read, `output` that they write."""
