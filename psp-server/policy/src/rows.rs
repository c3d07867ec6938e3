//! What `policy.rs` makes of its table: the macro that turns one row into everything about a policy.

/// Makes [`Policy`](crate::Policy) of rows. Each row has a line of help and
///
/// `"name": Settings, constructor(quantum), Assigns, GoesBy, PreemptionUse, scheduler;`
///
/// `Settings` is a type of [`settings`](crate::settings) and names the variant. The constructor makes
/// the policy with its default settings; a row without one has `_` there. `quantum` is the field of the
/// settings that [`Policy::quantum_us`](crate::Policy::quantum_us) sets, if there is one. The scheduler is
/// a function or closure of a setup and the settings.
macro_rules! policies {
    ($(
        #[doc = $help:expr]
        $name:literal: $settings:ident, $(_)? $($constructor:ident($($quantum:ident)?))?,
        $assigns:ident, $goes_by:ident, $preemption:ident, $scheduler:expr;
    )*) => {
        /// A policy and its settings. Building one costs nothing; [`Policy::scheduler`] makes the
        /// state machine.
        ///
        /// Each constructor makes a policy with its default settings: `Policy::darc()`, `Policy::mq()`.
        /// The quantum depends on the machine, so a policy that has one takes it at once:
        /// `Policy::mq().quantum_us(10)`. Other settings are methods of the settings' own type, of which
        /// [`Into`] makes a policy; a server's builder takes either, so `Darc::default().delta(3.0)` works
        /// in place of `Policy::darc()`. [`Policy::custom`] makes a policy of your own.
        ///
        /// In a configuration file it is a name, `policy = "darc"`, or a table of a name and settings:
        ///
        /// ```toml
        /// [policy]
        /// name = "darc"
        /// delta = 3.0
        /// ```
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "name")]
        #[non_exhaustive]
        pub enum Policy {
            $(
                #[doc = $help]
                #[serde(rename = $name)]
                $settings(settings::$settings),
            )*
            /// A policy from outside this crate.
            #[serde(untagged)]
            Custom(Custom),
        }

        /// A [`Policy`] as a table of a configuration file.
        #[derive(Deserialize)]
        #[serde(tag = "name")]
        pub(crate) enum Table {
            $(
                #[serde(rename = $name)]
                $settings(#[serde(deserialize_with = "crate::keys::either_case")] settings::$settings),
            )*
        }

        impl From<Table> for Policy {
            fn from(table: Table) -> Self {
                match table {
                    $(Table::$settings(settings) => Self::$settings(settings),)*
                }
            }
        }

        $(
            impl From<settings::$settings> for Policy {
                fn from(settings: settings::$settings) -> Self {
                    Self::$settings(settings)
                }
            }
        )*

        /// The rows without their settings and schedulers.
        static ROWS: [Row; Policy::NAMES.len()] = [$(Row {
            name: $name,
            help: $help,
            assigns: Assigns::$assigns,
            goes_by: GoesBy::$goes_by,
            preemption: PreemptionUse::$preemption,
            by_default: || Policy::$settings(settings::$settings::default()),
        }),*];

        impl Policy {
            /// The names of all policies of this crate.
            pub const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];

            $($(
                #[doc = $help]
                #[must_use]
                pub fn $constructor() -> Self {
                    Self::$settings(settings::$settings::default())
                }
            )?)*

            /// Sets the quantum, in microseconds. Returns whether the policy has one.
            fn set_quantum_us(&mut self, quantum_us: f64) -> bool {
                match self {
                    $($($(Self::$settings(settings) => {
                        *settings = std::mem::take(settings).$quantum(quantum_us);
                        true
                    })?)?)*
                    _ => false,
                }
            }

            /// The name by which [`FromStr`](std::str::FromStr) and configuration files know it.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$settings(_) => $name,)*
                    Self::Custom(custom) => custom.name(),
                }
            }

            /// Checks the settings for a server with that many workers.
            ///
            /// # Errors
            ///
            /// [`PolicyError::NoWorkers`], [`PolicyError::Setting`] for the first setting that is out
            /// of its range, and [`PolicyError::CustomName`].
            pub fn validate(&self, workers: usize) -> Result<(), PolicyError> {
                if workers == 0 {
                    return Err(PolicyError::NoWorkers);
                }
                match self {
                    $(Self::$settings(settings) => settings.validate(workers),)*
                    Self::Custom(custom) => custom.validate(&Self::NAMES),
                }
            }

            /// Makes the scheduler for a given number of workers and table of types.
            ///
            /// It does not check the settings. With settings that [`Policy::validate`] refuses, every
            /// request is still served; where, and when reservations change, is unspecified.
            ///
            /// # Panics
            ///
            /// When there are no workers, or 2^32 and more.
            #[must_use]
            pub fn scheduler(&self, setup: &SchedulerSetup<'_>) -> Box<dyn Scheduler> {
                let mut scheduler: Box<dyn Scheduler> = match self {
                    $(Self::$settings(settings) => Box::new($scheduler(setup, settings)),)*
                    Self::Custom(custom) => custom.scheduler(setup),
                };
                if setup.present < setup.workers {
                    scheduler.on_event(0, Event::Workers { present: setup.present });
                }
                scheduler
            }
        }
    };
}
