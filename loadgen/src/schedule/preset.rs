//! Published workloads of caches.
//!
//! Both are from Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS
//! 2012: two pools of memcached servers at Facebook.

use std::str::FromStr;

/// A workload of commands, as options of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The mix.
    pub mix: &'static str,
    /// Sizes of keys.
    pub key_bytes: &'static str,
    /// Sizes of values.
    pub value_bytes: &'static str,
    /// How often each key is used.
    pub key_distribution: &'static str,
}

const PRESETS: &[Preset] = &[
    // 30 GETs for each SET, hit rate of table 2. Keys: section 5, generalised extreme values. Values: section 5, the
    // probabilities of the first 15 sizes (table 5) and a generalised Pareto distribution from 15
    // bytes on.
    Preset {
        name: "etc",
        mix: "GET {key:0.814}:30,SET:1",
        key_bytes: "gev:30.7984:8.20449:0.078688",
        value_bytes: "0@0.00536,1@0.00047,2@0.17820,3@0.09239,4@0.00018,5@0.02740,6@0.00065,\
                      7@0.00606,8@0.00023,9@0.00837,10@0.00837,11@0.08989,12@0.00092,13@0.00326,\
                      14@0.01980,pareto:214.476:0.348238:15@0.55845",
        key_distribution: "zipf:0.99",
    },
    // Section 3: keys of 16 and 21 bytes, values of 2 bytes, almost no writes. Hit rate of table 2.
    Preset {
        name: "usr",
        mix: "GET {key:0.982}:99.8,SET:0.2",
        key_bytes: "16@1,21@1",
        value_bytes: "2",
        key_distribution: "zipf:0.99",
    },
];

/// No preset has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset `{name}`; there are {}", names())]
pub struct PresetError {
    name: String,
}

fn names() -> String {
    let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
    names.join(", ")
}

impl FromStr for Preset {
    type Err = PresetError;

    fn from_str(name: &str) -> Result<Self, PresetError> {
        let preset = PRESETS.iter().find(|preset| preset.name == name);
        preset.copied().ok_or_else(|| PresetError { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::mix::Mix;
    use crate::wire::Protocol;
    use psp_sim::keys::{KeyDistribution, Sizes};

    /// The fraction of all sizes for which `counted` is true.
    fn part(sizes: &Sizes, counted: impl Fn(usize) -> bool) -> f64 {
        const STEPS: u32 = 100_000;
        let units = (0..STEPS).map(|step| (f64::from(step) + 0.5) / f64::from(STEPS));
        let count = units.filter(|unit| counted(sizes.at(*unit))).count();
        count as f64 / f64::from(STEPS)
    }

    #[test]
    fn presets_are_what_the_command_line_takes() {
        for preset in PRESETS {
            for protocol in [Protocol::Redis, Protocol::Memcached, Protocol::MemcachedMeta] {
                let mix = Mix::parse(preset.mix, protocol).unwrap();
                assert_eq!(mix.items.len(), 2);
            }
            preset.key_distribution.parse::<KeyDistribution>().unwrap();
            preset.key_bytes.parse::<Sizes>().unwrap();
            preset.value_bytes.parse::<Sizes>().unwrap();
        }
        let error = "app".parse::<Preset>().unwrap_err().to_string();
        assert!(error.ends_with("there are etc, usr"), "{error}");
    }

    #[test]
    fn sizes_are_those_of_the_paper() {
        let usr: Preset = "usr".parse().unwrap();
        let keys: Sizes = usr.key_bytes.parse().unwrap();
        assert!((part(&keys, |bytes| bytes == 21) - 0.5).abs() < 1e-3);
        let etc: Preset = "etc".parse().unwrap();
        let values: Sizes = etc.value_bytes.parse().unwrap();
        assert!((part(&values, |bytes| bytes == 2) - 0.1782).abs() < 1e-3);
        assert!((part(&values, |bytes| bytes < 15) - 0.44155).abs() < 1e-3);
        // The tail of the Pareto distribution: (1 + shape * x / scale)^(-1 / shape).
        let tail = (1.0_f64 + 0.348_238 * 1_000.0 / 214.476).powf(-1.0 / 0.348_238);
        let beyond = part(&values, |bytes| bytes >= 1_015);
        assert!((beyond / (0.55845 * tail) - 1.0).abs() < 0.02, "{beyond}");
        let keys: Sizes = etc.key_bytes.parse().unwrap();
        // The median of a GEV: location + scale * ((ln 2)^-shape - 1) / shape.
        let median = 30.7984 + 8.20449 * (2_f64.ln().powf(-0.078_688) - 1.0) / 0.078_688;
        assert_eq!(keys.at(0.5), median as usize);
    }
}
