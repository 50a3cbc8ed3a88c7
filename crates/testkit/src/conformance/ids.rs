//! What every set of ids promises, whatever it is made of.

use std::collections::HashMap;

use model::ports::ids::{Claim, IdKey, IdMask, Ids};

/// The window that the sets under test are opened with.
pub const WINDOW_MS: u64 = 7 * DAY_MS;

const DAY_MS: u64 = 24 * 3_600_000;
const START_MS: u64 = 1_800_000_000_000;

/// Runs all checks. `new_home` gives a new, empty home each time. A home opens its set, given the end of the log;
/// opening it again is a restart after a crash: the set before it was dropped as it was.
pub fn ids_conform<H: Fn(u64) -> Box<dyn Ids>>(new_home: impl Fn() -> H) {
    repeats_are_not_new(World::new(new_home()));
    a_repeat_inside_a_batch_is_not_new(World::new(new_home()));
    an_id_given_back_is_new_again(World::new(new_home()));
    other_games_and_key_classes_are_not_touched(World::new(new_home()));
    an_id_is_new_again_after_the_window(World::new(new_home()));
    a_repeat_does_not_lengthen_the_window(World::new(new_home()));
    a_restart_changes_no_answer(World::new(new_home()));
    what_was_claimed_but_not_written_is_new_after_a_crash(World::new(new_home()));
    quiet_times_move_what_is_remembered(World::new(new_home()));
}

/// A random life of so many steps: claims, repeats, failed writes, crashes, leaps in time, restarts; each answer is
/// compared with a ledger's. Panics with the step at the first that is wrong.
pub fn random_life<H: Fn(u64) -> Box<dyn Ids>>(home: H, seed: u64, steps: usize) {
    let mut random = Random(seed);
    let mut world = World::new(home);
    for step in 0..steps {
        world.step = step;
        match random.below(100) {
            0..=79 => world.claim_and_write(&world.random_claims(&mut random)),
            80..=84 => world.fail_to_write(&world.random_claims(&mut random)),
            85..=88 => world.crash_before_the_write(&mut random),
            89..=91 => world.restart(),
            92..=95 => world.pass(random.below(2 * 60_000)),
            96..=98 => world.pass(random.below(6 * 3_600_000)),
            _ => world.pass(random.below(3 * DAY_MS)),
        }
    }
}

fn repeats_are_not_new<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    let claims = [random_id(1), timed_id(2), random_id(0), timed_id(u64::MAX)];
    world.check(&claims, "++++");
    world.check(&claims, "----");
    world.check(&[random_id(9), random_id(1), timed_id(2)], "+--");
}

fn a_repeat_inside_a_batch_is_not_new<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    world.check(&[random_id(1), random_id(1), timed_id(2), random_id(1), timed_id(2)], "+-+--");
    let many: Vec<Claim> = (0..10_000).map(|n| random_id(100 + n % 5_000)).collect();
    world.check(&many, &("+".repeat(5_000) + &"-".repeat(5_000)));
}

fn an_id_given_back_is_new_again<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    world.check(&[random_id(1)], "+");
    world.fail_to_write(&[random_id(1), random_id(2), timed_id(3)]);
    world.check(&[random_id(1), random_id(2), timed_id(3)], "-++");
}

fn other_games_and_key_classes_are_not_touched<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    let id = 0x1234_5678_9abc_4def_8123_4567_89ab_cdef;
    let masks = [IdMask(0), IdMask(1 << 127), IdMask(1), IdMask(u128::MAX)];
    let claims = masks.map(|mask| Claim::new(mask, id));
    for claim in &claims {
        world.check(&[*claim], "+");
    }
    world.check(&claims, "----");
}

fn an_id_is_new_again_after_the_window<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    world.check(&[random_id(1), timed_id(2)], "++");
    world.pass(WINDOW_MS);
    world.check(&[random_id(1), timed_id(2), random_id(3)], "--+");
    world.pass(DAY_MS + 1);
    world.check(&[random_id(1), timed_id(2), random_id(3)], "++-");
}

fn a_repeat_does_not_lengthen_the_window<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    world.check(&[random_id(1)], "+");
    for _ in 0..7 {
        world.pass(DAY_MS);
        world.check(&[random_id(1)], "-");
    }
    world.pass(DAY_MS + 1);
    world.check(&[random_id(1)], "+");
}

fn a_restart_changes_no_answer<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    for batch in 0..20 {
        let claims: Vec<Claim> = (0..50).map(|n| either_id(batch * 50 + n)).collect();
        world.check(&claims, &"+".repeat(50));
        world.pass(40_000);
    }
    for _ in 0..3 {
        world.restart();
        let claims: Vec<Claim> = (0..1_000).map(either_id).collect();
        world.check(&claims, &"-".repeat(1_000));
    }
}

fn what_was_claimed_but_not_written_is_new_after_a_crash<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    world.check(&[random_id(1)], "+");
    world.ask(0, &[random_id(2), timed_id(3)]);
    world.ask(2, &[random_id(4)]);
    world.restart();
    world.check(&[random_id(1), random_id(2), timed_id(3), random_id(4)], "-+++");
}

fn quiet_times_move_what_is_remembered<H: Fn(u64) -> Box<dyn Ids>>(mut world: World<H>) {
    world.check(&[random_id(1)], "+");
    let mut remembered = world.ids().remembered_until();
    for _ in 0..20 {
        world.pass(5 * 60_000);
        world.end += 1_000;
        world.check(&[], "");
        assert!(world.ids().remembered_until() >= remembered, "remembered ids were forgotten");
        remembered = world.ids().remembered_until();
    }
    world.restart();
    world.check(&[random_id(1)], "-");
}

/// A set of ids beside a log and a ledger of what was accepted when.
struct World<H> {
    home: H,
    ids: Option<Box<dyn Ids>>,
    log: Vec<Entry>,
    end: u64,
    now_ms: u64,
    accepted_ms: HashMap<IdKey, u64>,
    step: usize,
}

/// A batch in the log.
struct Entry {
    offset: u64,
    end: u64,
    at_ms: u64,
    claims: Vec<Claim>,
}

impl<H: Fn(u64) -> Box<dyn Ids>> World<H> {
    fn new(home: H) -> World<H> {
        let ids = Some(home(0));
        World { home, ids, log: Vec::new(), end: 0, now_ms: START_MS, accepted_ms: HashMap::new(), step: 0 }
    }

    fn ids(&mut self) -> &mut dyn Ids {
        self.ids.as_mut().expect("a set is open except while it restarts").as_mut()
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Claims and writes a batch; `+` is new, `-` is not.
    fn check(&mut self, claims: &[Claim], expected: &str) {
        let fresh = self.ask(0, claims);
        let answers: String = fresh.iter().map(|&new| if new { '+' } else { '-' }).collect();
        assert_eq!(answers, expected, "step {}", self.step);
        self.write(claims, &fresh);
    }

    /// The answers for a batch that would stand `ahead` of the log's end.
    fn ask(&mut self, ahead: u64, claims: &[Claim]) -> Vec<bool> {
        let (offset, now_ms) = (self.end + ahead, self.now_ms);
        let mut fresh = Vec::new();
        self.ids().claim(offset, now_ms, claims, &mut fresh).expect("the disk is well");
        assert_eq!(fresh.len(), claims.len());
        fresh
    }

    fn write(&mut self, claims: &[Claim], fresh: &[bool]) {
        let claims: Vec<Claim> = new_ones(claims, fresh);
        self.accepted_ms.extend(claims.iter().map(|claim| (claim.key, self.now_ms)));
        // Events without an id take room in the log as well.
        let end = self.end + claims.len() as u64 + self.end % 3;
        self.log.push(Entry { offset: self.end, end, at_ms: self.now_ms, claims });
        self.end = end;
    }

    fn claim_and_write(&mut self, claims: &[Claim]) {
        let fresh = self.ask(0, claims);
        self.compare(claims, &fresh);
        self.write(claims, &fresh);
    }

    fn fail_to_write(&mut self, claims: &[Claim]) {
        let fresh = self.ask(0, claims);
        self.compare(claims, &fresh);
        self.ids().release(&new_ones(claims, &fresh));
    }

    fn crash_before_the_write(&mut self, random: &mut Random) {
        let mut ahead = 0;
        for _ in 0..1 + random.below(3) {
            let claims = self.random_claims(random);
            self.ask(ahead, &claims);
            ahead += claims.len() as u64;
        }
        self.restart();
    }

    /// Drops the set as it is, opens what it left, and claims again what it had not on disk.
    fn restart(&mut self) {
        self.ids = None;
        self.ids = Some((self.home)(self.end));
        let from = self.ids().remembered_until();
        assert!(from <= self.end, "ids beyond the log are remembered");
        let mut answers = Vec::new();
        let ids = self.ids.as_mut().expect("it was just opened");
        for entry in self.log.iter().filter(|entry| entry.end > from) {
            ids.claim(entry.offset, entry.at_ms, &entry.claims, &mut answers).expect("the disk is well");
        }
    }

    /// Between the end of the window and a day later both answers are right.
    fn compare(&self, claims: &[Claim], fresh: &[bool]) {
        let mut batch = HashMap::new();
        for (n, (claim, &new)) in claims.iter().zip(fresh).enumerate() {
            let age_ms = self.accepted_ms.get(&claim.key).map(|&at_ms| self.now_ms - at_ms);
            let expected = match age_ms {
                _ if batch.insert(claim.key, ()).is_some() => Some(false),
                None => Some(true),
                Some(age_ms) if age_ms <= WINDOW_MS => Some(false),
                Some(age_ms) if age_ms > WINDOW_MS + DAY_MS => Some(true),
                Some(_) => None,
            };
            let right = expected.is_none_or(|expected| expected == new);
            assert!(right, "step {}, claim {n}: new is {new}, age {age_ms:?} ms", self.step);
        }
    }

    /// Few enough ids that many are repeats, half of them with a time.
    fn random_claims(&self, random: &mut Random) -> Vec<Claim> {
        let masks = [IdMask(0xaaaa << 100), IdMask(0x5555 << 90 | 77)];
        let one = |random: &mut Random| {
            let n = random.below(4_000);
            let mut claim = either_id(n);
            claim.key = IdKey(claim.key.0 ^ masks[(n % 2) as usize].0);
            claim
        };
        (0..random.below(90)).map(|_| one(random)).collect()
    }
}

fn new_ones(claims: &[Claim], fresh: &[bool]) -> Vec<Claim> {
    claims.iter().zip(fresh).filter(|(_, new)| **new).map(|(claim, _)| *claim).collect()
}

fn either_id(n: u64) -> Claim {
    if n.is_multiple_of(2) { random_id(n) } else { timed_id(n) }
}

/// A UUIDv4 that depends on `n` alone.
fn random_id(n: u64) -> Claim {
    let mut random = Random(n ^ 0x1234);
    let id = u128::from(random.next()) << 64 | u128::from(random.next());
    Claim::new(IdMask(0), id & !(0xf << 76) | (4 << 76))
}

/// A UUIDv7 that depends on `n` alone; each fiftieth was made by a clock that is wrong.
fn timed_id(n: u64) -> Claim {
    let mut random = Random(n ^ 0x4321);
    let time_ms =
        if n.is_multiple_of(50) { random.next() >> 16 } else { START_MS + random.below(20 * DAY_MS) };
    let low = u128::from(random.next()) & !(3 << 62) | (2 << 62);
    Claim::new(IdMask(0), u128::from(time_ms) << 80 | 7 << 76 | low)
}

/// SplitMix64: the same life for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}
