"""Files as users have them, for tests: plain, `.gz` or `.zst` by their ending."""

import gzip
from pathlib import Path

import zstandard


def pack(path: Path, content: bytes) -> Path:
    """Write `content` to `path`, packed as the ending says; `.zst` with the window of `zstd --long=27`."""
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    elif path.suffix == ".zst":
        parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=True)
        # a stream's size is not written at its head, so that the window is as large as said
        stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        content = stream.compress(content) + stream.flush()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
