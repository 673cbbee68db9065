"""What an untrained Transformer block does to vectors that share a bias."""
