//! Draws commands.

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::forms::FORMS;

/// Commands that have arguments which redis-server 7.0 does not know.
const NEWER: &[&str] = &["ZRANK", "ZREVRANK"];

/// Commands that could wait for long if another argument came to stand in the place of their timeout.
const BLOCKING: &[&str] = &[
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "XREAD",
    "XREADGROUP",
];

/// Commands that do something else with other arguments: something random, or what has no order.
const OTHERWISE: &[&str] = &["CLIENT", "COMMAND", "HSCAN", "SCAN", "SLOWLOG", "SPOP", "SSCAN", "ZSCAN"];

/// A source of commands.
pub(crate) struct Generator {
    rng: Xoshiro256PlusPlus,
    /// The first number of the highest ID of all streams, about.
    last_ms: u64,
}

impl Generator {
    /// Draws by `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), last_ms: 0 }
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.choose(&mut self.rng).expect("alternatives")
    }

    /// A command, as words, and whether something may be wrong with it.
    pub(crate) fn command(&mut self) -> (Vec<String>, bool) {
        let form = self.pick(FORMS);
        let mut words = Vec::new();
        for token in form.split(' ') {
            let (times, alternatives) = match token.split_at(1) {
                ("?", rest) => (usize::from(self.rng.random_bool(0.4)), rest),
                ("!", rest) => (1, rest),
                ("*", rest) => (self.rng.random_range(1..4), rest),
                _ => (1, token),
            };
            for _ in 0..times {
                let alternatives: Vec<_> = alternatives.split('|').collect();
                let chosen = self.pick(&alternatives);
                words.extend(chosen.split(',').flat_map(|word| self.fill_words(word)));
            }
        }
        let name = words[0].as_str();
        let is_whole = [NEWER, BLOCKING, OTHERWISE].iter().any(|names| names.contains(&name));
        let is_spoilt = self.rng.random_bool(0.03) && !is_whole;
        if is_spoilt {
            self.spoil(&mut words);
        }
        (words, is_spoilt)
    }

    /// The arguments that `word` stands for, mostly one.
    fn fill_words(&mut self, word: &str) -> Vec<String> {
        let filled = self.fill(word);
        match word {
            "{w}" | "{r}" => filled.split(' ').map(str::to_owned).collect(),
            _ => vec![filled],
        }
    }

    /// Puts an argument in the place of `{x}`.
    fn fill(&mut self, word: &str) -> String {
        let mut kinds = word.match_indices('{').map(|(at, _)| at);
        let is_kind = |&at: &usize| word[at..].find('}') == Some(2);
        // Other braces are those of a script.
        let Some(at) = kinds.find(is_kind) else {
            return word.to_owned();
        };
        let end = at + 2;
        let kind = &word[at + 1..end];
        let filling = match kind {
            "k" | "s" | "l" | "h" | "e" | "z" | "a" => self.key(kind),
            "j" => {
                self.last_ms += self.rng.random_range(0..3);
                let seq = self.any(&["", "-*", "-*", "-1", "-7"]);
                format!("{}{seq}", self.last_ms)
            }
            "u" => {
                let ms = self.last_ms.saturating_sub(self.rng.random_range(0..40));
                format!("{ms}{}", self.any(&["", "-0", "-0", "-1", "-7", "-x"]))
            }
            "n" => match self.any(&["-", "+", "", "("]).as_str() {
                open if open.len() == 1 && open != "(" => open.to_owned(),
                open => format!("{open}{}", self.fill("{u}")),
            },
            "y" => self.any(&["y0", "y1"]),
            "q" => self.any(&["q0", "q1", "q2"]),
            "w" => self.any(&["13.4 38.1", "15.1 37.5", "12.8 38.8", "-179.9 -10", "180 85", "0 0"]),
            "r" => self.any(&["0 m", "150 km", "200 mi", "9e9 ft", "10000 km"]),
            "p" => self.any(&["p0", "p1", "p2"]),
            "v" => self.any(&["a", "b", "1", "2", "3", "10", "-5", "3.5", "hello", "", "x y"]),
            "m" => self.any(&["a", "b", "c", "d", "1", "2", "member"]),
            "i" => self.any(&["0", "1", "2", "-1", "-2", "5", "100", "-100"]),
            "c" => self.any(&["0", "1", "2", "2", "3"]),
            "f" => self.any(&["0", "1", "1.5", "-2", "3", "0.5", "1e3", "-0.25", "0x10", "10"]),
            "d" => self.any(&[
                "0",
                "1.5",
                "-2",
                "0.1",
                "1e3",
                "0x10",
                "0.30000000000000004",
                "1234567890.12345678",
                "-1e-17",
                "0x1.8p-3",
            ]),
            "b" => self.any(&["-inf", "+inf", "0", "(1", "1", "(3", "10", "1.5"]),
            "x" => self.any(&["-", "+", "[a", "(a", "[c", "(c", "[member"]),
            "o" => self.any(&["0", "1", "7", "8", "13", "63", "100"]),
            "t" => self.any(&["100", "200", "1000"]),
            "g" => self.any(&["*", "s*", "?1", "[lh]*", "z[0-1]", "nothing"]),
            _ => panic!("no kind of argument: {kind}"),
        };
        [&word[..at], &filling, &word[end + 1..]].concat()
    }

    fn any(&mut self, from: &[&str]) -> String {
        self.pick(from).to_owned()
    }

    fn key(&mut self, kind: &str) -> String {
        let kinds = ["s", "l", "h", "e", "z", "a"];
        let is_other = kind == "k" || self.rng.random_bool(0.04);
        let kind = if is_other { self.pick(&kinds) } else { kind };
        format!("{kind}{}", self.rng.random_range(0..3))
    }

    /// Makes a command wrong in most cases.
    fn spoil(&mut self, words: &mut Vec<String>) {
        let place = self.rng.random_range(0..words.len());
        match self.rng.random_range(0..3) {
            0 if words.len() > 1 => drop(words.pop()),
            1 => words.push(self.any(&["x", "1", "COUNT", "LIMIT"])),
            _ if place > 0 => words[place] = self.any(&["x", "", "99999999999", "nan", "-"]),
            _ => {}
        }
    }
}
