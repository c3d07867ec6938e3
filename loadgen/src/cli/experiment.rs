//! What `sim` and `capacity` have in common: which servers to simulate under which workloads.

use std::ops::ControlFlow;

use anyhow::Context;
use clap::{Args, ValueEnum};
use psp_loadgen::parallel;
use psp_loadgen::sim::{SimPlan, SimPolicy};
use psp_loadgen::sim_report::{Conditions, Found};
use psp_loadgen::sim_settings::{Assignment, SimSettings};
use psp_loadgen::workload::Workload;

use super::Failure;
use super::output::{json, print};
use super::progress::Progress;
use super::values::at_least_one;

/// Stands for everything that has a name.
const ALL: &str = "all";

/// Arrivals before the measured ones: so many measured ones for each.
const REQUESTS_PER_WARMUP: u64 = 10;

#[derive(Debug, Args)]
pub(super) struct ExperimentArgs {
    /// Workloads by name or from TOML files, separated by commas; `all` has every name
    #[arg(
        long, value_name = "NAME|FILE.toml", value_delimiter = ',', required = true,
        long_help = workload_help(), help_heading = "What to simulate"
    )]
    workload: Vec<String>,
    /// Policies by name, separated by commas; `all` has every name
    #[arg(
        long, value_name = "NAME", value_delimiter = ',', required = true,
        long_help = policy_help(), help_heading = "What to simulate"
    )]
    policy: Vec<String>,
    /// Workers of the server
    #[arg(
        long, value_name = "N", value_parser = at_least_one,
        help_heading = "What to simulate"
    )]
    workers: usize,
    /// Set a cost or another property of the server, or a setting of a policy; may be repeated.
    /// --help lists them
    #[arg(long, value_name = "KEY=VALUE", help_heading = "What to simulate")]
    set: Vec<Assignment>,

    /// Arrivals that are measured, in each simulation
    #[arg(
        long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=REQUESTS_MAX),
        help_heading = "How long and how"
    )]
    requests: u64,
    /// Arrivals before these, which are not [default: a tenth of --requests]
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=REQUESTS_MAX),
        help_heading = "How long and how"
    )]
    warmup: Option<u64>,
    /// Seed of arrivals, service times and lots; the same seed gives the same output
    #[arg(long, default_value_t = 1, help_heading = "How long and how")]
    seed: u64,
    /// Simulations that run at the same time [default: one for each core]
    #[arg(
        long, value_name = "N", value_parser = at_least_one,
        help_heading = "How long and how"
    )]
    threads: Option<usize>,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "How long and how")]
    output: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Tables for a terminal
    Text,
    /// One object
    Json,
    /// A line for each point and type, or for each capacity, under a line of heads
    Csv,
    /// Tables for a document
    Markdown,
}

impl Format {
    fn render(self, found: &impl Found) -> anyhow::Result<String> {
        match self {
            Self::Text => Ok(found.to_string()),
            Self::Json => json(found),
            Self::Csv => Ok(found.csv()),
            Self::Markdown => Ok(found.markdown()),
        }
    }
}

/// Most arrivals of one simulation.
const REQUESTS_MAX: u64 = 1_000_000_000_000;

fn workload_help() -> String {
    let names: Vec<_> = Workload::names().collect();
    format!(
        "Workloads by name or from TOML files, separated by commas; `{ALL}` has every name.\n\n\
         Names: {}",
        names.join(", ")
    )
}

fn policy_help() -> String {
    let names: Vec<_> = SimPolicy::names().collect();
    format!(
        "Policies by name, separated by commas; `{ALL}` has every name.\n\nNames: {}",
        names.join(", ")
    )
}

/// The list of everything that `--set` takes, and examples, for the end of `--help`.
pub(super) fn after_long_help(examples: &str) -> String {
    let policies: Vec<SimPolicy> = SimPolicy::names()
        .filter_map(|name| name.parse().ok())
        .collect();
    let settings = SimSettings::default().describe(&policies, "\n");
    format!(
        "{examples}\n\n\
         Settings for --set and what they are unless set. Without its policy's name, as in delta=3, \
         a setting goes to every policy of the command that has it. Units end the names.\n{}",
        indented(&settings)
    )
}

fn indented(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// What to simulate: a plan for each workload and policy, in this order, all at load 1.
pub(super) struct Experiment {
    pub(super) plans: Vec<SimPlan>,
    pub(super) conditions: Conditions,
    threads: usize,
    output: Format,
    /// Why the first of the jobs that failed did.
    failure: Option<anyhow::Error>,
}

impl ExperimentArgs {
    pub(super) fn experiment(&self) -> anyhow::Result<Experiment> {
        let workloads = expand(&self.workload, Workload::names());
        let workloads = workloads
            .iter()
            .map(|name| Workload::named_or_file(name).with_context(|| format!("--workload {name}")))
            .collect::<Result<Vec<_>, _>>()?;
        let policies = expand(&self.policy, SimPolicy::names());
        let mut policies = policies
            .iter()
            .map(|name| {
                name.parse::<SimPolicy>()
                    .with_context(|| format!("--policy {name}"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut settings = SimSettings::default();
        settings.assign(&mut policies, &self.set).context("--set")?;
        let warmup = self.warmup.unwrap_or(self.requests / REQUESTS_PER_WARMUP);
        let mut plans = Vec::new();
        for workload in &workloads {
            for policy in &policies {
                let mut plan = SimPlan::new(workload.clone(), policy.clone(), self.workers, 1.0);
                plan.requests = self.requests;
                plan.warmup = warmup;
                plan.seed = self.seed;
                settings.apply(&mut plan);
                plan.validate()?;
                plans.push(plan);
            }
        }
        Ok(Experiment {
            plans,
            conditions: Conditions {
                requests: self.requests,
                warmup,
                seed: self.seed,
                settings,
                policies,
                interrupted: false,
            },
            threads: self.threads.unwrap_or_else(parallel::cores),
            output: self.output,
            failure: None,
        })
    }
}

/// The names given, each once, with all that there are in the place of `all`.
fn expand(given: &[String], names: impl Iterator<Item = &'static str>) -> Vec<&str> {
    let names: Vec<&str> = names.collect();
    let mut expanded = Vec::new();
    for name in given {
        let meant = match name.as_str() {
            ALL => &names[..],
            name => &[name],
        };
        for name in meant {
            if !expanded.contains(name) {
                expanded.push(*name);
            }
        }
    }
    expanded
}

impl Experiment {
    /// Requests of one simulation.
    pub(super) const fn arrivals(&self) -> u64 {
        self.conditions.requests + self.conditions.warmup
    }

    /// Does `work` for each of `jobs` behind a progress bar, several at a time, and returns what was
    /// done in the order of the jobs. What was not done is left out: jobs that failed, and those that
    /// a signal interrupted or kept from starting.
    pub(super) fn run<Job: Sync, Done: Send + Sync>(
        &mut self,
        what: &'static str,
        jobs: &[Job],
        arrivals_per_job: u64,
        work: impl Fn(&Job, Observer<'_>) -> anyhow::Result<Done> + Sync,
    ) -> Result<Vec<Done>, Failure> {
        let arrivals = arrivals_per_job.saturating_mul(jobs.len() as u64);
        let progress = Progress::start(what, arrivals)?;
        let results = parallel::map(jobs, self.threads, |job| {
            if progress.is_interrupted() {
                return None;
            }
            let mut observer = progress.observer();
            let mut flow = ControlFlow::Continue(());
            let result = work(job, &mut |arrivals| {
                flow = observer(arrivals);
                flow
            });
            flow.is_continue().then_some(result)
        });
        progress.finish();
        let mut done = Vec::new();
        for result in results {
            match result {
                Some(Ok(one)) => done.push(one),
                Some(Err(error)) => self.failure = self.failure.take().or(Some(error)),
                None => self.conditions.interrupted = true,
            }
        }
        Ok(done)
    }

    /// Prints what was found by `done` jobs of `jobs`, and says so when that is not all.
    pub(super) fn end(self, found: &impl Found, done: usize, jobs: usize) -> Result<(), Failure> {
        let text = self.output.render(found).map_err(Failure::work)?;
        print(&text).map_err(Failure::work)?;
        let what_is_done = format!("{done} of {jobs} points are done");
        match self.failure {
            Some(error) => Err(Failure::work(error.context(what_is_done))),
            None if self.conditions.interrupted => Err(Failure::interrupted(what_is_done)),
            None => Ok(()),
        }
    }
}

/// What a message about `plan` begins with.
pub(super) fn name(plan: &SimPlan) -> String {
    format!("{} under {}", plan.workload.name, plan.policy)
}

/// What a simulation tells how far it is, and that tells it when to break off.
pub(super) type Observer<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;
