//! Several processes, each with its own clock and maybe another number of shards, or none, and a server that answers
//! late, not at all or out of order: two must never be able to write in the same namespace, and in the end each
//! namespace has one that can.

use super::*;
use crate::lease::{Action, Candidate, Lease, Rules};

const RULES: Rules = Rules {
    duration: PATIENCE,
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};
const LEASE: &str = "operators";
const STEP: Duration = Duration::from_millis(100);
/// Duration of the trouble, and of the calm after it.
const STORMY: Duration = Duration::from_mins(4);
const CALM: Duration = Duration::from_mins(5);
/// Maximum delay of a message: longer than a lease.
const LATE_MAX_MS: u64 = 20_000;
/// How often a process decides about its share.
const DECIDES_EVERY: u64 = 5;

/// Random choices, the same for the same seed.
struct Chances(u64);

impl Chances {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn lateness(&mut self, is_calm: bool) -> Duration {
        let max = match self.below(12) {
            _ if is_calm => 150,
            0 => LATE_MAX_MS,
            1..4 => 2_000,
            _ => 150,
        };
        Duration::from_millis(self.below(max))
    }
}

#[derive(Clone, Default)]
struct Stored {
    lease: Option<Lease>,
    members: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Server {
    version: u64,
    leases: BTreeMap<String, Stored>,
}

#[derive(Clone)]
enum Asked {
    Turn(Action),
    /// Gives back the lease of this version.
    Release(u64),
}

#[derive(Clone)]
enum Outcome {
    Seen(Stored),
    Written(Stored),
    Beaten,
}

impl Server {
    fn carry_out(
        &mut self,
        name: &str,
        asked: &Asked,
        who: &str,
        members: &BTreeMap<String, u64>,
    ) -> Outcome {
        let stored = self.leases.entry(name.to_owned()).or_default();
        let version = stored.lease.as_ref().map(|lease| lease.version);
        let holder = match (asked, version) {
            (Asked::Turn(Action::Read), _) => return Outcome::Seen(stored.clone()),
            (Asked::Turn(Action::Create), None) => Some(who.to_owned()),
            (Asked::Turn(Action::Replace { version: seen }), Some(version)) if *seen == version => {
                Some(who.to_owned())
            }
            (Asked::Release(seen), Some(version)) if *seen == version => None,
            _ => return Outcome::Beaten,
        };
        self.version += 1;
        let renewal = format!("{who} {}", self.version);
        let lease =
            Lease { holder, version: self.version, renewal, duration: Some(RULES.duration) };
        *stored = Stored { lease: Some(lease), members: members.clone() };
        Outcome::Written(stored.clone())
    }
}

/// A request in flight, or its answer.
#[derive(Clone)]
struct Call {
    name: String,
    who: String,
    asked: Asked,
    members: BTreeMap<String, u64>,
    sent: Duration,
    arrives: Duration,
    /// When the answer comes back; `None` if it is lost.
    returns: Option<Duration>,
    outcome: Option<Outcome>,
}

/// A process's part in one lease.
struct Seat {
    name: String,
    candidate: Candidate,
    call: Option<Call>,
    /// What its watch will report.
    news: Vec<(Duration, Stored)>,
    /// News that is older than what is known is reported, too.
    hears_old_news: bool,
    may_take: bool,
    free_since: Option<Duration>,
    version: u64,
}

impl Seat {
    fn new(name: String, identity: String) -> Self {
        let candidate = Candidate::new(identity, RULES);
        Self {
            name,
            candidate,
            call: None,
            news: Vec::new(),
            hears_old_news: false,
            may_take: false,
            free_since: None,
            version: 0,
        }
    }

    fn leads(&self, now: Duration) -> bool {
        self.candidate.leads_until(now).is_some_and(|until| now < until)
    }
}

struct Process {
    identity: String,
    /// 0 if it leads alone.
    shards: u16,
    /// Difference between its clock and the server's.
    offset: Duration,
    number: Seat,
    seats: Vec<Seat>,
    roster: Roster,
    helped: Option<Duration>,
    stopped_until: Duration,
    lives: usize,
}

impl Process {
    fn new(index: usize, lives: usize, shards: u16, (time, offset): (Duration, Duration)) -> Self {
        let identity = format!("{index}-{lives}");
        let holder =
            if shards == 0 { identity.clone() } else { number_holder(shards, "all namespaces") };
        let mut number = Seat::new(LEASE.to_owned(), holder);
        number.may_take = true;
        // If nothing is shared, nothing depends on the order of what is seen.
        number.hears_old_news = shards == 0;
        let seat = |shard| Seat::new(lease_name(LEASE, shard, shards), identity.clone());
        let seats = (0..shards).map(seat).collect();
        let roster = Roster::new(identity.clone(), PATIENCE, time + offset);
        let (helped, stopped_until) = (None, Duration::ZERO);
        Self { identity, shards, offset, number, seats, roster, helped, stopped_until, lives }
    }

    fn may_write(&self, namespace: &Name, time: Duration) -> bool {
        let now = time + self.offset;
        let seat = self.seats.get(namespace.shards[usize::from(self.shards)]);
        self.number.leads(now) && (self.shards == 0 || seat.is_some_and(|seat| seat.leads(now)))
    }

    fn held(&self, time: Duration) -> usize {
        self.seats.iter().filter(|seat| seat.leads(time + self.offset)).count()
    }

    /// Takes one turn of one seat; returns whether the process ends.
    fn turn(
        &mut self,
        index: Option<usize>,
        time: Duration,
        chances: &mut Chances,
        is_calm: bool,
    ) -> bool {
        let now = time + self.offset;
        let Self { number, seats, roster, shards, .. } = self;
        let (seat, roster) = match index {
            None => (number, Some(roster).filter(|_| *shards > 0)),
            Some(index) => (&mut seats[index], None),
        };
        let mut roster = roster;
        let mut learn = |seat: &mut Seat, stored: Stored| {
            seat.version = stored.lease.as_ref().map_or(seat.version, |it| it.version);
            seat.candidate.see(stored.lease, now);
            if let Some(roster) = &mut roster {
                roster.see(&stored.members, now);
            }
        };
        let news = std::mem::take(&mut seat.news);
        let (told, later): (Vec<_>, Vec<_>) = news.into_iter().partition(|(at, _)| *at <= time);
        seat.news = later;
        for (_, stored) in told {
            // A late watch reports nothing new.
            if seat.hears_old_news
                || stored.lease.as_ref().is_none_or(|lease| lease.version >= seat.version)
            {
                learn(seat, stored);
            }
        }
        if let Some(call) = seat.call.take() {
            let has_returned = call.returns.is_some_and(|at| at <= time);
            match (has_returned, call.outcome.clone()) {
                (true, Some(Outcome::Seen(stored))) => learn(seat, stored),
                (true, Some(Outcome::Written(stored))) => {
                    if let (Asked::Turn(_), Some(lease)) = (&call.asked, stored.lease) {
                        seat.version = lease.version;
                        seat.candidate.written(lease, call.sent + self.offset, now);
                    }
                }
                (true, Some(Outcome::Beaten)) => seat.candidate.was_beaten(),
                _ if time >= call.sent + Duration::from_secs(3) => seat.candidate.failed(now),
                _ => seat.call = Some(call),
            }
        }
        let led = seat.candidate.leads_until(now).is_some();
        let is_held = seat.candidate.tenure(now, None) == Tenure::Mine;
        let action = match seat.candidate.next(now) {
            Action::StepDown(_) if led || index.is_none() => return true,
            Action::StepDown(_) => {
                let identity = seat.candidate.identity().to_owned();
                seat.candidate = Candidate::new(identity, RULES);
                return false;
            }
            Action::Wait { .. } => return false,
            Action::Read => Action::Read,
            Action::Create | Action::Replace { .. } if !seat.may_take && !is_held => return false,
            action @ (Action::Create | Action::Replace { .. }) => action,
        };
        if seat.call.is_none() {
            let members = match (roster, &action) {
                (Some(roster), Action::Create | Action::Replace { .. }) => roster.next(now),
                _ => BTreeMap::new(),
            };
            let who = seat.candidate.identity().to_owned();
            let name = seat.name.clone();
            seat.call = Some(send(name, who, Asked::Turn(action), members, time, chances, is_calm));
        }
        false
    }

    /// Decides about its share; returns the calls that give leases back.
    fn decide(&mut self, time: Duration, chances: &mut Chances, is_calm: bool) -> Vec<Call> {
        let now = time + self.offset;
        if self.shards == 0 || !self.number.leads(now) {
            return Vec::new();
        }
        let mut tenures = Vec::new();
        for seat in &mut self.seats {
            let tenure = seat.candidate.tenure(now, seat.free_since);
            seat.free_since = match &tenure {
                Tenure::Free { since } => Some(*since),
                Tenure::Unknown => seat.free_since,
                Tenure::Theirs(_) | Tenure::Mine => None,
            };
            tenures.push(tenure);
        }
        let members = self.roster.members(now);
        let all = moves(&View {
            me: &self.identity,
            members: &members,
            same_since: self.roster.same_since(now),
            shards: &tenures,
            helped: self.helped,
            now,
            patience: PATIENCE,
        });
        let mut calls = Vec::new();
        for seat in &mut self.seats {
            seat.may_take = false;
        }
        for one in all {
            match one {
                Move::Take(shard) => self.seats[usize::from(shard)].may_take = true,
                Move::Help(shard) => {
                    self.seats[usize::from(shard)].may_take = true;
                    self.helped = Some(now);
                }
                Move::GiveUp(shard) => {
                    let seat = &mut self.seats[usize::from(shard)];
                    let (name, who) = (seat.name.clone(), self.identity.clone());
                    // A call in flight continues, but its answer is lost.
                    calls.extend(seat.call.take());
                    let asked = Asked::Release(seat.version);
                    calls.push(send(
                        name.clone(),
                        who,
                        asked,
                        BTreeMap::new(),
                        time,
                        chances,
                        is_calm,
                    ));
                    let news = std::mem::take(&mut seat.news);
                    *seat = Seat { news, ..Seat::new(name, self.identity.clone()) };
                }
            }
        }
        calls
    }
}

fn send(
    name: String,
    who: String,
    asked: Asked,
    members: BTreeMap<String, u64>,
    time: Duration,
    chances: &mut Chances,
    is_calm: bool,
) -> Call {
    let arrives = time + chances.lateness(is_calm);
    let returns = arrives + chances.lateness(is_calm);
    let is_lost = !is_calm && chances.below(10) == 0;
    let returns = (!is_lost).then_some(returns);
    Call { name, who, asked, members, sent: time, arrives, returns, outcome: None }
}

struct World {
    server: Server,
    processes: Vec<Process>,
    /// Calls whose sender does not wait for an answer.
    orphans: Vec<Call>,
    chances: Chances,
    numbers: [u16; 2],
}

impl World {
    /// Creates a world in which processes use one of two numbers.
    fn new(mut chances: Chances, processes: usize, numbers: [u16; 2]) -> Self {
        let mut process = |index: usize| {
            let offset = Duration::from_secs(chances.below(1_000_000));
            let shards = numbers[index % 2];
            Process::new(index, 0, shards, (Duration::ZERO, offset))
        };
        let processes = (0..processes).map(&mut process).collect();
        Self { server: Server::default(), processes, orphans: Vec::new(), chances, numbers }
    }

    /// Runs a storm and then calm; returns when it ended.
    fn run(&mut self, seed: u64, namespaces: &[Name]) -> Duration {
        let (mut time, mut tick) = (Duration::ZERO, 0);
        while time < STORMY + CALM {
            self.step(time, tick, time >= STORMY);
            for namespace in namespaces {
                let writers = self.writers(namespace, time);
                let name = &namespace.name;
                assert!(writers.len() <= 1, "seed {seed}, {time:?}: {writers:?} write in {name}");
            }
            (time, tick) = (time + STEP, tick + 1);
        }
        let time = time.saturating_sub(STEP);
        for namespace in namespaces {
            let writers = self.writers(namespace, time);
            assert_eq!(writers.len(), 1, "seed {seed}: nobody writes in {}", namespace.name);
        }
        time
    }

    fn arrivals(&mut self, time: Duration, is_calm: bool) {
        let Self { server, processes, orphans, chances, .. } = self;
        let mut changed = BTreeSet::new();
        let under_way = processes.iter_mut().flat_map(|process| {
            process.seats.iter_mut().chain([&mut process.number]).filter_map(|it| it.call.as_mut())
        });
        for call in under_way.chain(orphans.iter_mut()) {
            if call.outcome.is_none() && call.arrives <= time {
                let before = server.version;
                let Call { name, asked, who, members, .. } = &call;
                let outcome = server.carry_out(name, asked, who, members);
                if server.version != before {
                    changed.insert(call.name.clone());
                }
                call.outcome = Some(outcome);
            }
        }
        orphans.retain(|call| call.outcome.is_none());
        if !is_calm && chances.below(1_500) == 0 {
            let all: Vec<String> = server.leases.keys().cloned().collect();
            if let Some(name) = all.get(usize::try_from(chances.below(8)).unwrap()) {
                server.leases.insert(name.clone(), Stored::default());
                changed.insert(name.clone());
            }
        }
        for process in processes {
            for seat in process.seats.iter_mut().chain([&mut process.number]) {
                if changed.contains(&seat.name) {
                    // A watch reports in order, if late.
                    let told = seat.news.last().map_or(time, |(at, _)| *at);
                    let told = told.max(time + chances.lateness(is_calm));
                    seat.news.push((told, server.leases[&seat.name].clone()));
                }
            }
        }
    }

    /// Ends a process, and starts another one, maybe with another number.
    fn end(&mut self, index: usize, time: Duration) {
        let shards = self.numbers[usize::try_from(self.chances.below(2)).unwrap()];
        let process = &mut self.processes[index];
        let next = Process::new(index, process.lives + 1, shards, (time, process.offset));
        let old = std::mem::replace(process, next);
        let seats = old.seats.into_iter().chain([old.number]);
        self.orphans.extend(seats.filter_map(|seat| seat.call));
    }

    fn step(&mut self, time: Duration, tick: u64, is_calm: bool) {
        self.arrivals(time, is_calm);
        for index in 0..self.processes.len() {
            if !is_calm && self.chances.below(1_500) == 0 {
                self.end(index, time);
                continue;
            }
            let Self { processes, chances, orphans, .. } = self;
            let process = &mut processes[index];
            if !is_calm && chances.below(600) == 0 {
                process.stopped_until = time + Duration::from_millis(chances.below(40_000));
            }
            if time < process.stopped_until {
                continue;
            }
            let mut ends = process.turn(None, time, chances, is_calm);
            for seat in 0..process.seats.len() {
                ends |= process.turn(Some(seat), time, chances, is_calm);
            }
            if tick.is_multiple_of(DECIDES_EVERY) {
                orphans.extend(process.decide(time, chances, is_calm));
            }
            if ends {
                self.end(index, time);
            }
        }
    }

    /// Returns who may write in the namespace.
    fn writers(&self, namespace: &Name, time: Duration) -> Vec<&str> {
        let may = |process: &&Process| process.may_write(namespace, time);
        self.processes.iter().filter(may).map(|it| it.identity.as_str()).collect()
    }
}

/// A namespace, with its shard for each number that is tried.
struct Name {
    name: String,
    shards: Vec<usize>,
}

impl Name {
    fn new(number: usize) -> Self {
        let name = format!("team-{number}");
        let shards = (0..=6).map(|shards| shard_of(&name, shards).into()).collect();
        Self { name, shards }
    }
}

#[test]
fn never_do_two_lead_and_in_the_end_one_does() {
    for seed in 0..200 {
        World::new(Chances(seed), 3, [0, 0]).run(seed, &[Name::new(0)]);
    }
}

#[test]
fn no_namespace_ever_has_two_writers_and_in_the_end_each_has_one() {
    let namespaces: Vec<Name> = (0..12).map(Name::new).collect();
    for seed in 0..50 {
        let mut chances = Chances(seed);
        let first = [1, 3, 4, 5][usize::try_from(chances.below(4)).unwrap()];
        let second = [0, 2, 6][usize::try_from(chances.below(3)).unwrap()];
        // In every other world the numbers are the same.
        let numbers = [first, if seed.is_multiple_of(2) { first } else { second }];
        let mut world = World::new(chances, 4, numbers);
        let time = world.run(seed, &namespaces);
        let now = |process: &Process| time + process.offset;
        let sharing = world.processes.iter().filter(|it| it.shards > 0 && it.number.leads(now(it)));
        let held: Vec<usize> = sharing.map(|process| process.held(time)).collect();
        let (least, most) = (held.iter().min(), held.iter().max());
        let difference = most.zip(least).map_or(0, |(most, least)| most - least);
        assert!(difference <= 1, "seed {seed}: {held:?} of {} are held", world.processes[0].shards);
    }
}
