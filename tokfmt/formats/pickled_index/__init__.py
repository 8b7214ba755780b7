"""The pickled list of (offset, length) that Modalities keeps in `.pbin` and `.idx` files, without a pickle machine.

    stream   80 v | [95 u64] | 5d memo | batches | 2e        v = 2 .. 5; protocol 4 is what CPython 3.8-3.13 write
    batch    28 entries 65                                   MARK, up to 1,000 entries, APPENDS
             entry 61                                        a single entry: APPEND
    entry    int int 86 memo                                 TUPLE2
    int      4b u8 | 4d u16 | 4a i32 | 8a n (n bytes)        little-endian; 8a is two's complement (LONG1)
    memo     94 | 71 u8 | 72 u32 | nothing                   MEMOIZE; BINPUT and LONG_BINPUT before protocol 4
    frame    95 u64                                          at any opcode border, also between the integers of a pair

Decoding is an allow-list: whatever is not in this table is refused, so that no file can execute, import or allocate
anything. Encoding gives the very bytes of CPython's `pickle.dumps(entries, protocol=4)`: frames are closed at the first
integer border at or after 64 KiB; the empty list (`80 04 5d 94 2e`) has no frame, which would hold fewer than 4 bytes.

Both directions stream: memory does not grow with the number of entries.
"""

from tokfmt.formats.pickled_index.decode import EntryTable, Stretch, entry_position, read_entries, start_fields
from tokfmt.formats.pickled_index.encode import write_entries

__all__ = ["EntryTable", "Stretch", "entry_position", "read_entries", "start_fields", "write_entries"]
