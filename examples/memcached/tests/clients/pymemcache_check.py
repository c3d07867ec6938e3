"""pymemcache's operations against the server at the port in the first argument."""

import sys

from pymemcache.client.base import Client
from pymemcache.client.hash import HashClient
from pymemcache import serde

address = ("127.0.0.1", int(sys.argv[1]))
client = Client(address, default_noreply=False)

assert client.set("key", "value", flags=3)
assert client.get("key") == b"value"
assert client.get("nosuch") is None
assert not client.add("key", "x") and client.add("other", "y")
assert client.replace("other", "z") and not client.replace("nosuch", "z")
assert client.append("key", "!") and client.prepend("key", ">")
assert client.get("key") == b">value!"
value, token = client.gets("key")
assert client.cas("key", "new", token) is True
assert client.cas("key", "newer", token) is False
assert client.cas("nosuch", "x", b"1") is None
assert client.set("n", "41") and client.incr("n", 1) == 42 and client.decr("n", 50) == 0
assert client.incr("nosuch", 1) is None
assert client.touch("n", 100) and not client.touch("nosuch", 1)
assert client.get("n") == b"0 "
assert client.set_many({f"many{i}": str(i) for i in range(500)}) == []
assert len(client.get_many([f"many{i}" for i in range(600)])) == 500
assert client.delete_many([f"many{i}" for i in range(500)])
assert client.get_many(["many0", "many1"]) == {}
assert client.delete("key") and not client.delete("key")
assert client.version().startswith(b"1.6")
assert client.stats()[b"curr_items"] == 2
assert client.set("large", b"x" * 900_000) and len(client.get("large")) == 900_000
assert client.set("expired", "x", expire=-1) and client.get("expired") is None
assert client.raw_command(b"mg n v t").startswith(b"VA 2 t")
assert client.flush_all() and client.get("other") is None
quiet = Client(address, default_noreply=True)
quiet.set("quiet", "x")
quiet.delete("nosuch")
assert quiet.get("quiet") == b"x"
pickled = Client(address, serde=serde.pickle_serde)
pickled.set("object", {"a": [1, 2]})
assert pickled.get("object") == {"a": [1, 2]}
hashed = HashClient([address])
hashed.set("hashed", "x")
assert hashed.get("hashed") == b"x"
print("all checks passed")
