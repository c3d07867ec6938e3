"""Drives a server with redis-py over TLS. Usage: redis_py_tls.py PORT AUTHORITY CERTIFICATE KEY"""

import sys

import redis

port, authority, certificate, key = sys.argv[1:]
settings = {"host": "localhost", "port": int(port), "ssl": True, "ssl_ca_certs": authority}
client = redis.Redis(ssl_certfile=certificate, ssl_keyfile=key, **settings)
assert client.ping() is True
value = bytes(range(256)) * 16384
assert client.set("key", value) is True
assert client.get("key") == value
with client.pipeline() as pipeline:
    for index in range(2000):
        pipeline.set(f"key:{index}", index)
    assert pipeline.execute() == [True] * 2000
assert len(client.mget([f"key:{index}" for index in range(2000)])) == 2000
try:
    redis.Redis(**settings).ping()
except redis.ConnectionError:
    pass
else:
    raise AssertionError("a client without a certificate was let in")
print("all checks passed")
