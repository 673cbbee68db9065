"""Do drift and cosine rise and fall together over layers?"""
