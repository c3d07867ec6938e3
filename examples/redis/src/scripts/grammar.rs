//! Random scripts by a grammar: calls of all that scripts see, with arguments that are extreme, of other types, or
//! missing. Whatever they do, the server goes on, answers, and scripts after them see what they always see.

use std::env;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::tests::eval;
use crate::testing::Session;

/// Programs of `cargo test`. `PSP_SCRIPT_PROGRAMS` names another number, and `PSP_SCRIPT_SEED` the first program's
/// seed.
const PROGRAMS: u64 = 200;
const TIME_LIMIT_MS: u64 = 20;
/// The longest that a program may take. Most of it is memory: a script may have 256 MB of it.
const TIME_MAX: Duration = Duration::from_secs(20);
const STATEMENTS_MAX: u32 = 12;
const VARIABLES: u32 = 5;

/// Functions, and what their arguments mostly are: `n`umbers, `s`trings, `t`ables, `f`unctions, `p`atterns, `c`ommands,
/// `j`SON, `m`essages of MessagePack, formats of struct (`b`) and of texts (`o`), programs (`l`), or anything (`a`).
const FUNCTIONS: &[(&str, &str)] = &[
    ("string.byte", "snn"),
    ("string.char", "nnn"),
    ("string.find", "spn"),
    ("string.find", "spna"),
    ("string.format", "oaaa"),
    ("string.gmatch", "sp"),
    ("string.gsub", "span"),
    ("string.gsub", "spfn"),
    ("string.len", "s"),
    ("string.lower", "s"),
    ("string.upper", "s"),
    ("string.match", "spn"),
    ("string.rep", "sn"),
    ("string.reverse", "s"),
    ("string.sub", "snn"),
    ("table.concat", "tsnn"),
    ("table.insert", "ta"),
    ("table.insert", "tna"),
    ("table.maxn", "t"),
    ("table.remove", "tn"),
    ("table.sort", "tf"),
    ("table.sort", "t"),
    ("table.foreach", "tf"),
    ("table.foreachi", "tf"),
    ("table.getn", "t"),
    ("unpack", "tnn"),
    ("select", "naaa"),
    ("next", "ta"),
    ("pairs", "t"),
    ("ipairs", "t"),
    ("rawget", "ta"),
    ("rawset", "taa"),
    ("rawequal", "aa"),
    ("setmetatable", "tt"),
    ("getmetatable", "a"),
    ("tostring", "a"),
    ("tonumber", "sn"),
    ("type", "a"),
    ("error", "an"),
    ("assert", "as"),
    ("pcall", "faa"),
    ("xpcall", "ff"),
    ("loadstring", "ls"),
    ("load", "fs"),
    ("collectgarbage", "s"),
    ("coroutine.create", "f"),
    ("coroutine.wrap", "f"),
    ("coroutine.resume", "aa"),
    ("coroutine.status", "a"),
    ("coroutine.yield", "aa"),
    ("math.random", "nn"),
    ("math.randomseed", "n"),
    ("math.fmod", "nn"),
    ("math.ldexp", "nn"),
    ("math.frexp", "n"),
    ("math.pow", "nn"),
    ("math.max", "nnn"),
    ("bit.tohex", "nn"),
    ("bit.tobit", "n"),
    ("bit.lshift", "nn"),
    ("bit.arshift", "nn"),
    ("bit.rol", "nn"),
    ("bit.bswap", "n"),
    ("bit.band", "nnn"),
    ("bit.bxor", "nnn"),
    ("cjson.encode", "a"),
    ("cjson.encode", "t"),
    ("cjson.decode", "j"),
    ("cjson.encode_max_depth", "n"),
    ("cjson.decode_max_depth", "n"),
    ("cjson.encode_sparse_array", "ann"),
    ("cjson.encode_number_precision", "n"),
    ("cjson.encode_keep_buffer", "a"),
    ("cjson.encode_invalid_numbers", "a"),
    ("cjson.decode_invalid_numbers", "a"),
    ("cmsgpack.pack", "aaa"),
    ("cmsgpack.pack", "t"),
    ("cmsgpack.unpack", "m"),
    ("cmsgpack.unpack_one", "mn"),
    ("cmsgpack.unpack_limit", "mnn"),
    ("struct.pack", "baaa"),
    ("struct.unpack", "bsn"),
    ("struct.size", "b"),
    ("redis.call", "c"),
    ("redis.pcall", "c"),
    ("redis.sha1hex", "s"),
    ("redis.error_reply", "s"),
    ("redis.status_reply", "s"),
    ("redis.setresp", "n"),
    ("redis.log", "ns"),
    ("redis.acl_check_cmd", "c"),
];

const NUMBERS: &[&str] = &[
    "0", "1", "-1", "2", "3.7", "-0.5", "100", "7999", "8001", "65536", "2^31-1", "-2^31", "2^31", "2^32", "2^53",
    "2^63", "-2^63", "2^64", "1e308", "-1e308", "5e-324", "1/0", "-1/0", "0/0",
];

const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'b'",
    "'12'",
    "'-1e400'",
    "'\\0\\255\\128'",
    "'key'",
    "'count'",
    "('x'):rep(100)",
    "('ab'):rep(5000)",
    "('\\\\\"'):rep(3000)",
    "('x'):rep(2^20)",
];

const PATTERNS: &[&str] = &[
    "''",
    "'.'",
    "'.-.-.-b'",
    "'%b()'",
    "'%f[%w]'",
    "'(a*(.)%w(%s*))'",
    "'[^%]]'",
    "'[a'",
    "'%'",
    "'%1'",
    "'()'",
    "('(a)'):rep(40)",
    "('a?'):rep(500)",
    "('.-'):rep(30)",
    "'[%z\\1-\\255]*$'",
];

const FORMATS: &[&str] = &[
    "'%s'",
    "'%d %d'",
    "'%99.99f'",
    "'%100d'",
    "'%q'",
    "'%c%c'",
    "'%5$s'",
    "'%'",
    "'%-+ #05x'",
    "'%.99g'",
    "'%a %i %u %o %X %e %G'",
    "('%s'):rep(300)",
];

const STRUCT_FORMATS: &[&str] = &[
    "'i4'",
    "'>I8<i2'",
    "'bBhHlL'",
    "'s'",
    "'c0'",
    "'Bc0'",
    "'c10'",
    "'c2147483647'",
    "'i99'",
    "'!16d'",
    "'!3i4'",
    "'xxxx'",
    "'fd'",
    "('i8'):rep(500)",
    "'c99999999999999999999'",
];

const MESSAGES: &[&str] = &[
    "cmsgpack.pack({1, {a = 'b'}, 2.5, false})",
    "'\\221\\255\\255\\255\\255'",
    "'\\223\\255\\255\\255\\255'",
    "'\\219\\255\\255\\255\\255a'",
    "'\\198\\0\\0\\0\\2ab'",
    "('\\145'):rep(100)",
    "('\\145'):rep(100000)",
    "('\\129\\1'):rep(50)",
    "'\\203\\127\\240\\0\\0\\0\\0\\0\\0'",
    "'\\199'",
    "'\\1\\2\\3'",
];

const JSON: &[&str] = &[
    "'[1,2,{\"a\":null}]'",
    "('['):rep(1001)",
    "('['):rep(900) .. (']'):rep(900)",
    "('{\"a\":'):rep(200)",
    "'\"\\\\ud800\\\\udc00\\\\u0000\"'",
    "'\"\\\\ud800\"'",
    "'1e999'",
    "'-'",
    "'0x10'",
    "'nan'",
    "'[1,]'",
    "'\"' .. ('x'):rep(2^20) .. '\"'",
    "'{\"1\":1,\"1\":2}'",
];

const PROGRAM_TEXTS: &[&str] = &[
    "'return 1'",
    "'return ...'",
    "'v = 1'",
    "'return [' .. ('='):rep(1000) .. '['",
    "('('):rep(300)",
    "'return ' .. ('{'):rep(250)",
    "('local a '):rep(300)",
    "'return ' .. ('1+'):rep(1000) .. '1'",
    "'goto x'",
    "string.char(27) .. 'Lua'",
    "'for i = 1, 3 do x(' .. ('y'):rep(100)",
];

/// Commands without their arguments.
const COMMANDS: &[&str] = &[
    "set",
    "get",
    "append",
    "incrby",
    "incrbyfloat",
    "setrange",
    "getrange",
    "setbit",
    "bitcount",
    "bitfield",
    "bitop",
    "bitpos",
    "lpush",
    "rpop",
    "lrange",
    "linsert",
    "lmove",
    "lpos",
    "ltrim",
    "hset",
    "hincrby",
    "hexpire",
    "hpttl",
    "hsetex",
    "hgetdel",
    "hgetall",
    "hrandfield",
    "hscan",
    "sadd",
    "sinter",
    "sinterstore",
    "spop",
    "srandmember",
    "sscan",
    "smismember",
    "zadd",
    "zincrby",
    "zrange",
    "zrangebyscore",
    "zrangestore",
    "zunion",
    "zinterstore",
    "zpopmin",
    "zrandmember",
    "zscan",
    "xadd",
    "xrange",
    "xtrim",
    "xgroup",
    "xreadgroup",
    "xread",
    "xclaim",
    "xautoclaim",
    "xpending",
    "xinfo",
    "geoadd",
    "geosearch",
    "pfadd",
    "pfcount",
    "pfmerge",
    "sort",
    "sort_ro",
    "dump",
    "restore",
    "copy",
    "rename",
    "del",
    "expire",
    "object",
    "type",
    "scan",
    "keys",
    "randomkey",
    "select",
    "swapdb",
    "move",
    "publish",
    "config",
    "client",
    "command",
    "info",
    "memory",
    "debug",
    "eval",
    "multi",
    "watch",
    "subscribe",
    "flushall",
    "lcs",
    "getex",
    "mset",
    "blpop",
    "wait",
    "acl",
    "script",
    "function",
    "touch",
    "time",
    "nosuch",
];

const WORDS: &[&str] = &[
    "'a'",
    "'b'",
    "'a'",
    "'b'",
    "'*'",
    "'0'",
    "'-1'",
    "'1'",
    "'5'",
    "'9223372036854775807'",
    "'-9223372036854775808'",
    "'1e400'",
    "'inf'",
    "'nan'",
    "'(1'",
    "'[a'",
    "'-'",
    "'+'",
    "'$'",
    "'>'",
    "'limit'",
    "'withscores'",
    "'count'",
    "'match'",
    "'streams'",
    "'group'",
    "'create'",
    "'mkstream'",
    "'replace'",
    "'store'",
    "'get'",
    "'set'",
    "'incrby'",
    "'u63'",
    "'i64'",
    "'#1'",
    "'bylex'",
    "'rev'",
    "'maxlen'",
    "'~'",
    "'help'",
    "'nx'",
    "'px'",
    "''",
    "{}",
    "true",
    "('x'):rep(70000)",
    "1.5",
    "2^53",
    "1/0",
];

/// Writes one program.
struct Author {
    random: SmallRng,
    depth: u32,
}

impl Author {
    fn below(&mut self, bound: u32) -> u32 {
        self.random.random_range(0..bound)
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.random.random_range(0..words.len())]
    }

    fn variable(&mut self) -> String {
        format!("v{}", self.below(VARIABLES))
    }

    fn number(&mut self) -> String {
        self.pick(NUMBERS).to_owned()
    }

    fn list(&mut self, len_max: u32) -> String {
        let len = self.below(len_max + 1);
        (0..len).map(|_| self.anything()).collect::<Vec<_>>().join(", ")
    }

    fn table(&mut self) -> String {
        match self.below(6) {
            0 => "{}".to_owned(),
            1 => "{1, 2, 3, nil, 5}".to_owned(),
            2 => "{[1] = 1, [2^31] = 2, [-1] = 3, a = 'b', [1.5] = {}}".to_owned(),
            3 => "filled(300)".to_owned(),
            4 => "nested(200)".to_owned(),
            _ => format!("{{{}}}", self.list(4)),
        }
    }

    fn function(&mut self) -> String {
        match self.below(5) {
            0 => "error".to_owned(),
            1 => "function(...) return ... end".to_owned(),
            2 => "coroutine.yield".to_owned(),
            _ => format!("function(x, y) return {} end", self.anything()),
        }
    }

    fn call(&mut self) -> String {
        let (name, kinds) = FUNCTIONS[self.random.random_range(0..FUNCTIONS.len())];
        let mut arguments = Vec::new();
        for kind in kinds.chars() {
            if self.below(16) == 0 {
                break;
            }
            let kind = if self.below(10) == 0 { 'a' } else { kind };
            arguments.push(self.argument(kind));
        }
        format!("{name}({})", arguments.join(", "))
    }

    fn argument(&mut self, kind: char) -> String {
        if self.below(5) == 0 {
            return self.variable();
        }
        let words = match kind {
            'n' => return self.number(),
            't' => return self.table(),
            'f' => return self.function(),
            'c' => {
                let words = (0..self.below(7)).map(|_| self.pick(WORDS)).collect::<Vec<_>>();
                let name = self.pick(COMMANDS);
                return format!("'{name}'{}{}", if words.is_empty() { "" } else { ", " }, words.join(", "));
            }
            's' => STRINGS,
            'p' => PATTERNS,
            'o' => FORMATS,
            'b' => STRUCT_FORMATS,
            'm' => MESSAGES,
            'j' => JSON,
            'l' => PROGRAM_TEXTS,
            _ => return self.anything(),
        };
        self.pick(words).to_owned()
    }

    fn anything(&mut self) -> String {
        if self.depth > 3 {
            return self.variable();
        }
        self.depth += 1;
        let text = match self.below(10) {
            0 => "nil".to_owned(),
            1 => "true".to_owned(),
            2 => self.number(),
            3 => self.pick(STRINGS).to_owned(),
            4 => self.table(),
            5 => self.function(),
            6 => {
                let operator = self.pick(&["+", "-", "*", "/", "%", "^", "..", "<", "==", "and", "or"]);
                format!("({} {operator} {})", self.anything(), self.anything())
            }
            7 => format!("#{}", self.variable()),
            8 => self.variable(),
            _ => self.call(),
        };
        self.depth -= 1;
        text
    }

    fn statement(&mut self) -> String {
        let (variable, other) = (self.variable(), self.variable());
        match self.below(8) {
            0 => format!("{variable}[{}] = {}", self.anything(), self.anything()),
            1 => format!("for i = 1, 50 do {variable} = {} end", self.call()),
            2 => format!("for k, v in pairs({other}) do {variable} = {} end", self.call()),
            3 => format!("redis.call('set', 'a', {other})"),
            _ => format!("{variable} = {}", self.call()),
        }
    }

    fn program(&mut self) -> String {
        let mut text = "local function filled(n) local t = {} for i = 1, n do t[i] = i end return t end \
            local function nested(n) local t = {} for i = 1, n do t = {t} end return t end \
            local v0, v1, v2, v3, v4 = {}, 'text', 7, KEYS, filled(10)\n"
            .to_owned();
        for _ in 0..=self.below(STATEMENTS_MAX) {
            text += &format!("pcall(function() {} end)\n", self.statement());
        }
        text + &format!("return {{{}, {}}}", self.variable(), self.anything())
    }
}

/// What a script sees, whatever others have done before it.
const CANARY: &str = "local found = {} \
    for _, name in ipairs({'string', 'table', 'math', 'bit', 'cjson', 'cmsgpack', 'struct', 'redis'}) do \
      local count = 0 \
      for _ in pairs(_G[name]) do count = count + 1 end \
      found[#found + 1] = name .. count \
    end \
    return table.concat(found, ' ') .. cjson.encode({1, 'x'}) .. #cmsgpack.pack({1, 'x'}) .. ('%d'):format(2^31) .. type(rawget(_G, 'v0'))";

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

#[test]
fn random_programs_leave_the_server_as_it_was() {
    let programs = setting("PSP_SCRIPT_PROGRAMS").unwrap_or(PROGRAMS);
    let first = setting("PSP_SCRIPT_SEED").unwrap_or_else(rand::random);
    let mut session = Session::new();
    let expected = eval(&mut session, CANARY);
    assert!(expected.starts_with('$'), "{expected}");
    for seed in (first..=u64::MAX).take(usize::try_from(programs).unwrap_or(usize::MAX)) {
        let mut author = Author { random: SmallRng::seed_from_u64(seed), depth: 0 };
        let program = author.program();
        // It stays there if the process ends.
        println!("seed {seed}\n{program}\n");
        let limit = format!("CONFIG SET script-time-limit-ms {TIME_LIMIT_MS}");
        session.expect(&[(&limit, "+OK")]);
        let began = Instant::now();
        let reply = eval(&mut session, &program);
        let took = began.elapsed();
        assert!(took < TIME_MAX, "seed {seed} took {took:?}");
        assert!(reply.starts_with(['*', '-']), "seed {seed}: {reply:.100}");
        session.expect(&[("CONFIG SET script-time-limit-ms 0", "+OK"), ("FLUSHALL", "+OK")]);
        assert_eq!(eval(&mut session, CANARY), expected, "seed {seed}");
    }
}
