"""The effect of an untrained Transformer block on vectors that share a bias."""
