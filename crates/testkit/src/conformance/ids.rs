//! The conformance suite for sets of event ids.

use std::collections::HashMap;

use model::ports::ids::{Claim, IdKey, IdMask, Ids};

/// The deduplication window that sets under test are opened with.
pub const WINDOW_MS: u64 = 7 * DAY_MS;

const DAY_MS: u64 = 24 * 3_600_000;
const START_MS: u64 = 1_800_000_000_000;

/// Runs all checks. `new_store` returns an opener for a new, empty set each time; an opener takes the end of the
/// log. Calling it again simulates a restart after a crash: the previous set was dropped as it was.
pub fn ids_conform<H: Fn(u64) -> Box<dyn Ids>>(new_store: impl Fn() -> H) {
    repeats_are_not_new(Harness::new(new_store()));
    repeat_inside_a_batch_is_not_new(Harness::new(new_store()));
    released_id_is_new_again(Harness::new(new_store()));
    ids_of_other_games_and_key_classes_are_separate(Harness::new(new_store()));
    id_is_new_again_after_the_window(Harness::new(new_store()));
    repeat_does_not_extend_the_window(Harness::new(new_store()));
    restart_changes_no_result(Harness::new(new_store()));
    claimed_but_unwritten_id_is_new_after_a_crash(Harness::new(new_store()));
    registered_position_advances_without_new_ids(Harness::new(new_store()));
    claims_of_one_commit_are_released_together(Harness::new(new_store()));
}

/// Runs random operations (claims, repeats, failed writes, crashes, jumps in time, restarts) and compares each
/// result with a ledger. Panics at the first wrong result, naming its step.
pub fn check_random_operations<H: Fn(u64) -> Box<dyn Ids>>(open: H, seed: u64, steps: usize) {
    let mut random = Random(seed);
    let mut harness = Harness::new(open);
    for step in 0..steps {
        harness.step = step;
        match random.below(100) {
            0..=79 => harness.claim_and_write(&harness.random_claims(&mut random)),
            80..=84 => harness.fail_to_write(&harness.random_claims(&mut random)),
            85..=88 => harness.crash_before_the_write(&mut random),
            89..=91 => harness.restart(),
            92..=95 => harness.advance(random.below(2 * 60_000)),
            96..=98 => harness.advance(random.below(6 * 3_600_000)),
            _ => harness.advance(random.below(3 * DAY_MS)),
        }
    }
}

fn repeats_are_not_new<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    let claims = [random_id(1), timed_id(2), random_id(0), timed_id(u64::MAX)];
    harness.check(&claims, "++++");
    harness.check(&claims, "----");
    harness.check(&[random_id(9), random_id(1), timed_id(2)], "+--");
}

fn repeat_inside_a_batch_is_not_new<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    harness.check(&[random_id(1), random_id(1), timed_id(2), random_id(1), timed_id(2)], "+-+--");
    let many: Vec<Claim> = (0..10_000).map(|n| random_id(100 + n % 5_000)).collect();
    harness.check(&many, &("+".repeat(5_000) + &"-".repeat(5_000)));
}

fn released_id_is_new_again<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    harness.check(&[random_id(1)], "+");
    harness.fail_to_write(&[random_id(1), random_id(2), timed_id(3)]);
    harness.check(&[random_id(1), random_id(2), timed_id(3)], "-++");
}

fn ids_of_other_games_and_key_classes_are_separate<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    let id = 0x1234_5678_9abc_4def_8123_4567_89ab_cdef;
    let masks = [IdMask(0), IdMask(1 << 127), IdMask(1), IdMask(u128::MAX)];
    let claims = masks.map(|mask| Claim::new(mask, id));
    for claim in &claims {
        harness.check(&[*claim], "+");
    }
    harness.check(&claims, "----");
}

fn id_is_new_again_after_the_window<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    harness.check(&[random_id(1), timed_id(2)], "++");
    harness.advance(WINDOW_MS);
    harness.check(&[random_id(1), timed_id(2), random_id(3)], "--+");
    harness.advance(DAY_MS + 1);
    harness.check(&[random_id(1), timed_id(2), random_id(3)], "++-");
}

fn repeat_does_not_extend_the_window<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    harness.check(&[random_id(1)], "+");
    for _ in 0..7 {
        harness.advance(DAY_MS);
        harness.check(&[random_id(1)], "-");
    }
    harness.advance(DAY_MS + 1);
    harness.check(&[random_id(1)], "+");
}

fn restart_changes_no_result<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    for batch in 0..20 {
        let claims: Vec<Claim> = (0..50).map(|n| either_id(batch * 50 + n)).collect();
        harness.check(&claims, &"+".repeat(50));
        harness.advance(40_000);
    }
    for _ in 0..3 {
        harness.restart();
        let claims: Vec<Claim> = (0..1_000).map(either_id).collect();
        harness.check(&claims, &"-".repeat(1_000));
    }
}

fn claimed_but_unwritten_id_is_new_after_a_crash<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    harness.check(&[random_id(1)], "+");
    harness.claim(0, &[random_id(2), timed_id(3)]);
    harness.claim(2, &[random_id(4)]);
    harness.restart();
    harness.check(&[random_id(1), random_id(2), timed_id(3), random_id(4)], "-+++");
}

fn registered_position_advances_without_new_ids<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    harness.check(&[random_id(1)], "+");
    let mut registered = harness.ids().registered_until();
    for _ in 0..20 {
        harness.advance(5 * 60_000);
        harness.end += 1_000;
        harness.check(&[], "");
        assert!(harness.ids().registered_until() >= registered, "registered_until must not decrease");
        registered = harness.ids().registered_until();
    }
    harness.restart();
    harness.check(&[random_id(1)], "-");
}

fn claims_of_one_commit_are_released_together<H: Fn(u64) -> Box<dyn Ids>>(mut harness: Harness<H>) {
    harness.check(&[random_id(1)], "+");
    let parts: Vec<Vec<Claim>> =
        (0..5).map(|part| (0..100).map(|n| either_id(100 * part + 10 + n)).collect()).collect();
    for part in &parts {
        assert_eq!(harness.claim(0, part), vec![true; 100]);
    }
    parts.iter().for_each(|part| harness.ids().release(part));
    harness.check(&parts.concat(), &"+".repeat(500));
    harness.restart();
    harness.check(&parts.concat(), &"-".repeat(500));
}

/// A set of ids with its log, and a ledger of the times at which ids were accepted.
struct Harness<H> {
    open: H,
    ids: Option<Box<dyn Ids>>,
    log: Vec<LogEntry>,
    end: u64,
    now_ms: u64,
    accepted_ms: HashMap<IdKey, u64>,
    step: usize,
}

/// A batch in the log.
struct LogEntry {
    offset: u64,
    end: u64,
    at_ms: u64,
    claims: Vec<Claim>,
}

impl<H: Fn(u64) -> Box<dyn Ids>> Harness<H> {
    fn new(open: H) -> Harness<H> {
        let ids = Some(open(0));
        Harness { open, ids, log: Vec::new(), end: 0, now_ms: START_MS, accepted_ms: HashMap::new(), step: 0 }
    }

    fn ids(&mut self) -> &mut dyn Ids {
        self.ids.as_mut().expect("a set is open except while it restarts").as_mut()
    }

    fn advance(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Claims and writes a batch; `+` is new, `-` is a duplicate.
    fn check(&mut self, claims: &[Claim], expected: &str) {
        let fresh = self.claim(0, claims);
        let answers: String = fresh.iter().map(|&new| if new { '+' } else { '-' }).collect();
        assert_eq!(answers, expected, "step {}", self.step);
        self.write(claims, &fresh);
    }

    /// Claims a batch at the position `ahead` of the end of the log.
    fn claim(&mut self, ahead: u64, claims: &[Claim]) -> Vec<bool> {
        let (offset, now_ms) = (self.end + ahead, self.now_ms);
        let mut fresh = Vec::new();
        self.ids().claim(offset, now_ms, claims, &mut fresh).expect("the store does not fail");
        assert_eq!(fresh.len(), claims.len());
        fresh
    }

    fn write(&mut self, claims: &[Claim], fresh: &[bool]) {
        let claims: Vec<Claim> = new_ones(claims, fresh);
        self.accepted_ms.extend(claims.iter().map(|claim| (claim.key, self.now_ms)));
        // Events without an id also advance the log.
        let end = self.end + claims.len() as u64 + self.end % 3;
        self.log.push(LogEntry { offset: self.end, end, at_ms: self.now_ms, claims });
        self.end = end;
    }

    fn claim_and_write(&mut self, claims: &[Claim]) {
        let fresh = self.claim(0, claims);
        self.compare(claims, &fresh);
        self.write(claims, &fresh);
    }

    fn fail_to_write(&mut self, claims: &[Claim]) {
        let fresh = self.claim(0, claims);
        self.compare(claims, &fresh);
        self.ids().release(&new_ones(claims, &fresh));
    }

    fn crash_before_the_write(&mut self, random: &mut Random) {
        let mut ahead = 0;
        for _ in 0..1 + random.below(3) {
            let claims = self.random_claims(random);
            self.claim(ahead, &claims);
            ahead += claims.len() as u64;
        }
        self.restart();
    }

    /// Drops the set, opens it again, and claims again what it had not stored.
    fn restart(&mut self) {
        self.ids = None;
        self.ids = Some((self.open)(self.end));
        let from = self.ids().registered_until();
        assert!(from <= self.end, "ids beyond the end of the log are registered");
        let mut answers = Vec::new();
        let ids = self.ids.as_mut().expect("the set was just opened");
        for entry in self.log.iter().filter(|entry| entry.end > from) {
            ids.claim(entry.offset, entry.at_ms, &entry.claims, &mut answers)
                .expect("the store does not fail");
        }
    }

    /// Within one day after the end of the window, both results are correct.
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

    /// Draws from so few ids that many are repeats; half of them contain a time.
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

/// Returns a UUIDv4 that depends only on `n`.
fn random_id(n: u64) -> Claim {
    let mut random = Random(n ^ 0x1234);
    let id = u128::from(random.next()) << 64 | u128::from(random.next());
    Claim::new(IdMask(0), id & !(0xf << 76) | (4 << 76))
}

/// Returns a UUIDv7 that depends only on `n`; one in fifty comes from a wrong clock.
fn timed_id(n: u64) -> Claim {
    let mut random = Random(n ^ 0x4321);
    let time_ms =
        if n.is_multiple_of(50) { random.next() >> 16 } else { START_MS + random.below(20 * DAY_MS) };
    let low = u128::from(random.next()) & !(3 << 62) | (2 << 62);
    Claim::new(IdMask(0), u128::from(time_ms) << 80 | 7 << 76 | low)
}

/// SplitMix64, so that a seed always gives the same operations.
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
