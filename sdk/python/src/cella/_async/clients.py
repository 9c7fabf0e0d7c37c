"""Clients of private servers: one for each server, so that sessions share connections."""

from __future__ import annotations

from cella._async.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cella._private_server import PrivateServer

_clients: dict[int, Client] = {}


def shared_client(server: PrivateServer) -> Client:
    client = _clients.get(id(server))
    if client is None or client.server is not server:
        for key, other in list(_clients.items()):
            if not other.is_alive:
                _clients.pop(key, None)
                # Its finalizers come too late where it is part of a cycle: Python then warns of open sockets.
                other.drop_connections()
        client = _clients.setdefault(id(server), Client(server=server))
        if client.server is not server:
            client = _clients[id(server)] = Client(server=server)
    return client
