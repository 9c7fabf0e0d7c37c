"""Connections in two flavours with the same names: `aio` for asyncio, `blocking` for threads."""
