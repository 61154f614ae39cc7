"""Models behind HTTP: typed requests, batches made of what waits, limits, metrics, and one page. Only `bertcore serve`
imports it."""
