"""Tests of clusters of Dask, and the client of another user."""

import importlib.util
import sys

import forkserver
import pytest

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="the package distributed is not installed (extra dask)",
)
STRANGER = """
import asyncio, json, os, sys
import distributed.comm.tcp
from distributed.core import rpc
from distributed.security import Security

if os.geteuid() == 0:  # what keeps others out is no file of root's
    os.setgid(65533)
    os.setuid(65533)

async def ask(address, security):
    args = security.get_connection_args("client") if security else {}
    async with rpc(address, timeout=5, **({"connection_args": args} if args else {})) as other:
        return await asyncio.wait_for(other.identity(), 5)

async def let_in(address, scheme, security):
    port = address.rpartition(":")[2]
    try:
        await ask(f"{scheme}://127.0.0.1:{port}", security)
    except Exception:
        return None
    return f"{scheme} {port}"

async def of_all():  # at once: who is not let in may be kept waiting
    mine = Security.temporary()
    ways = [(address, *way) for address in json.loads(sys.argv[1]) for way in (("tcp", None), ("tls", mine))]
    return await asyncio.gather(*(let_in(*way) for way in ways))

print(json.dumps([way for way in asyncio.run(of_all()) if way]))
"""
"""Another user's client (where root runs the test): without a key, and with one of its own."""


def run(*words, **how):
    """Python, with Dask imported already."""
    words = [sys.executable, *map(str, words)]
    return forkserver.run(words, also=("distributed",), capture_output=True, text=True, timeout=200, **how)
