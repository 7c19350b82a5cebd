"""Calls of single operators with random attributes, and PaddlePaddle's results."""
