"""Drives a server with redis-py and its defaults. Usage: redis_py.py PORT PASSWORD UNIX_SOCKET"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis


def check(actual, expected):
    """Fails with both values when they differ in value or type."""
    if actual != expected or type(actual) is not type(expected):
        raise AssertionError(f"{actual!r} instead of {expected!r}")


def check_error(call, error, text):
    """Fails unless `call` raises `error` with `text` in its message."""
    try:
        answer = call()
    except error as raised:
        assert text in str(raised), f"{text!r} in {raised!r}"
    else:
        raise AssertionError(f"{answer!r} instead of an error with {text!r}")


def connection(port, password):
    """Negotiates the protocol, sets the client's name, and needs the password."""
    client = redis.Redis(port=port, password=password)
    check(client.ping(), True)
    check(client.echo("hello"), b"hello")
    check(client.client_setname("suite"), True)
    check(client.client_getname(), "suite")
    (own,) = [entry for entry in client.client_list() if entry["name"] == "suite"]
    check(own["id"], str(client.client_id()))
    check(own["lib-name"], "redis-py") if "lib-name" in own else None
    check(client.info("replication")["role"], "master")
    check(client.config_get("maxclients"), {"maxclients": "10000"})
    check(client.execute_command("HELLO")[b"proto"], 3)
    assert client.command_count() > 100
    assert len(client.time()) == 2

    refused = redis.Redis(port=port)
    check_error(refused.ping, redis.AuthenticationError, "HELLO must be called with the client already")
    wrong = redis.Redis(port=port, password="wrong")
    check_error(wrong.ping, redis.AuthenticationError, "invalid username-password pair")
    check(redis.Redis.from_url(f"redis://default:{password}@127.0.0.1:{port}/0").ping(), True)
    other_database = redis.Redis(port=port, password=password, db=99)
    check_error(other_database.ping, redis.ResponseError, "DB index is out of range")


def strings(client):
    check(client.set("text", "grün"), True)
    check(client.get("text"), "grün")
    check(client.set("text", "other", nx=True), None)
    check(client.set("text", "new", get=True), "grün")
    check(client.append("text", "er"), 5)
    check(client.strlen("text"), 5)
    check(client.getrange("text", 1, -2), "ewe")
    check(client.setrange("text", 3, "t"), 5)
    check(client.getdel("text"), "newtr")
    check(client.get("text"), None)
    check(client.mset({"one": 1, "two": 2}), True)
    check(client.mget("one", "none", "two"), ["1", None, "2"])
    check(client.incr("one"), 2)
    check(client.decrby("one", 5), -3)
    check(client.incrbyfloat("two", 0.5), 2.5)
    check_error(lambda: client.incr("two"), redis.ResponseError, "not an integer or out of range")


def keys(client):
    check(client.set("key", "value", ex=100), True)
    check(client.ttl("key"), 100)
    assert 0 < client.pttl("key") <= 100_000
    check(client.persist("key"), True)
    check(client.ttl("key"), -1)
    check(client.expire("key", 50), True)
    check(client.getex("key", persist=True), "value")
    check(client.type("key"), "string")
    check(client.exists("key", "nosuch"), 1)
    check(client.rename("key", "renamed"), True)
    check(client.keys("rename*"), ["renamed"])
    check(client.expire("renamed", 0), True)
    check(client.exists("renamed"), 0)
    check_error(lambda: client.rename("a", "b"), redis.ResponseError, "no such key")


def lists(client):
    check(client.rpush("list", "b", "c"), 2)
    check(client.lpush("list", "a"), 3)
    check(client.lrange("list", 0, -1), ["a", "b", "c"])
    check(client.lindex("list", 1), "b")
    check(client.lset("list", 1, "B"), True)
    check(client.linsert("list", "after", "B", "x"), 4)
    check(client.lrem("list", 0, "x"), 1)
    check(client.lpop("list"), "a")
    check(client.rpop("list", 5), ["c", "B"])
    check(client.llen("list"), 0)
    check(client.rpush("numbers", *range(10)), 10)
    check(client.sort("numbers", desc=True, start=0, num=3), ["9", "8", "7"])
    check_error(lambda: client.get("numbers"), redis.ResponseError, "WRONGTYPE")


def hashes(client):
    check(client.hset("hash", mapping={"a": 1, "b": 2}), 2)
    check(client.hgetall("hash"), {"a": "1", "b": "2"})
    check(client.hget("hash", "nosuch"), None)
    check(client.hmget("hash", "a", "nosuch"), ["1", None])
    check(client.hincrby("hash", "a", 5), 6)
    check(client.hexists("hash", "b"), True)
    check(client.hdel("hash", "b"), 1)
    check(client.hkeys("hash"), ["a"])
    check(client.hvals("hash"), ["6"])
    check(client.hlen("hash"), 1)
    client.hset("large", mapping={f"field:{index}": index for index in range(1000)})
    found = dict(client.hscan_iter("large", match="field:99*"))
    check(found, {f"field:{index}": str(index) for index in [99, *range(990, 1000)]})


def sets(client):
    check(client.sadd("set", "a", "b", "c"), 3)
    check(client.smembers("set"), {"a", "b", "c"})
    check(client.sismember("set", "a"), 1)
    check(client.srem("set", "c"), 1)
    check(client.sadd("another", "b", "z"), 2)
    check(client.sinter("set", "another"), {"b"})
    check(client.sunion("set", "another"), {"a", "b", "z"})
    check(client.sdiff("set", "another"), {"a"})
    check(client.scard("set"), 2)
    check(set(client.sscan_iter("set")), {"a", "b"})
    assert client.spop("set") in {"a", "b"}


def sorted_sets(client):
    check(client.zadd("zset", {"a": 1, "b": 2.5, "c": 3}), 3)
    check(client.zscore("zset", "b"), 2.5)
    check(client.zscore("zset", "nosuch"), None)
    check(client.zincrby("zset", 1.5, "a"), 2.5)
    check(client.zrange("zset", 0, -1), ["a", "b", "c"])
    ranked = client.zrange("zset", 0, -1, withscores=True)
    check([tuple(pair) for pair in ranked], [("a", 2.5), ("b", 2.5), ("c", 3.0)])
    check(client.zrangebyscore("zset", "(2.5", "+inf"), ["c"])
    check(client.zrank("zset", "c"), 2)
    check(client.zcard("zset"), 3)
    check(client.zcount("zset", 2.5, 3), 3)
    check([tuple(pair) for pair in client.zpopmin("zset")], [("a", 2.5)])
    check(client.zrem("zset", "b", "c"), 2)
    check(client.exists("zset"), 0)


def pipelines(client):
    with client.pipeline(transaction=False) as pipe:
        for index in range(1000):
            pipe.set(f"scan:{index}", index).get(f"scan:{index}")
        replies = pipe.execute()
    check(replies, [reply for index in range(1000) for reply in (True, str(index))])
    found = sorted(client.scan_iter("scan:*", count=50))
    check(found, sorted(f"scan:{index}" for index in range(1000)))
    with client.pipeline(transaction=False) as pipe:
        pipe.set("text", "x").incr("text").get("text")
        set_reply, error, value = pipe.execute(raise_on_error=False)
    check((set_reply, value), (True, "x"))
    assert isinstance(error, redis.ResponseError), error
    check(client.delete(*found), 1000)


def resp2(port, password):
    client = redis.Redis(port=port, password=password, protocol=2, decode_responses=True)
    check(client.hset("resp2", mapping={"a": "1"}), 1)
    check(client.hgetall("resp2"), {"a": "1"})
    check(client.delete("resp2"), 1)


def binary(port, password):
    client = redis.Redis(port=port, password=password)
    value = bytes(range(256)) * 1000
    check(client.set(b"\r\n\x00", value), True)
    check(client.get(b"\r\n\x00"), value)


def local_socket(path, password):
    client = redis.from_url(f"unix://:{password}@{path}")
    check(client.set("local", "value"), True)
    check(client.get("local"), b"value")
    addresses = [entry["addr"] for entry in client.client_list()]
    assert f"{path}:0" in addresses, addresses


def transactions(client):
    """The default pipeline is a transaction; WATCH is how redis-py's `transaction` retries."""
    with client.pipeline() as pipe:
        pipe.set("counter", 1).incr("counter").get("counter").keys("counter")
        check(pipe.execute(), [True, 2, "2", ["counter"]])
    with client.pipeline() as pipe:
        pipe.set("text", "x").incr("text").set("after", 1)
        check_error(pipe.execute, redis.ResponseError, "not an integer")
    check(client.get("after"), "1")
    with client.pipeline() as pipe:
        pipe.watch("counter")
        client.incr("counter")
        pipe.multi()
        pipe.set("counter", 0)
        check_error(pipe.execute, redis.WatchError, "Watched variable changed")
    attempts = []

    def increment(pipe):
        value = int(pipe.get("counter"))
        if not attempts:
            client.set("counter", 10)
        attempts.append(value)
        pipe.multi()
        pipe.set("counter", value + 1)

    check(client.transaction(increment, "counter"), [True])
    check(attempts, [3, 10])
    check(client.get("counter"), "11")


def scripts(client):
    """Locks are scripts, too: redis-py sends their digest first, and loads them when it gets NOSCRIPT."""
    check(client.eval("return {KEYS[1], ARGV[1], 7}", 1, "key", "argument"), ["key", "argument", 7])
    add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    check(add(keys=["counter"], args=[5]), 5)
    check(client.script_exists(add.sha, "nosuch"), [True, False])
    check(client.script_flush(), True)
    check(add(keys=["counter"], args=[5]), 10)
    check_error(lambda: client.evalsha("0" * 40, 0), redis.exceptions.NoScriptError, "No matching script")
    check_error(lambda: client.eval("error('oh')", 0), redis.ResponseError, "user_script:1: oh")
    with client.pipeline() as pipe:
        add(keys=["counter"], args=[1], client=pipe)
        pipe.get("counter")
        check(pipe.execute(), [11, "11"])
    lock = client.lock("lock", timeout=10)
    check(lock.acquire(blocking=False), True)
    check(client.lock("lock", timeout=10).acquire(blocking=False), False)
    check(lock.extend(5), True)
    check(lock.reacquire(), True)
    lock.release()
    check_error(lock.release, redis.exceptions.LockError, "unlocked")
    with client.lock("lock", timeout=10, blocking_timeout=1):
        check(client.exists("lock"), 1)
    check(client.exists("lock"), 0)


def functions(client):
    check(client.function_flush(), True)
    code = """#!lua name=lib
        local function add(keys, args) return redis.call('INCRBY', keys[1], args[1]) end
        redis.register_function('add', add)
        redis.register_function{
            function_name = 'peek',
            callback = function(keys) return redis.call('GET', keys[1]) end,
            flags = {'no-writes'},
            description = 'Reads a key',
        }"""
    check(client.function_load(code), "lib")
    check_error(lambda: client.function_load(code), redis.ResponseError, "Library 'lib' already exists")
    check(client.function_load(code, replace=True), "lib")
    check(client.fcall("add", 1, "counter", 5), 5)
    check(client.fcall_ro("peek", 1, "counter"), "5")
    check_error(lambda: client.fcall_ro("add", 1, "counter", 5), redis.ResponseError, "*_ro command")
    check_error(lambda: client.fcall("nosuch", 0), redis.ResponseError, "Function not found")
    with client.pipeline() as pipe:
        pipe.fcall("add", 1, "counter", 1)
        pipe.get("counter")
        check(pipe.execute(), [6, "6"])
    (library,) = client.function_list()
    check("peek" in str(library) and "no-writes" in str(library), True)
    check("Reads a key" in str(client.function_list("LIB*")), True)
    check(client.function_list("nosuch"), [])
    check("INCRBY" in str(client.function_list(withcode=True)), True)
    check("functions_count" in str(client.function_stats()), True)
    of = client.get_connection_kwargs()
    binary = redis.Redis(port=of["port"], password=of["password"])
    payload = binary.function_dump()
    check(client.function_delete("lib"), True)
    check(binary.function_restore(payload), True)
    check_error(lambda: binary.function_restore(payload), redis.ResponseError, "Library lib already exists")
    check(binary.function_restore(payload, "REPLACE"), True)
    check(client.fcall("add", 1, "counter", 1), 7)
    check_error(client.function_kill, redis.ResponseError, "No scripts in execution")
    check(client.function_flush("ASYNC"), True)
    check(client.function_list(), [])


def waiting(client, command):
    """Runs `command` on a thread, which has a connection of its own, until the server says that it waits."""
    pool = ThreadPoolExecutor(max_workers=1)
    reply = pool.submit(command)
    pool.shutdown(wait=False)
    while client.info("clients")["blocked_clients"] == 0:
        assert not reply.done(), reply.result()
        time.sleep(0.01)
    return reply


def blocking(client):
    check(client.rpush("queue", "a", "b", "c"), 3)
    check(client.blpop(["none", "queue"], timeout=0), ("queue", "a"))
    check(client.brpop("queue"), ("queue", "c"))
    check(client.blmove("queue", "running", 1), "b")
    check(client.brpoplpush("running", "done", 1), "b")
    check(client.blmpop(0, 1, "done", direction="LEFT"), ["done", ["b"]])
    check(client.zadd("zset", {"a": 1, "b": 2, "c": 3}), 3)
    check(client.bzpopmin("zset", 1), ("zset", "a", 1.0))
    check(client.bzpopmax("zset", 1), ("zset", "c", 3.0))
    for nothing in [
        client.blpop("none", timeout=0.01),
        client.blmove("none", "running", 0.01),
        client.bzpopmin("none", 0.01),
        client.blmpop(0.01, 1, "none", direction="LEFT"),
    ]:
        check(nothing, None)
    popped = waiting(client, lambda: client.blpop("queue"))
    check(client.rpush("queue", "job"), 1)
    check(popped.result(), ("queue", "job"))
    moved = waiting(client, lambda: client.blmove("queue", "running", 60))
    with client.pipeline() as pipe:
        pipe.rpush("queue", "job").llen("queue")
        check(pipe.execute(), [1, 1])
    check(moved.result(), "job")
    check(client.lrange("running", 0, -1), ["job"])
    unblocked = waiting(client, lambda: client.bzpopmax("none", 0))
    waits = [entry for entry in client.client_list() if entry["flags"] == "b"]
    check([entry["cmd"] for entry in waits], ["bzpopmax"])
    check(client.client_unblock(int(waits[0]["id"]), error=True), True)
    check_error(unblocked.result, redis.ResponseError, "UNBLOCKED")


def received(subscriber):
    """The kind, the channel and the text of the next message."""
    message = subscriber.get_message(timeout=60)
    return message["type"], message["channel"], message["data"]


def messages(client):
    """Channels, patterns, shard channels and keyspace events, in each version of the protocol."""
    port, password = map(client.connection_pool.connection_kwargs.get, ("port", "password"))
    for protocol in [2, 3]:
        other = redis.Redis(port=port, password=password, protocol=protocol, decode_responses=True)
        subscriber = other.pubsub()
        subscriber.subscribe("news")
        check(received(subscriber), ("subscribe", "news", 1))
        subscriber.psubscribe("n*")
        check(received(subscriber), ("psubscribe", "n*", 2))
        check(client.publish("news", "hello"), 2)
        check(received(subscriber), ("message", "news", "hello"))
        check(received(subscriber), ("pmessage", "news", "hello"))
        check(client.pubsub_channels(), ["news"])
        check(client.pubsub_numsub("news", "none"), [("news", 1), ("none", 0)])
        check(client.pubsub_numpat(), 1)
        subscriber.unsubscribe("news")
        check(received(subscriber), ("unsubscribe", "news", 1))
        subscriber.punsubscribe()
        check(received(subscriber), ("punsubscribe", "n*", 0))
        check(client.publish("news", "nobody"), 0)
        check(client.config_set("notify-keyspace-events", "Ex"), True)
        subscriber.subscribe("__keyevent@0__:expired")
        check(received(subscriber)[0], "subscribe")
        check(client.set("short", "v", px=1), True)
        check(received(subscriber), ("message", "__keyevent@0__:expired", "short"))
        check(client.config_set("notify-keyspace-events", ""), True)
        subscriber.close()
    with client.pipeline() as pipe:
        pipe.multi()
        pipe.publish("news", "nobody").set("key", "value")
        check(pipe.execute(), [0, True])


def users(client):
    """Users with rules, as an administrator sees them and as they see themselves."""
    port = client.connection_pool.connection_kwargs["port"]
    check(client.acl_whoami(), "default")
    rules = {"enabled": True, "reset": True, "passwords": ["+first", "+second"], "categories": ["+@string"]}
    rules |= {"commands": ["+acl|whoami", "-getset"], "keys": ["app:*"], "channels": ["news"]}
    rules |= {"selectors": [("+get", "%R~settings:*")]}
    check(client.acl_setuser("worker", **rules), True)
    user = client.acl_getuser("worker")
    check(user["enabled"], True)
    check(sorted(user["flags"])[0], "on")
    check(len(user["passwords"]), 2)
    check(user["categories"], ["-@all", "+@string"])
    check(user["commands"], ["+acl|whoami", "-getset"])
    check(client.acl_users(), ["default", "worker"])
    (line,) = [line for line in client.acl_list() if line.startswith("user worker ")]
    assert "~app:*" in line and "(%R~settings:* resetchannels -@all +get)" in line, line

    worker = redis.Redis(port=port, username="worker", password="second", decode_responses=True)
    check(worker.acl_whoami(), "worker")
    check(worker.set("app:1", "x"), True)
    check(worker.get("settings:1"), None)
    denied = redis.exceptions.NoPermissionError
    check_error(lambda: worker.set("settings:1", "x"), denied, "one of the keys")
    check_error(lambda: worker.getset("app:1", "x"), denied, "'getset' command")
    check_error(lambda: worker.publish("news", "x"), denied, "'publish' command")
    with worker.pipeline() as pipe:
        check_error(lambda: pipe.set("app:1", "y").execute(), denied, "'multi' command")
    check(client.acl_dryrun("worker", "set", "app:1", "x"), "OK")
    check(
        client.acl_dryrun("worker", "set", "other", "x"),
        "This user has no permissions to access the 'other' key",
    )
    wrong = redis.Redis(port=port, username="worker", password="third")
    check_error(wrong.ping, redis.AuthenticationError, "invalid username-password pair")
    log = client.acl_log()
    check([log[0][field] for field in ("reason", "context", "username")], ["auth", "toplevel", "worker"])
    check({entry["reason"] for entry in log}, {"auth", "command", "key"})
    check(client.acl_log_reset(), True)
    check(client.acl_log(), [])
    assert "scripting" in client.acl_cat()
    assert "eval" in client.acl_cat("scripting")
    check(len(client.acl_genpass()), 64)
    check_error(client.acl_load, redis.ResponseError, "not configured to use an ACL file")
    check(client.acl_deluser("worker"), 1)
    check_error(worker.acl_whoami, redis.AuthenticationError, "invalid username-password pair")
    check(client.acl_getuser("worker"), None)


def main():
    port, password, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    connection(port, password)
    client = redis.Redis(port=port, password=password, decode_responses=True)
    suites = [strings, keys, lists, hashes, sets, sorted_sets, pipelines, transactions, scripts, functions, blocking]
    suites += [messages, users]
    for suite in suites:
        check(client.flushdb(), True)
        suite(client)
    resp2(port, password)
    binary(port, password)
    local_socket(path, password)
    check(client.flushall(), True)
    check(client.dbsize(), 0)
    print(f"redis-py {redis.__version__}: all checks passed")


main()
