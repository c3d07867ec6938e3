//! Faults that were found in Lua 5.1 and in the libraries that Redis adds to it: `docs/security.md` lists them.

use std::time::Instant;

use super::tests::eval;
use crate::testing::Session;

/// Each is a fault by its number, a script that it is about, and what the reply contains.
const FAULTS: &[(&str, &str, &str)] = &[
    // A sum of positions overflowed, and unpack wrote past Lua's stack.
    ("CVE-2025-46817", "return {unpack({1,2,3}, 0, 2147483647)}", "too many results to unpack"),
    (
        "CVE-2025-46817",
        "return {pcall(unpack, {1,2,3}, -2147483648, 2147483647)}",
        "too many results to unpack",
    ),
    (
        "CVE-2025-46817",
        "return {coroutine.wrap(function() return unpack({}, 0, 2147483647) end)()}",
        "too many results to unpack",
    ),
    ("CVE-2025-46817", "return {unpack({1,2,3}, 2147483646, 2147483647)}", "*0"),
    // The metatables of strings and other simple values are everybody's.
    ("CVE-2025-46818", "getmetatable('').__index = function() return 1 end", "attempt to index"),
    (
        "CVE-2025-46818",
        "return tostring(getmetatable(1)) .. tostring(getmetatable(true)) .. tostring(getmetatable(nil))",
        "nilnilnil",
    ),
    // A long bracket has as many signs as the text has bytes.
    (
        "CVE-2025-46819",
        "return tostring((loadstring('return [' .. ('='):rep(2^20) .. '[x]' .. ('='):rep(2^20) .. ']')))",
        "function",
    ),
    ("CVE-2025-46819", "return tostring((loadstring('return [' .. ('='):rep(2^20))))", "nil"),
    // The name of a chunk was freed while the chunk was parsed.
    (
        "CVE-2025-49844",
        "for i = 1, 200 do \
           loadstring(('local x = {} '):rep(200) .. 'x(', '=' .. ('n'):rep(100) .. i) collectgarbage() \
         end \
         return select(2, loadstring(('a = {} '):rep(2000) .. 'x(', '=' .. ('n'):rep(100)))",
        "nnnn:1: unexpected symbol near",
    ),
    // Handlers of errors that fail used up the stack. Random scripts found it.
    (
        "handlers",
        "return select(2, xpcall(KEYS, function() return string.format(nil) end))",
        "error in error handling",
    ),
    (
        "handlers",
        "return select(2, xpcall(error, function() return string.gsub('x', 'x', string.rep) end))",
        "error in error handling",
    ),
    // Userdata with finalizers of one's own.
    ("CVE-2024-46981", "return tostring(rawget(_G, 'newproxy'))", "nil"),
    ("CVE-2024-31449", "return bit.tohex(65535, -2147483648)", "0000FFFF"),
    ("CVE-2022-24834", "return #cjson.encode({string.rep(string.char(1), 2^20)})", "6291460"),
    (
        "CVE-2022-24735",
        "redis.call = function() return 1 end",
        "Attempt to modify a readonly table",
    ),
    ("CVE-2022-0543", "return tostring(rawget(_G, 'package'))", "nil"),
    (
        "CVE-2021-32626",
        "return #cmsgpack.pack(unpack(redis.call('lrange', 'many', 0, -1)))",
        ":",
    ),
    ("CVE-2020-14147", "return struct.pack('>I2147483648', 10)", "-ERR"),
    ("CVE-2018-11219", "return struct.unpack('<I4', 'abcd', -2147483648)", "-ERR"),
    ("CVE-2018-11218", "return #cmsgpack.pack(('x'):rep(2^20))", "1048581"),
    // A function of many parameters, called with few arguments, wrote past Lua's stack.
    (
        "CVE-2014-5461",
        "local names = {} for i = 1, 190 do names[i] = 'a' .. i end \
         local deep = loadstring('return function(' .. table.concat(names, ',') .. ', ...) return ... end')() \
         local function down(n) if n == 0 then return deep() end return (down(n - 1)) end \
         for n = 1, 150 do down(n) end return 'well'",
        "well",
    ),
    // Precompiled code.
    (
        "CVE-2015-4335",
        "local sent return tostring((load(function() if not sent then sent = true return '\\27Lua' end end)))",
        "nil",
    ),
];

#[test]
fn known_faults_are_mended() {
    let mut session = Session::new();
    for first in (0..7600).step_by(100) {
        let words = (first..first + 100).map(|word: i32| word.to_string());
        let words: Vec<_> = ["RPUSH".to_owned(), "many".to_owned()].into_iter().chain(words).collect();
        let words: Vec<_> = words.iter().map(String::as_bytes).collect();
        session.run_args(&words);
    }
    for (fault, body, expected) in FAULTS {
        let reply = eval(&mut session, body);
        assert!(reply.contains(expected), "{fault}, {body}: {reply:.300}");
    }
    assert_eq!(eval(&mut session, "return 1"), ":1");
}

/// A function of Lua's libraries that takes minutes by itself, without an instruction of Lua in between.
#[test]
fn functions_of_the_library_that_loop_are_stopped() {
    let mut session = Session::new();
    session.expect(&[("CONFIG SET script-time-limit-ms 20", "+OK")]);
    for body in [
        "table.insert({1}, -2^31, 3)",
        "return ('a'):rep(1000):find(('.-'):rep(20) .. 'b')",
        "return ('a'):rep(30000):match('.-.-.-b')",
        "return ('a'):rep(30000):gsub('.*.*.*b', '')",
        "for _ in ('a'):rep(30000):gmatch('.-.-.-b') do end",
        "return ('a'):rep(300000):find(('a'):rep(150000) .. 'b', 1, true)",
        "return ('('):rep(1000000):find('%b()')",
        "return ('ab'):rep(10000):find('[^' .. ('c'):rep(2000) .. ']*[^c]*[^c]*d')",
        "local t = {} for i = 1, 200000 do t[i] = i end while true do table.maxn(t) end",
        "local t = {} for i = 1, 100000 do t[i] = 'x' end while true do table.concat(t) end",
        "local t = {} for i = 1, 3000 do t[i] = i end while true do table.sort(t) table.remove(t, 1) table.insert(t, 1, 1) end",
        "local t = {} for i = 1, 1e6 do t['x' .. i] = i end for k in pairs(t) do t[k] = nil end while true do next(t) end",
        "local s = ('x'):rep(4e6) while true do s = s:sub(1, 3999990) .. 'abcdefghij' end",
        "local s = ('x'):rep(4e6) while true do s = s:reverse():upper():lower() end",
        "local a, b = ('x'):rep(4e6), ('x'):rep(4e6) .. 'y' while true do local c = a < b end",
    ] {
        let began = Instant::now();
        let reply = eval(&mut session, body);
        let took_s = began.elapsed().as_secs();
        assert_eq!(reply, "-ERR Script stopped: it ran longer than script-time-limit-ms.", "{body}");
        // Without a bound they take minutes, or for ever.
        assert!(took_s < 20, "{body}: {took_s} s");
    }
}

/// Lua's own hash reads every third byte of a text of 64 bytes, and has no key.
#[test]
fn texts_that_were_made_to_collide_take_as_long_as_others() {
    const COUNT: u32 = 20_000;

    let mut session = Session::new();
    let mut took = |first_read: usize| {
        let script = format!(
            "local t, left = {{}}, {{}} \
             for at = {first_read}, 62, 3 do left[#left + 1] = at end \
             local line = ('x'):rep(64) \
             for i = 1, {COUNT} do \
               local s, n = line, i \
               for bit = 1, 16 do \
                 if n % 2 == 1 then s = s:sub(1, left[bit] - 1) .. 'y' .. s:sub(left[bit] + 1) end \
                 n = math.floor(n / 2) \
               end \
               t[s] = i \
             end \
             return 1"
        );
        let began = Instant::now();
        assert_eq!(eval(&mut session, &script), ":1");
        began.elapsed()
    };
    // In one of three places each byte is read, so that no two texts collide.
    let mut times: Vec<_> = (1..=3).map(&mut took).collect();
    times.sort_unstable();
    assert!(times[2] < 8 * times[0], "{times:?}");
}
