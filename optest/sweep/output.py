"""What a process printed: all of it taken, the end of it kept."""

from __future__ import annotations

import os

_CHUNK = 1 << 18
_KEPT = 24 << 10


class Tail:
    """Drains a descriptor into a bounded tail, and counts what went through."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.ended = False
        self.count = 0
        self._kept = bytearray()
        os.set_blocking(fd, False)

    def read(self, most: int = 64) -> None:
        """Take what there is, at most so many chunks: who never stops printing holds up nobody."""
        for _ in range(most):
            try:
                chunk = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            if not chunk:
                self.ended = True
                return
            self.count += len(chunk)
            self._kept += chunk
            del self._kept[:-_KEPT]

    def restart(self) -> None:
        """Forget what came so far."""
        self.count = 0
        self._kept.clear()

    @property
    def text(self) -> str:
        """The end of it, from the start of a line where something was cut off."""
        kept = bytes(self._kept)
        cut = self.count > len(kept)
        if cut and b"\n" in kept[:-1]:
            kept = kept[kept.index(b"\n") + 1 :]
        words = kept.decode("utf-8", "replace").strip("\n")
        left_out = self.count - len(kept)
        return f"… {left_out} bytes left out …\n{words}" if cut else words
