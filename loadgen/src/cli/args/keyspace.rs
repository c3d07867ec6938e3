//! The options for keys and values.

use clap::Args;
use psp_loadgen::schedule::Preset;
use psp_sim::keys::{KeyDistribution, KeyFormat, Keyspace, KeyspaceError, Sizes};

/// Default bytes of a value.
const VALUE_BYTES: usize = 64;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Keys and values")]
pub(crate) struct KeyspaceArgs {
    /// Mix, sizes and key distribution of a published workload: etc or usr, two of Facebook's
    /// memcached pools. Other options override parts of it
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Preset>)]
    pub(crate) preset: Option<Preset>,
    /// Number of keys for {key}, numbered from 0
    #[arg(long, value_name = "N")]
    pub(crate) keys: Option<u64>,
    /// How often each key is used: uniform, zipf[:THETA], sequential, hot[:FRACTION:SHARE]
    /// [default: uniform]
    #[arg(long, value_name = "DISTRIBUTION")]
    key_distribution: Option<KeyDistribution>,
    /// Prefix of keys; the number follows
    #[arg(long, value_name = "TEXT", default_value = "key:")]
    key_prefix: String,
    /// Bytes of keys, in the form of --value-bytes; each key keeps its length [default: 16]
    #[arg(long, value_name = "SIZES")]
    key_bytes: Option<Sizes>,
    /// Bytes of {value}: N, N-M, exponential:MEAN, pareto:SCALE:SHAPE[:FROM],
    /// gev:LOCATION:SCALE:SHAPE or a table of these by weight, 100@9,1000-2000@1 [default: 64]
    #[arg(long, value_name = "SIZES", aliases = ["data-size", "value-size"])]
    value_bytes: Option<Sizes>,
}

impl KeyspaceArgs {
    /// The keyspace. `keys_default` replaces a missing `--keys`.
    pub(crate) fn keyspace(&self, keys_default: u64) -> Result<Keyspace, KeyspaceError> {
        let in_preset = |field: fn(&Preset) -> &'static str| self.preset.as_ref().map(field);
        let sizes = |given: &Option<Sizes>, preset: Option<&str>, bytes| {
            given.clone().unwrap_or_else(|| match preset {
                Some(text) => text.parse().expect("presets are tested"),
                None => Sizes::fixed(bytes),
            })
        };
        let format = KeyFormat::default();
        let key_bytes = format.sizes.bytes_max();
        let format = KeyFormat {
            prefix: self.key_prefix.clone(),
            sizes: sizes(&self.key_bytes, in_preset(|preset| preset.key_bytes), key_bytes),
        };
        let distribution = self.key_distribution.unwrap_or_else(|| {
            let text = in_preset(|preset| preset.key_distribution);
            text.map_or(KeyDistribution::Uniform, |text| text.parse().expect("presets are tested"))
        });
        let values = sizes(&self.value_bytes, in_preset(|preset| preset.value_bytes), VALUE_BYTES);
        Keyspace::with(self.keys.unwrap_or(keys_default), format, distribution, values)
    }
}
