"""The pickle opcodes of an index, and what every other one would be, in words."""

from __future__ import annotations

PROTO, FRAME, STOP = 0x80, 0x95, 0x2E
EMPTY_LIST, MARK, APPEND, APPENDS = 0x5D, 0x28, 0x61, 0x65
BININT1, BININT2, BININT, LONG1 = 0x4B, 0x4D, 0x4A, 0x8A
TUPLE2, MEMOIZE, BINPUT, LONG_BINPUT = 0x86, 0x94, 0x71, 0x72

DANGEROUS = {
    0x63: ("GLOBAL", "imports a name"),
    0x93: ("STACK_GLOBAL", "imports a name"),
    0x69: ("INST", "creates an object"),
    0x6F: ("OBJ", "creates an object"),
    0x52: ("REDUCE", "calls a function"),
    0x62: ("BUILD", "changes an object"),
    0x81: ("NEWOBJ", "creates an object"),
    0x92: ("NEWOBJ_EX", "creates an object"),
    0x82: ("EXT1", "imports a name"),
    0x83: ("EXT2", "imports a name"),
    0x84: ("EXT4", "imports a name"),
    0x50: ("PERSID", "asks the program for an object"),
    0x51: ("BINPERSID", "asks the program for an object"),
    0x97: ("NEXT_BUFFER", "asks the program for memory"),
    0x98: ("READONLY_BUFFER", "asks the program for memory"),
    0x8B: ("LONG4", "holds an integer of up to 2 GiB"),
}
"""Opcodes that execute something or may exhaust memory: name, and what it does."""

OTHER = {
    PROTO: "a second protocol header (PROTO)",
    FRAME: "a frame (FRAME)",
    STOP: "the end of the pickle (STOP)",
    EMPTY_LIST: "a list (EMPTY_LIST)",
    MARK: "MARK",
    APPEND: "the end of a single entry (APPEND)",
    APPENDS: "the end of a batch (APPENDS)",
    BININT1: "an integer (BININT1)",
    BININT2: "an integer (BININT2)",
    BININT: "an integer (BININT)",
    LONG1: "an integer (LONG1)",
    TUPLE2: "a pair (TUPLE2)",
    MEMOIZE: "MEMOIZE",
    BINPUT: "BINPUT",
    LONG_BINPUT: "LONG_BINPUT",
    0x29: "an empty tuple (EMPTY_TUPLE)",
    0x74: "a tuple (TUPLE)",
    0x85: "a tuple of one (TUPLE1)",
    0x87: "a tuple of three (TUPLE3)",
    0x6C: "a list (LIST)",
    0x7D: "a dict (EMPTY_DICT)",
    0x64: "a dict (DICT)",
    0x73: "a dict entry (SETITEM)",
    0x75: "dict entries (SETITEMS)",
    0x8F: "a set (EMPTY_SET)",
    0x90: "set members (ADDITEMS)",
    0x91: "a set (FROZENSET)",
    0x58: "a text (BINUNICODE)",
    0x8C: "a text (SHORT_BINUNICODE)",
    0x8D: "a text (BINUNICODE8)",
    0x56: "a text (UNICODE)",
    0x53: "a text (STRING)",
    0x54: "a text (BINSTRING)",
    0x55: "a text (SHORT_BINSTRING)",
    0x42: "bytes (BINBYTES)",
    0x43: "bytes (SHORT_BINBYTES)",
    0x8E: "bytes (BINBYTES8)",
    0x96: "bytes (BYTEARRAY8)",
    0x46: "a decimal number (FLOAT)",
    0x47: "a decimal number (BINFLOAT)",
    0x49: "an integer as text (INT)",
    0x4C: "an integer as text (LONG)",
    0x88: "True (NEWTRUE)",
    0x89: "False (NEWFALSE)",
    0x4E: "None (NONE)",
    0x30: "POP",
    0x31: "POP_MARK",
    0x32: "DUP",
    0x67: "a reference to an earlier object (GET)",
    0x68: "a reference to an earlier object (BINGET)",
    0x6A: "a reference to an earlier object (LONG_BINGET)",
    0x70: "PUT",
}
"""Every other opcode of pickle, as it is named in a message."""
