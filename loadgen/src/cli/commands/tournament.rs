//! `psp-loadgen tournament`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use psp_server::policy::Policy;
use psp_sim::chart::svg;
use psp_sim::experiment::{Assignment, SimSettings};
use psp_sim::parallel;
use psp_sim::simulator::{SimPlan, SimPolicy, simulate};
use psp_sim::tournament::{
    Contest, Entry, Extent, Grid, Half, Journal, MIXES, SEARCHED, Search, Standings, TournamentReport,
};

use crate::cli::args::experiment::{Format, expand};
use crate::cli::args::values::{at_least_one, in_range, positive};
use crate::cli::failure::Failure;
use crate::cli::jobs::run_jobs;
use crate::cli::output::{print, write_file};

const EXAMPLES: &str = "Examples:
  How long would the whole tournament take?
    psp-loadgen tournament --dry-run
  A fair sample of it, which a later call continues:
    psp-loadgen tournament --cells 60 --seeds 1 --requests 50000 --journal tournament.jsonl
  After a change of the champion, with the rivals' results of before:
    psp-loadgen tournament --cells 60 --seeds 1 --requests 50000 --journal tournament.jsonl --renew
  What a setting is worth on the half of the mixes that rules are chosen on:
    psp-loadgen tournament --half tune --cells 60 --champion darc-lending --set patience=0

Exit codes: 0 the tournament is over, 1 a simulation failed, 2 the command line is wrong, 130
interrupted: the finished cells are printed. A second Ctrl-C ends the program at once.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\nSearched settings of rivals: {SEARCHED}."))]
pub(crate) struct TournamentArgs {
    /// The policy that is compared with all others
    #[arg(long, value_name = "NAME", default_value = "portfolio", help_heading = "Policies")]
    champion: String,
    /// The others, separated by commas; `all` is every policy but the champion and the ideals
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "all",
        help_heading = "Policies"
    )]
    rivals: Vec<String>,
    /// Set a setting of the champion; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Policies")]
    set: Vec<Assignment>,

    /// Mixes: types and service times drawn at random
    #[arg(long, value_name = "N", default_value_t = MIXES, help_heading = "Cells")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=10_000))]
    mixes: u32,
    /// Number of the first mix: other mixes than those that rules were chosen or reported on before
    #[arg(long, value_name = "NUMBER", default_value_t = 0, help_heading = "Cells")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    first_mix: u32,
    /// Which of the mixes: rules are chosen on one half and reported on the other
    #[arg(long, value_enum, default_value_t = HalfArg::HeldOut, help_heading = "Cells")]
    half: HalfArg,
    /// Numbers of workers
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "2,4,8,16,32",
        help_heading = "Cells"
    )]
    #[arg(value_parser = at_least_one)]
    workers: Vec<usize>,
    /// Limits of each type's slowdown at p99.9. Each type is registered with its own SLO of that
    #[arg(
        long,
        value_name = "FACTOR",
        value_delimiter = ',',
        default_value = "10,20,50",
        help_heading = "Cells"
    )]
    #[arg(value_parser = in_range(1.01, 1e6))]
    slo_slowdown: Vec<f64>,
    /// Microseconds from the decision to preempt to the freed worker: the medians of log-normal
    /// times with a sigma of 0.5
    #[arg(
        long,
        value_name = "US",
        value_delimiter = ',',
        default_value = "0.2,2,5,20",
        help_heading = "Cells"
    )]
    #[arg(value_parser = positive)]
    preempt_us: Vec<f64>,
    /// Where preempted requests go on
    #[arg(long, value_enum, default_value_t = HomeArg::Both, help_heading = "Cells")]
    home: HomeArg,
    /// So many of the cells, drawn at random [default: all]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Cells")]
    cells: Option<usize>,

    /// Seeds of arrivals and service times. A policy's capacity is the mean over them
    #[arg(
        long,
        value_name = "SEED",
        value_delimiter = ',',
        default_value = "1,2,3",
        help_heading = "Extent and output"
    )]
    seeds: Vec<u64>,
    /// Arrivals that are measured in each simulation, after a tenth of them as warm-up
    #[arg(
        long,
        value_name = "N",
        default_value_t = 200_000,
        help_heading = "Extent and output"
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=1_000_000_000))]
    requests: u64,
    /// Tolerance of the searches, as a part of the capacity
    #[arg(
        long,
        value_name = "PART",
        default_value = "0.01",
        help_heading = "Extent and output"
    )]
    #[arg(value_parser = in_range(1e-6, 0.5))]
    tolerance: f64,
    /// Simulations that run at the same time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Extent and output")]
    threads: Option<usize>,
    /// Keep what is found in FILE, a line of JSON for each search, and do not search again for what
    /// is there
    #[arg(long, value_name = "FILE.jsonl", help_heading = "Extent and output")]
    journal: Option<PathBuf>,
    /// Search for the champion's capacities again
    #[arg(long, requires = "journal", help_heading = "Extent and output")]
    renew: bool,
    /// Say how much there is to do, and do nothing
    #[arg(long, help_heading = "Extent and output")]
    dry_run: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Extent and output")]
    output: Format,
    /// Draw the ratios of all cells
    #[arg(long, value_name = "FILE.svg", help_heading = "Extent and output")]
    svg: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum HalfArg {
    /// Mixes of even numbers, to choose rules on
    Tune,
    /// Mixes of odd numbers, to report
    HeldOut,
    /// All mixes
    All,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum HomeArg {
    /// On the worker where they ran
    AtHome,
    /// On any worker
    Migrating,
    /// Each in cells of its own
    Both,
}

impl TournamentArgs {
    fn grid(&self) -> Grid {
        Grid {
            first_mix: self.first_mix,
            mixes: self.mixes,
            half: match self.half {
                HalfArg::Tune => Half::Tune,
                HalfArg::HeldOut => Half::HeldOut,
                HalfArg::All => Half::All,
            },
            workers: self.workers.clone(),
            slowdowns: self.slo_slowdown.clone(),
            preempt_us: self.preempt_us.clone(),
            migrates: match self.home {
                HomeArg::AtHome => vec![false],
                HomeArg::Migrating => vec![true],
                HomeArg::Both => vec![false, true],
            },
            seeds: self.seeds.clone(),
            cells: self.cells,
        }
    }

    const fn extent(&self) -> Extent {
        Extent { requests: self.requests, relative_tolerance: self.tolerance }
    }

    fn contest(&self) -> anyhow::Result<Contest> {
        let policy = |name: &str| name.parse::<Policy>().with_context(|| name.to_owned());
        let mut champion = [SimPolicy::Live(policy(&self.champion)?)];
        SimSettings::default().assign(&mut champion, &self.set).context("--set")?;
        let [SimPolicy::Live(champion)] = champion else {
            anyhow::bail!("--champion: only policies of live servers take part");
        };
        let rivals = expand(&self.rivals, Policy::NAMES.iter().copied());
        let rivals = rivals.into_iter().map(policy);
        let mut rivals = rivals.collect::<anyhow::Result<Vec<Policy>>>()?;
        rivals.retain(|rival| *rival != champion);
        Ok(Contest { champion, rivals })
    }

    fn journal(&self, contest: &Contest) -> anyhow::Result<Journal> {
        let Some(path) = &self.journal else {
            return Ok(Journal::default());
        };
        let champion = contest.champion.spelled();
        let is_kept = |entry: &Entry| !(self.renew && entry.policy == champion);
        Journal::open(path, self.extent(), is_kept).with_context(|| format!("--journal {}", path.display()))
    }
}

pub(crate) fn tournament(args: &TournamentArgs) -> Result<(), Failure> {
    let (grid, extent) = (args.grid(), args.extent());
    let contest = args.contest().map_err(Failure::usage)?;
    let mut journal = args.journal(&contest).map_err(Failure::work)?;
    let mut searches = grid.searches(&contest);
    let all = searches.len();
    for search in &searches {
        search.plan(extent).validate().map_err(Failure::usage)?;
    }
    searches.retain(|search| journal.load(search).is_none());
    let threads = args.threads.unwrap_or_else(parallel::cores);
    let arrivals = extent.requests + extent.requests / 10;
    let arrivals = arrivals * u64::from(extent.tolerance().probes_max());
    if args.dry_run || args.journal.is_some() {
        let takes = time_of(&searches, &contest.champion, extent) / threads as u32;
        eprintln!(
            "{} cells, {} of {all} searches to do, {} simulations of {} requests: about {} on {threads} threads",
            grid.cells().len(),
            searches.len(),
            searches.len() * probes(extent) as usize,
            extent.requests,
            in_words(takes),
        );
    }
    if args.dry_run {
        return Ok(());
    }
    let jobs = run_jobs("tournament", &searches, threads, arrivals, |search, progress| {
        let plan = search.plan(extent);
        let slo = search.cell.slo();
        let capacity = psp_sim::experiment::capacity(&plan, &slo, extent.tolerance(), progress);
        let capacity = capacity.with_context(|| search.key())?;
        // Most searches take fewer simulations than the progress bar reckons with.
        let _ = progress(arrivals);
        let entry = Entry::new(search, extent, capacity.load);
        journal.write(&entry).context("--journal")?;
        Ok(entry)
    })?;
    let done = format!("{} of {} searches are done", jobs.done.len(), searches.len());
    for entry in &jobs.done {
        journal.note(entry);
    }
    let standings = Standings::new(&grid, &contest, &journal, extent.relative_tolerance);
    let report = TournamentReport::new(&contest.champion, grid, extent, standings, jobs.interrupted);
    print(&args.output.render(&report).map_err(Failure::work)?).map_err(Failure::work)?;
    if let Some(path) = &args.svg {
        write_file(path, &svg(&report.drawing()))?;
    }
    match jobs.failure {
        Some(error) => Err(Failure::work(error.context(done))),
        None if jobs.interrupted => Err(Failure::interrupted(done)),
        None => Ok(()),
    }
}

/// For so long searches are tried for an estimate, and a little longer.
const TRIED_TIME: Duration = Duration::from_secs(2);
/// Their load.
const TRIED_LOAD: f64 = 0.6;

/// About how many simulations a search has.
fn probes(extent: Extent) -> u32 {
    extent.tolerance().probes(TRIED_LOAD)
}

/// How long all searches will take on one thread. Studies can make the champion's a hundred times as long as a rival's,
/// so that both kinds are tried.
fn time_of(searches: &[Search], champion: &Policy, extent: Extent) -> Duration {
    let (own, rivals): (Vec<&Search>, Vec<&Search>) = searches.iter().partition(|search| search.policy == *champion);
    time_of_kind(&own, extent) + time_of_kind(&rivals, extent)
}

/// The same of searches that take about as long as each other, by one simulation of each of some.
fn time_of_kind(searches: &[&Search], extent: Extent) -> Duration {
    // Beyond every small number of searches, so that those tried are far apart.
    const STEP: usize = 7_919;
    let began = Instant::now();
    let mut tried = 0;
    while tried < searches.len() && (tried == 0 || began.elapsed() < TRIED_TIME) {
        let plan = SimPlan {
            load: TRIED_LOAD,
            ..searches[tried * STEP % searches.len()].plan(extent)
        };
        // What fails here fails again in the tournament, and is reported there.
        let _ = simulate(&plan, &mut |_| ControlFlow::Continue(()));
        tried += 1;
    }
    let simulations = searches.len() as f64 * f64::from(probes(extent));
    began.elapsed().mul_f64(simulations / tried.max(1) as f64)
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}
