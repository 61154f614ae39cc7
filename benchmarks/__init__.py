"""Side-by-side measurements against named peers, on the same work in one run. Nothing here is part of the pipeline."""
