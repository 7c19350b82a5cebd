"""Calls of single operators with random attributes, and what PaddlePaddle computes for them."""
