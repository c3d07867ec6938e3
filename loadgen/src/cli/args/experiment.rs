//! The options that `sim`, `capacity` and `calibrate` share: servers and workloads to simulate.

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use psp_server::policy::elastic::{ElasticSettings, Workers};
use psp_sim::experiment::{Assignment, Conditions, Found, SimSettings};
use psp_sim::parallel;
use psp_sim::simulator::{Costs, ElasticPlan, SimPlan, SimPolicy};
use psp_sim::workload::Workload;

use crate::cli::args::cluster::ClusterArgs;
use crate::cli::args::values::{self, at_least_one};
use crate::cli::failure::Failure;
use crate::cli::jobs::{Jobs, Observer, run_jobs};
use crate::cli::output::{json, print};

/// Stands for all names.
const ALL: &str = "all";

/// Measured arrivals for each arrival of the warm-up.
const REQUESTS_PER_WARMUP: u64 = 10;

#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// Workloads by name or from TOML files, separated by commas; `all` is every name
    #[arg(
        long, value_name = "NAME|FILE.toml", value_delimiter = ',', required = true,
        long_help = workload_help(), help_heading = "Simulation"
    )]
    workload: Vec<String>,
    /// Policies by name, separated by commas; `all` is every name
    #[arg(
        long, value_name = "NAME", value_delimiter = ',', required = true,
        long_help = policy_help(), help_heading = "Simulation"
    )]
    policy: Vec<String>,
    /// Workers of a server, or a range such as 2..8 within which they come and go with the load
    #[arg(
        long, value_name = "N|MIN..MAX", value_parser = values::workers, help_heading = "Simulation"
    )]
    workers: Workers,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// What a preemption takes: as measured for a mechanism of live servers (docs/preemption.md).
    /// --set may change it
    #[arg(
        long, value_name = "MECHANISM", value_parser = PossibleValuesParser::new(Costs::mechanisms()),
        help_heading = "Simulation"
    )]
    costs: Option<String>,
    /// Set a cost or another property of the server, or a setting of a policy; may be repeated.
    /// --help lists them
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Simulation")]
    set: Vec<Assignment>,

    /// Arrivals that are measured, in each simulation
    #[arg(
        long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=REQUESTS_MAX),
        help_heading = "Extent and output"
    )]
    requests: u64,
    /// Arrivals of the warm-up [default: a tenth of --requests]
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=REQUESTS_MAX),
        help_heading = "Extent and output"
    )]
    warmup: Option<u64>,
    /// Seed of arrivals, service times and random choices; the same seed gives the same output
    #[arg(long, default_value_t = 1, help_heading = "Extent and output")]
    seed: u64,
    /// Simulations that run at the same time [default: one for each core]
    #[arg(
        long, value_name = "N", value_parser = at_least_one,
        help_heading = "Extent and output"
    )]
    threads: Option<usize>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Extent and output")]
    output: Format,
}

/// The output formats of a report that is a flat table.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
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
    pub(crate) fn render(self, found: &impl Found) -> anyhow::Result<String> {
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
        "Workloads by name or from TOML files, separated by commas; `{ALL}` is every name.\n\n\
         Names: {}",
        names.join(", ")
    )
}

fn policy_help() -> String {
    let policies: Vec<_> = SimPolicy::help().map(|(name, help)| format!("  {name:17} {help}")).collect();
    format!("Policies by name, separated by commas; `{ALL}` is every name.\n\n{}", policies.join("\n"))
}

/// All settings of `--set`, and examples, for the end of `--help`.
pub(crate) fn after_long_help(examples: &str) -> String {
    let policies: Vec<SimPolicy> = SimPolicy::names().filter_map(|name| name.parse().ok()).collect();
    let settings = SimSettings::default().describe(&policies, "\n");
    format!(
        "{examples}\n\n\
         Settings for --set with their defaults. Without the name of a policy, as in delta=3, \
         a setting applies to every policy of the command that has it. Names end in units.\n{}",
        indented(&settings)
    )
}

fn indented(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// The simulations: a plan for each workload and policy, in this order, all at load 1.
pub(crate) struct Experiment {
    pub(crate) plans: Vec<SimPlan>,
    pub(crate) conditions: Conditions,
    threads: usize,
    output: Format,
    /// The error of the first job that failed.
    failure: Option<anyhow::Error>,
}

impl ExperimentArgs {
    pub(crate) fn experiment(&self) -> anyhow::Result<Experiment> {
        let workloads = expand(&self.workload, Workload::names());
        let workloads = workloads
            .iter()
            .map(|name| Workload::named_or_file(name).with_context(|| format!("--workload {name}")))
            .collect::<Result<Vec<_>, _>>()?;
        let policies = expand(&self.policy, SimPolicy::names());
        let mut policies = policies
            .iter()
            .map(|name| name.parse::<SimPolicy>().with_context(|| format!("--policy {name}")))
            .collect::<Result<Vec<_>, _>>()?;
        let mut settings = SimSettings::default();
        self.cluster.apply(&mut settings.cluster);
        if let Some(measured) = self.costs.as_deref().map(|name| settings.costs.measured(name)) {
            settings.costs = measured.context("--costs")?;
        }
        settings.assign(&mut policies, &self.set).context("--set")?;
        let warmup = self.warmup.unwrap_or(self.requests / REQUESTS_PER_WARMUP);
        let mut plans = Vec::new();
        for workload in &workloads {
            for policy in &policies {
                let workers = self.workers;
                let mut plan = SimPlan::new(workload.clone(), policy.clone(), workers.max, 1.0);
                plan.elastic = workers.is_elastic().then(|| ElasticPlan {
                    workers_min: workers.min,
                    settings: ElasticSettings::default(),
                });
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
                types: Vec::new(),
                interrupted: false,
            },
            threads: self.threads.unwrap_or_else(parallel::cores),
            output: self.output,
            failure: None,
        })
    }
}

/// The given names, each once. `all` expands to all names.
pub(crate) fn expand(given: &[String], names: impl Iterator<Item = &'static str>) -> Vec<&str> {
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
    pub(crate) const fn arrivals(&self) -> u64 {
        self.conditions.requests + self.conditions.warmup
    }

    /// Each plan at each of these loads, in this order.
    pub(crate) fn at_loads(&self, loads: &[f64]) -> Result<Vec<SimPlan>, Failure> {
        let at = |plan: &SimPlan, load| SimPlan { load, ..plan.clone() };
        let plans = self.plans.iter();
        let plans = plans.flat_map(|plan| loads.iter().map(move |&load| at(plan, load)));
        plans.map(|plan| plan.validate().map(|()| plan).map_err(Failure::usage)).collect()
    }

    /// Runs `work` for each of `jobs` behind a progress bar, several at a time. Returns the results
    /// in the order of the jobs. Jobs that failed or were interrupted are left out.
    pub(crate) fn run<Job: Sync, Done: Send + Sync>(
        &mut self,
        what: &'static str,
        jobs: &[Job],
        arrivals_per_job: u64,
        work: impl Fn(&Job, Observer<'_>) -> anyhow::Result<Done> + Sync,
    ) -> Result<Vec<Done>, Failure> {
        let Jobs { done, failure, interrupted } = run_jobs(what, jobs, self.threads, arrivals_per_job, work)?;
        self.failure = self.failure.take().or(failure);
        self.conditions.interrupted |= interrupted;
        Ok(done)
    }

    /// Prints the results of `done` of `jobs` jobs. Fails if jobs are missing.
    pub(crate) fn end(self, found: &impl Found, done: usize, jobs: usize) -> Result<(), Failure> {
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

/// The beginning of messages about `plan`.
pub(crate) fn name(plan: &SimPlan) -> String {
    format!("{} under {}", plan.workload.name, plan.policy)
}
