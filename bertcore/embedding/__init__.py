"""Vectors of sentences."""

FROM_CORPUS = ("neighbours", "twins", "title_body")
"""Values of `embed.pairs` that are made from the corpus itself."""
