"""The stages of the pipeline, one module each, and what they share."""

import bertcore  # noqa: F401  (before any stage imports torch: it says how torch's threads wait)
