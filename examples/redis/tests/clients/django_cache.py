"""Uses the server as Django's cache through django-redis: values, times to live, patterns, counters, locks.
Usage: django_cache.py PORT"""

import sys

from django.conf import settings

LOCATION = f"redis://127.0.0.1:{sys.argv[1]}/0"
settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": LOCATION,
            "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
        }
    }
)

from django.core.cache import cache  # noqa: E402  Django reads the settings when it is imported.

cache.set("plain", {"a": [1, 2]}, timeout=100)
assert cache.get("plain") == {"a": [1, 2]}
assert 0 < cache.ttl("plain") <= 100
assert cache.add("plain", 1) is False and cache.add("new", 1) is True
cache.set_many({f"many:{number}": number for number in range(50)})
assert cache.get_many([f"many:{number}" for number in range(50)]) == {f"many:{n}": n for n in range(50)}
assert len(cache.keys("many:*")) == 50 and len(list(cache.iter_keys("many:*"))) == 50
assert cache.delete_pattern("many:*") == 50
cache.set("counter", 1)
assert cache.incr("counter", 4) == 5 and cache.decr("counter") == 4
assert cache.touch("plain", 500) and cache.persist("counter") and cache.expire("counter", 60)
with cache.lock("lock", timeout=10) as lock:
    assert lock.owned()
    assert cache.lock("lock", timeout=10).acquire(blocking=False) is False
assert cache.lock("lock", timeout=10).acquire(blocking=False) is True
assert cache.get_or_set("made", lambda: "value") == "value"
cache.clear()
assert cache.get("plain") is None
print("all checks passed")
