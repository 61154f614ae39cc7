"""Side-by-side measurements against named peers, on the same work in one run. Nothing here is part of the pipeline."""

import bertcore  # noqa: F401  (before any of them imports torch: it says how torch's threads wait)
