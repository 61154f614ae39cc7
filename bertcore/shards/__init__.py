"""Token shards: the corpus as the ids of a vocabulary."""
