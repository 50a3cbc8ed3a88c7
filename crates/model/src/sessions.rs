//! Who is playing: sessions and players online, from the events themselves.
//!
//! A session begins with `$session_start`, or with any event of a player who was silent for 30 minutes, and ends with
//! `$session_end` or after 30 minutes of silence. Sessions follow the order of the log: an event that arrives long
//! after a newer one of the same player still counts in its own minute, but begins no session.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::limits::{ONLINE_MS, SESSION_SILENCE_MS};

/// A metric of one event for every session that began.
pub const SESSION: &str = "$session";
/// A metric whose values are the seconds of play that became known with an event.
pub const PLAY_TIME: &str = "$play_time";

const ONLINE_S: u32 = (ONLINE_MS / 1000) as u32;
const SILENCE_S: u32 = (SESSION_SILENCE_MS / 1000) as u32;
/// Seconds of `last seen` that are counted one by one: more than a player may be online after the last event.
const RING_S: usize = 256;
const SNAPSHOT_VERSION: u8 = 1;

/// What an event means to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// `$session_start`.
    Start,
    /// `$session_end`.
    End,
    /// Anything else.
    Alive,
}

impl Sign {
    /// The sign that an event of this name gives.
    pub fn of(name: &[u8]) -> Sign {
        match name {
            b"$session_start" => Sign::Start,
            b"$session_end" => Sign::End,
            _ => Sign::Alive,
        }
    }
}

/// What one event changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// A session began with this event.
    pub began: bool,
    /// Seconds of play since the session's event before.
    pub play_s: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    last_s: u32,
    open: bool,
    /// The open session began with an explicit `$session_start`.
    explicit: bool,
}

/// The players of one game. Bounded by who was seen in the last half hour.
#[derive(Debug, Default)]
pub struct Players {
    seen: HashMap<u64, Seen, FxBuildHasher>,
    /// Players to look at again when a minute is half an hour old, ascending by minute.
    expiry: std::collections::BTreeMap<u32, Vec<u64>>,
    online: Ring,
    newest_s: u32,
}

impl Players {
    /// Takes one event of a player. `at_s` is the event's time in seconds since 1970, not after its receipt.
    pub fn observe(&mut self, player: u64, sign: Sign, at_s: u32) -> Effect {
        self.advance(at_s);
        let Some(seen) = self.seen.get_mut(&player) else {
            return self.first_seen(player, sign, at_s);
        };
        if at_s + SILENCE_S < seen.last_s {
            return Effect { began: sign == Sign::Start, play_s: 0 };
        }
        let silent_s = at_s.saturating_sub(seen.last_s);
        let continues = seen.open && silent_s < SILENCE_S && !(sign == Sign::Start && seen.explicit);
        let effect =
            Effect { began: !continues && sign != Sign::End, play_s: if continues { silent_s } else { 0 } };
        if at_s > seen.last_s {
            self.online.moved(seen.last_s, at_s);
            seen.last_s = at_s;
        }
        if sign == Sign::Start || effect.began {
            seen.explicit = sign == Sign::Start;
        }
        seen.open = sign != Sign::End;
        effect
    }

    fn first_seen(&mut self, player: u64, sign: Sign, at_s: u32) -> Effect {
        if at_s + SILENCE_S < self.newest_s {
            return Effect { began: sign == Sign::Start, play_s: 0 };
        }
        let open = sign != Sign::End;
        self.seen.insert(player, Seen { last_s: at_s, open, explicit: sign == Sign::Start });
        self.expiry.entry(at_s / 60).or_default().push(player);
        self.online.entered(at_s);
        Effect { began: open, play_s: 0 }
    }

    /// From now on `other` is `player`: what was seen of the two was seen of one.
    pub fn join(&mut self, other: u64, player: u64) {
        if other == player {
            return;
        }
        let Some(others) = self.seen.remove(&other) else { return };
        let Some(seen) = self.seen.get_mut(&player) else {
            self.seen.insert(player, others);
            self.expiry.entry(others.last_s / 60).or_default().push(player);
            return;
        };
        self.online.left(others.last_s.min(seen.last_s));
        if others.last_s > seen.last_s {
            *seen = others;
        }
    }

    /// Players seen in the last 180 seconds before `now_s`.
    pub fn online(&self, now_s: u32) -> u32 {
        self.online.sum(now_s, ONLINE_S)
    }

    /// Players remembered: those seen in the last half hour.
    pub fn remembered(&self) -> usize {
        self.seen.len()
    }

    /// Time moves with the events. Each player is looked at once per half hour at most, whatever the load.
    fn advance(&mut self, at_s: u32) {
        if at_s <= self.newest_s {
            return;
        }
        self.newest_s = at_s;
        self.online.advance(at_s);
        while let Some((&minute, _)) = self.expiry.first_key_value() {
            if minute * 60 + 60 + SILENCE_S > at_s {
                break;
            }
            let (_, players) = self.expiry.pop_first().expect("it was there a moment ago");
            players.into_iter().for_each(|player| self.expire(player, minute));
        }
    }

    fn expire(&mut self, player: u64, minute: u32) {
        let Some(seen) = self.seen.get(&player) else { return };
        let last_minute = seen.last_s / 60;
        if last_minute > minute {
            self.expiry.entry(last_minute).or_default().push(player);
        } else {
            self.seen.remove(&player);
        }
    }
}

/// How many players were last seen in each of the last seconds.
#[derive(Debug)]
struct Ring {
    counts: Box<[u32; RING_S]>,
    newest_s: u32,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { counts: Box::new([0; RING_S]), newest_s: 0 }
    }
}

impl Ring {
    fn slot(&mut self, at_s: u32) -> Option<&mut u32> {
        let kept = at_s <= self.newest_s && at_s + (RING_S as u32) > self.newest_s;
        kept.then(|| &mut self.counts[at_s as usize % RING_S])
    }

    fn entered(&mut self, at_s: u32) {
        if let Some(count) = self.slot(at_s) {
            *count += 1;
        }
    }

    fn left(&mut self, at_s: u32) {
        if let Some(count) = self.slot(at_s) {
            *count -= 1;
        }
    }

    fn moved(&mut self, from_s: u32, to_s: u32) {
        self.left(from_s);
        self.entered(to_s);
    }

    fn advance(&mut self, to_s: u32) {
        let steps = (to_s - self.newest_s).min(RING_S as u32);
        for second in to_s - steps + 1..=to_s {
            self.counts[second as usize % RING_S] = 0;
        }
        self.newest_s = to_s;
    }

    fn sum(&self, now_s: u32, seconds: u32) -> u32 {
        let oldest_s =
            (now_s + 1).saturating_sub(seconds).max((self.newest_s + 1).saturating_sub(RING_S as u32));
        (oldest_s..=now_s.min(self.newest_s)).map(|second| self.counts[second as usize % RING_S]).sum()
    }
}

/// The players of every game.
#[derive(Debug, Default)]
pub struct Sessions {
    games: HashMap<u32, Players, FxBuildHasher>,
}

/// The snapshot is not one that this program wrote.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("snapshot of sessions is damaged or of an unknown version")]
pub struct BadSnapshot;

impl Sessions {
    /// The players of one game; an unknown game has none yet.
    pub fn game(&mut self, game: u32) -> &mut Players {
        self.games.entry(game).or_default()
    }

    /// Players of a game seen in the last 180 seconds before `now_s`.
    pub fn online(&self, game: u32, now_s: u32) -> u32 {
        self.games.get(&game).map_or(0, |players| players.online(now_s))
    }

    /// Everything, as bytes: the same state gives the same bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut games: Vec<_> = self.games.iter().collect();
        games.sort_unstable_by_key(|(game, _)| **game);
        let mut bytes = vec![SNAPSHOT_VERSION];
        for (game, players) in games {
            bytes.extend_from_slice(&game.to_le_bytes());
            bytes.extend_from_slice(&players.newest_s.to_le_bytes());
            bytes.extend_from_slice(&(players.seen.len() as u32).to_le_bytes());
            let mut seen: Vec<_> = players.seen.iter().collect();
            seen.sort_unstable_by_key(|(player, _)| **player);
            for (player, seen) in seen {
                bytes.extend_from_slice(&player.to_le_bytes());
                bytes.extend_from_slice(&seen.last_s.to_le_bytes());
                bytes.push(seen.open as u8 | (seen.explicit as u8) << 1);
            }
        }
        bytes
    }

    /// Reads what [`Sessions::snapshot`] wrote.
    pub fn restore(bytes: &[u8]) -> Result<Sessions, BadSnapshot> {
        let mut reader = Reader(bytes);
        if reader.take::<1>()? != [SNAPSHOT_VERSION] {
            return Err(BadSnapshot);
        }
        let mut sessions = Sessions::default();
        while !reader.0.is_empty() {
            let game = u32::from_le_bytes(reader.take()?);
            let players = reader.players()?;
            sessions.games.insert(game, players);
        }
        Ok(sessions)
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadSnapshot> {
        let (head, rest) = self.0.split_first_chunk().ok_or(BadSnapshot)?;
        self.0 = rest;
        Ok(*head)
    }

    fn players(&mut self) -> Result<Players, BadSnapshot> {
        let mut players = Players::default();
        players.advance(u32::from_le_bytes(self.take()?));
        for _ in 0..u32::from_le_bytes(self.take()?) {
            let player = u64::from_le_bytes(self.take()?);
            let last_s = u32::from_le_bytes(self.take()?);
            let [flags] = self.take()?;
            let (open, explicit) = (flags & 1 != 0, flags & 2 != 0);
            players.seen.insert(player, Seen { last_s, open, explicit });
            players.expiry.entry(last_s / 60).or_default().push(player);
            players.online.entered(last_s);
        }
        Ok(players)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    /// Each line is `minute:second player sign`, or `minute:second player is=other`; the answer names what each event did, then who is online.
    fn check(script: &str, expected: Expect) {
        let mut players = Players::default();
        let mut said = Vec::new();
        let mut now_s = 0;
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let (minute, second) = words[0].split_once(':').expect("minute:second");
            let at_s = 600_000 + minute.parse::<u32>().unwrap() * 60 + second.parse::<u32>().unwrap();
            now_s = now_s.max(at_s);
            if let Some(player) = words.get(2).and_then(|word| word.strip_prefix("is=")) {
                let id = |name: &str| name.bytes().map(u64::from).sum();
                players.join(id(words[1]), id(player));
                continue;
            }
            let sign = Sign::of(words.get(2).copied().unwrap_or("score").as_bytes());
            let effect = players.observe(words[1].bytes().map(u64::from).sum(), sign, at_s);
            let began = if effect.began { " began" } else { "" };
            said.push(format!("{}{began} +{}s", words[1], effect.play_s));
        }
        said.push(format!("online {}", players.online(now_s)));
        expected.assert_eq(&said.join(", "));
    }

    #[test]
    fn a_session_begins_with_its_start_and_lasts_while_events_come() {
        check(
            "00:00 ann $session_start
             01:00 ann $ping
             01:30 ann score
             01:40 ann $session_end",
            expect!["ann began +0s, ann +60s, ann +30s, ann +10s, online 1"],
        );
    }

    #[test]
    fn a_plain_event_after_half_an_hour_of_silence_begins_a_session() {
        check(
            "00:00 ann
             29:59 ann
             59:59 ann",
            expect!["ann began +0s, ann +1799s, ann began +0s, online 1"],
        );
    }

    #[test]
    fn an_explicit_start_takes_over_a_session_that_a_plain_event_began() {
        check(
            "00:00 ann score
             00:01 ann $session_start
             00:09 ann $session_start",
            expect!["ann began +0s, ann +1s, ann began +0s, online 1"],
        );
    }

    #[test]
    fn an_event_after_the_end_begins_a_new_session() {
        check(
            "00:00 ann $session_start
             00:10 ann $session_end
             00:20 ann score",
            expect!["ann began +0s, ann +10s, ann began +0s, online 1"],
        );
    }

    #[test]
    fn a_player_is_online_for_three_minutes_after_the_last_event() {
        check("00:00 ann\n 02:59 bo", expect!["ann began +0s, bo began +0s, online 2"]);
        check("00:00 ann\n 03:00 bo", expect!["ann began +0s, bo began +0s, online 1"]);
    }

    #[test]
    fn who_turns_out_to_be_a_player_goes_on_with_the_same_session() {
        check(
            "00:00 anon $session_start
             01:00 anon is=ann
             02:00 ann",
            expect!["anon began +0s, ann +120s, online 1"],
        );
    }

    #[test]
    fn two_who_are_one_are_one_player_online() {
        check(
            "00:00 anon
             01:00 ann
             01:30 anon is=ann
             02:00 ann",
            expect!["anon began +0s, ann began +0s, ann +60s, online 1"],
        );
        check(
            "00:00 ann
             01:00 anon
             01:30 anon is=ann
             02:00 ann",
            expect!["ann began +0s, anon began +0s, ann +60s, online 1"],
        );
    }

    #[test]
    fn an_event_that_arrives_an_hour_late_begins_no_session() {
        check("60:00 ann\n 00:00 ann\n 60:30 ann", expect!["ann began +0s, ann +0s, ann +30s, online 1"]);
    }

    #[test]
    fn the_silent_are_forgotten() {
        let mut players = Players::default();
        (0..1000).for_each(|player| {
            players.observe(player, Sign::Alive, 600_000);
        });
        players.observe(5, Sign::Alive, 601_000);
        players.observe(7, Sign::Alive, 602_400);
        assert_eq!(players.remembered(), 2);
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, u8, u32)>> {
        prop::collection::vec((0u64..6, 0u8..6, 0u32..900), 0..60)
    }

    fn play(sessions: &mut Sessions, steps: &[(u64, u8, u32)], at_s: &mut u32) -> Vec<Effect> {
        let sign = |sign| [Sign::Start, Sign::End].get(sign as usize).copied().unwrap_or(Sign::Alive);
        let step = |(player, kind, after_s): &(u64, u8, u32)| {
            *at_s += after_s;
            if *kind == 5 && *player > 2 {
                sessions.game(1).join(*player, *player - 3);
                return Effect::default();
            }
            sessions.game(1).observe(*player, sign(*kind), *at_s)
        };
        steps.iter().map(step).collect()
    }

    proptest! {
        #[test]
        fn a_restored_snapshot_goes_on_as_if_nothing_had_happened(before in steps(), after in steps()) {
            let (mut sessions, mut at_s) = (Sessions::default(), 600_000);
            play(&mut sessions, &before, &mut at_s);
            let mut restored = Sessions::restore(&sessions.snapshot()).unwrap();
            prop_assert_eq!(restored.snapshot(), sessions.snapshot());
            let mut restored_at_s = at_s;
            let expected = play(&mut sessions, &after, &mut at_s);
            prop_assert_eq!(play(&mut restored, &after, &mut restored_at_s), expected);
            prop_assert_eq!(restored.online(1, at_s), sessions.online(1, at_s));
        }

        #[test]
        fn online_is_a_recount_of_who_was_seen_in_three_minutes(steps in steps()) {
            let (mut sessions, mut at_s) = (Sessions::default(), 600_000);
            let mut last = std::collections::BTreeMap::new();
            for step in &steps {
                play(&mut sessions, std::slice::from_ref(step), &mut at_s);
                match step {
                    (player, 5, _) if *player > 2 => {
                        let seen = last.remove(player);
                        let both = [seen, last.remove(&(player - 3))].into_iter().flatten().max();
                        both.map(|seen| last.insert(player - 3, seen));
                    }
                    (player, ..) => drop(last.insert(*player, at_s)),
                }
            }
            let recount = last.values().filter(|last_s| *last_s + 180 > at_s).count();
            prop_assert_eq!(sessions.online(1, at_s) as usize, recount);
        }

        #[test]
        fn any_bytes_are_restored_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Sessions::restore(&bytes);
        }
    }
}
