"""The stages of the pipeline, one module each, and what they share.

A stage imports MLflow and torch, some 400,000 objects of which none is garbage. To look through all of them again and
again as they come, and once more before the process ends, would take a fifth of what a stage costs before and after
its work; it happens seldom then, and not at the end.
"""

import atexit
import gc

import bertcore  # noqa: F401  (before any stage imports torch: it says how torch's threads wait)

gc.set_threshold(*gc.get_threshold()[:2], 1000)  # collections of the middle generation before one of the whole
atexit.register(gc.freeze)
