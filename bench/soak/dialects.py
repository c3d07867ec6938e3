"""The protocols in which the clients of `clients.py` speak. `asked` and `long` return requests, and a function that says
whether bytes are all their replies; it raises an error if they cannot be."""

import re


def ends_with_count(count, end):
    """Whether bytes have `end` so many times, and the last time at their end."""
    return lambda received: received.count(end) >= count and received.endswith(end)


class Redis:
    @staticmethod
    def command(*words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def request(self, random):
        key = f"odd:{random.randrange(1000)}"
        return random.choice([
            self.command("GET", key), self.command("SET", key, "x" * random.randrange(1, 3000)),
            self.command("LRANGE", "biglist", "0", "-1"), self.command("INCR", f"count:{random.randrange(9)}"),
            self.command("MULTI") + self.command("SET", key, "1") + self.command("EXEC"),
            self.command("BLPOP", f"nothing:{random.randrange(9)}", "5"), self.command("SUBSCRIBE", "news"),
        ])

    def long_reply(self):
        return self.command("LRANGE", "biglist", "0", "-1")

    def garbage(self):
        return b"*2\r\n$3\r\nGET\r\n$-7\r\n*1000000000\r\n$abc\r\n"

    def asked(self, random, count):
        texts = [f"{random.random()}" for _ in range(count)]
        request = b"".join(self.command("ECHO", text) for text in texts)
        expected = b"".join(b"$%d\r\n%s\r\n" % (len(text), text.encode()) for text in texts)
        return request, lambda received: is_whole(received, expected)

    def long(self, random):
        script = "local sum = 0 for term = 1, tonumber(ARGV[1]) do sum = sum + term end return sum"
        terms = random.randrange(1, 2_000_000)
        expected = b":%d\r\n" % (terms * (terms + 1) // 2)
        return self.command("EVAL", script, 0, terms), lambda received: is_whole(received, expected)


class Memcached:
    def request(self, random):
        key, length = f"odd:{random.randrange(1000)}", random.randrange(1, 3000)
        return random.choice([
            f"get {key}\r\n".encode(), f"set {key} 0 0 {length}\r\n".encode() + b"x" * length + b"\r\n",
            f"mg {key} v\r\n".encode(), f"incr {key} 1\r\n".encode(), b"stats\r\n",
            ("get " + " ".join(f"odd:{number}" for number in range(100)) + "\r\n").encode(),
        ])

    def long_reply(self):
        return ("get " + " ".join(f"key:{number:012}" for number in range(200)) + "\r\n").encode()

    def garbage(self):
        return b"get " + b"k" * 300 + b"\r\nset a 0 0 99999999999\r\n" + b"\x80\x00\xff\xff" + b"\0" * 40

    def asked(self, random, count):
        return b"version\r\n" * count, lambda received: (
            re.fullmatch(rb"(VERSION [^\r\n]*\r\n)*", received) is not None and received.count(b"\r\n") == count)

    def long(self, random):
        keys = " ".join(f"key:{random.randrange(5000):012}" for _ in range(2000))
        return f"get {keys}\r\n".encode(), lambda received: received.endswith(b"END\r\n")


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def of_bytes(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


class Envelope:
    """psp's RPC."""

    @staticmethod
    def call(number, method, payload=b""):
        message = varint(1 << 3) + varint(number) + of_bytes(2, method.encode()) + (of_bytes(4, payload) if payload else b"")
        return varint(len(message)) + message

    @staticmethod
    def answers(received, count):
        """Whether these are whole responses, of which each is that to its request and OK."""
        at, seen = 0, 0
        while at < len(received):
            length, shift = 0, 0
            while True:
                if at >= len(received):
                    return False
                byte = received[at]
                at += 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            message = received[at:at + length]
            if len(message) < length:
                return False
            seen += 1
            if not message.startswith(varint(1 << 3) + varint(seen)) or message[2:3] == b"\x10":
                raise ValueError(f"response {seen}: {bytes(message[:80])!r}")
            at += length
        return seen == count


class Rpc(Envelope):
    def request(self, random):
        return random.choice([
            self.call(1, "Echo", random.randbytes(random.randrange(1, 20_000))), self.call(2, "Stats"),
            self.call(3, "Spin", varint(1 << 3) + varint(random.randrange(5000))), self.call(4, "NoSuchMethod"),
            self.call(5, "Sleep", varint(1 << 3) + varint(random.randrange(5000))),
        ])

    def long_reply(self):
        return self.call(1, "Echo", b"x" * 100_000)

    def garbage(self):
        return b"\xff\xff\xff\xff\xff\xff\xff\xff"

    def asked(self, random, count):
        calls = [self.call(number + 1, "Echo", b"%f" % random.random()) for number in range(count)]
        return b"".join(calls), lambda received: self.answers(received, count)

    def long(self, random):
        work = varint(1 << 3) + varint(random.randrange(1000, 20_000))
        return self.call(1, random.choice(["Spin", "Sleep"]), work), lambda received: self.answers(received, 1)


class KeyValue(Envelope):
    """psp-rocksdb's methods."""

    def request(self, random):
        key = b"odd:%d" % random.randrange(1000)
        return random.choice([
            self.call(1, "GET", of_bytes(1, key)), self.call(2, "DELETE", of_bytes(1, key)),
            self.call(3, "PUT", of_bytes(1, key) + of_bytes(2, random.randbytes(random.randrange(1, 3000)))),
            self.scan(4, 1000, False),
        ])

    def scan(self, number, count, is_summary):
        summary = varint(3 << 3) + varint(1) if is_summary else b""
        return self.call(number, "SCAN", varint(2 << 3) + varint(count) + summary)

    def long_reply(self):
        return self.scan(1, 4000, False)

    def garbage(self):
        return b"\xff\xff\xff\xff\xff\xff\xff\xff"

    def asked(self, random, count):
        calls = [self.scan(number + 1, random.randrange(1, 9), True) for number in range(count)]
        return b"".join(calls), lambda received: self.answers(received, count)

    def long(self, random):
        return self.scan(1, 5000, True), lambda received: self.answers(received, 1)


class Http:
    @staticmethod
    def get(path, body=None):
        if body is None:
            return f"GET {path} HTTP/1.1\r\nHost: soak\r\n\r\n".encode()
        return f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def request(self, random):
        return random.choice([
            self.get("/fast"), self.get("/slow?ms=3"), self.get("/none"),
            self.get("/echo", random.randbytes(random.randrange(1, 20_000))),
        ])

    def long_reply(self):
        return self.get("/echo", b"x" * 100_000)

    def garbage(self):
        return b"GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"

    def asked(self, _random, count):
        return self.get("/fast") * count, ends_with_count(count, b"\r\n\r\nfast\n")

    def long(self, random):
        return self.get(f"/slow?ms={random.randrange(1, 20)}"), ends_with_count(1, b"\r\n\r\nslow\n")


def is_whole(received, expected):
    if not expected.startswith(bytes(received)):
        raise ValueError(f"{bytes(received[:80])!r} in place of {expected[:80]!r}")
    return len(received) == len(expected)


DIALECTS = {"redis": Redis(), "memcached": Memcached(), "rpc": Rpc(), "kv": KeyValue(), "http": Http()}
