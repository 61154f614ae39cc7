"""The stages of the pipeline, one module each, and what they share.

MLflow and torch make some 400,000 objects that live as long as the process. To look through them in every full
garbage collection, and once more at the end, took a fifth of what a stage costs beside its work; so full collections
are rare, and there is none at the end.
"""

import atexit
import gc

import bertcore  # noqa: F401  (before any stage imports torch: it says how torch's threads wait)

gc.set_threshold(*gc.get_threshold()[:2], 1000)  # collections of the middle generation before one of the whole
atexit.register(gc.freeze)
