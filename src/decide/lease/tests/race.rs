//! Several candidates, each with a clock of its own, and a server that answers late, not at all or
//! out of order: never do two lead, and in the end one does.

use super::*;

const SEEDS: u64 = 400;
const CANDIDATES: usize = 3;
const STEP: Duration = Duration::from_millis(50);
/// Of troubles, and then of calm.
const STORMY: Duration = Duration::from_mins(3);
const CALM: Duration = Duration::from_mins(1);
/// How late a message may be: longer than a lease.
const LATE_MAX_MS: u64 = 20_000;

/// Chances, the same for the same seed.
struct Chances(u64);

impl Chances {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn lateness(&mut self, is_calm: bool) -> Duration {
        let max = match self.below(10) {
            _ if is_calm => 100,
            0 => LATE_MAX_MS,
            1..4 => 2_000,
            _ => 100,
        };
        Duration::from_millis(self.below(max))
    }
}

#[derive(Default)]
struct Server {
    version: u64,
    lease: Option<Lease>,
}

#[derive(Clone)]
enum Outcome {
    Seen(Option<Lease>),
    Written(Lease),
    Beaten,
}

impl Server {
    fn carry_out(&mut self, action: &Action, who: &str) -> Outcome {
        let is_accepted = match (action, &self.lease) {
            (Action::Create, None) => true,
            (Action::Replace { version }, Some(lease)) => lease.version == *version,
            (Action::Look, _) => return Outcome::Seen(self.lease.clone()),
            _ => false,
        };
        if !is_accepted {
            return Outcome::Beaten;
        }
        let lease = self.put(who);
        Outcome::Written(lease)
    }

    fn put(&mut self, who: &str) -> Lease {
        self.version += 1;
        let new = lease(who, self.version);
        self.lease = Some(new.clone());
        new
    }
}

/// A request on its way, or its answer.
struct Call {
    action: Action,
    sent: Duration,
    arrives: Duration,
    /// When the answer comes back; lost where there is none.
    returns: Option<Duration>,
    gives_up: Duration,
    outcome: Option<Outcome>,
}

struct Process {
    candidate: Candidate,
    /// How far its clock is from the server's.
    offset: Duration,
    call: Option<Call>,
    /// What its watch will tell.
    news: Vec<(Duration, Option<Lease>)>,
    /// It does nothing until then, and does not notice.
    stopped_until: Duration,
    lives: usize,
}

impl Process {
    fn new(index: usize, lives: usize, offset: Duration) -> Self {
        let candidate = Candidate::new(format!("{index}-{lives}"), RULES);
        let (call, news) = (None, Vec::new());
        Self { candidate, offset, call, news, stopped_until: Duration::ZERO, lives }
    }

    fn may_write(&self, time: Duration) -> bool {
        let now = time + self.offset;
        self.candidate.leads_until(now).is_some_and(|until| now < until)
    }

    /// One turn; answers whether it steps down.
    fn turn(&mut self, time: Duration, chances: &mut Chances, is_calm: bool) -> bool {
        let now = time + self.offset;
        let news = std::mem::take(&mut self.news);
        let (told, later): (Vec<_>, Vec<_>) = news.into_iter().partition(|(at, _)| *at <= time);
        self.news = later;
        for (_, lease) in told {
            self.candidate.see(lease, now);
        }
        if let Some(call) = self.call.take() {
            let has_returned = call.returns.is_some_and(|at| at <= time);
            match (has_returned, &call.outcome) {
                (true, Some(Outcome::Seen(lease))) => self.candidate.see(lease.clone(), now),
                (true, Some(Outcome::Written(lease))) => {
                    self.candidate.written(lease.clone(), call.sent + self.offset, now);
                }
                (true, Some(Outcome::Beaten)) => self.candidate.was_beaten(),
                _ if call.gives_up <= time => self.candidate.failed(now),
                _ => self.call = Some(call),
            }
        }
        if self.call.is_some() {
            return matches!(self.candidate.next(now), Action::StepDown(_));
        }
        match self.candidate.next(now) {
            Action::StepDown(_) => return true,
            Action::Wait { until } => assert!(until > now, "it waits for what is past"),
            action @ (Action::Look | Action::Create | Action::Replace { .. }) => {
                let arrives = time + chances.lateness(is_calm);
                let returns = arrives + chances.lateness(is_calm);
                let is_lost = !is_calm && chances.below(10) == 0;
                self.call = Some(Call {
                    action,
                    sent: time,
                    arrives,
                    returns: (!is_lost).then_some(returns),
                    gives_up: time + Duration::from_secs(3),
                    outcome: None,
                });
            }
        }
        false
    }
}

struct World {
    server: Server,
    processes: Vec<Process>,
    /// Of processes that have ended, still on their way.
    orphans: Vec<(String, Call)>,
    chances: Chances,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chances = Chances(seed);
        let offset = |_| Duration::from_secs(chances.below(1_000_000));
        let offsets: Vec<Duration> = (0..CANDIDATES).map(offset).collect();
        let processes =
            offsets.into_iter().enumerate().map(|(index, by)| Process::new(index, 0, by)).collect();
        Self { server: Server::default(), processes, orphans: Vec::new(), chances }
    }

    fn arrivals(&mut self, time: Duration, is_calm: bool) {
        let before = self.server.version;
        let had_lease = self.server.lease.is_some();
        for (who, call) in &mut self.orphans {
            if call.outcome.is_none() && call.arrives <= time {
                call.outcome = Some(self.server.carry_out(&call.action, who));
            }
        }
        for process in &mut self.processes {
            if let Some(call) = &mut process.call
                && call.outcome.is_none()
                && call.arrives <= time
            {
                let who = process.candidate.identity();
                call.outcome = Some(self.server.carry_out(&call.action, who));
            }
        }
        if !is_calm && self.chances.below(2_000) == 0 {
            self.server.lease = None;
        }
        if self.server.version != before || had_lease != self.server.lease.is_some() {
            for process in &mut self.processes {
                // A watch tells in order, if late.
                let told = process.news.last().map_or(time, |(at, _)| *at);
                let told = told.max(time + self.chances.lateness(is_calm));
                process.news.push((told, self.server.lease.clone()));
            }
        }
    }

    fn end(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let next = Process::new(index, process.lives + 1, process.offset);
        let old = std::mem::replace(process, next);
        if let Some(call) = old.call {
            self.orphans.push((old.candidate.identity().to_owned(), call));
        }
    }

    fn step(&mut self, time: Duration, is_calm: bool) {
        self.arrivals(time, is_calm);
        for index in 0..self.processes.len() {
            if !is_calm && self.chances.below(3_000) == 0 {
                self.end(index);
                continue;
            }
            let process = &mut self.processes[index];
            if !is_calm && self.chances.below(1_000) == 0 {
                let pause = Duration::from_millis(self.chances.below(40_000));
                process.stopped_until = time + pause;
            }
            if time < process.stopped_until {
                continue;
            }
            if process.turn(time, &mut self.chances, is_calm) {
                self.end(index);
            }
        }
    }

    fn leaders(&self, time: Duration) -> Vec<&str> {
        let leads = |process: &&Process| process.may_write(time);
        self.processes.iter().filter(leads).map(|one| one.candidate.identity()).collect()
    }
}

#[test]
fn never_do_two_lead_and_in_the_end_one_does() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        let mut time = Duration::ZERO;
        let end = STORMY + CALM;
        while time < end {
            world.step(time, time >= STORMY);
            let leaders = world.leaders(time);
            assert!(leaders.len() <= 1, "seed {seed}, {time:?}: {leaders:?} lead");
            time += STEP;
        }
        assert_eq!(world.leaders(end).len(), 1, "seed {seed}: nobody leads");
    }
}
