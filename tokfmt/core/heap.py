"""Memory that was freed stays at hand for the next window.

glibc gives large blocks back to the kernel as soon as they are freed, and gets them again page by page, zeroed: a third
of the CPU of a conversion that does nothing but copy. What counts as large rises to the largest block that was freed so
far, and twice as much is kept. Other allocators take no notice.
"""

_WINDOW_BYTES = 1 << 24
"""A window of tokens at the widest, and as much again; never touched, so it takes no memory itself."""


def keep_freed_memory() -> None:
    """Let the allocator keep up to 32 MiB of what is freed. Once a process."""
    bytes(_WINDOW_BYTES)  # calloc; a bytearray would be filled with zeros, which takes 9 ms
