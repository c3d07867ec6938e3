"""Drives a server with pymemcache over TLS. Usage: pymemcache_tls.py PORT AUTHORITY CERTIFICATE KEY"""

import ssl
import sys

from pymemcache.client.base import Client

port, authority, certificate, key = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.load_cert_chain(certificate, key)
client = Client(("localhost", int(port)), default_noreply=False, tls_context=context)
value = bytes(range(256)) * 2048
assert client.set("key", value) and client.get("key") == value
assert client.set_many({f"many{i}": str(i) for i in range(500)}) == []
assert len(client.get_many([f"many{i}" for i in range(600)])) == 500
client.close()

stranger = Client(("localhost", int(port)), tls_context=ssl.create_default_context(cafile=authority))
try:
    stranger.get("key")
except OSError:
    pass
else:
    raise AssertionError("a client without a certificate was let in")
print("all checks passed")
