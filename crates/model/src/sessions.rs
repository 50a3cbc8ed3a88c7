//! Sessions and online players, derived from events.
//!
//! A session starts with `$session_start`, or with any event of a player after 30 minutes of inactivity. It ends
//! with `$session_end` or after 30 minutes of inactivity. Sessions follow log order: an event that arrives long
//! after a newer one of the same player still counts in its own minute but starts no session.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::limits::{CLOCK_BACK_MS, ONLINE_MS, SESSION_TIMEOUT_MS};

/// The metric that counts one event per started session.
pub const SESSION: &str = "$session";
/// The metric whose values are seconds of play time, recorded with the event that proves them.
pub const PLAY_TIME: &str = "$play_time";

const ONLINE_S: u32 = (ONLINE_MS / 1000) as u32;
const CLOCK_BACK_S: u32 = (CLOCK_BACK_MS / 1000) as u32;
const IDLE_TIMEOUT_S: u32 = (SESSION_TIMEOUT_MS / 1000) as u32;
/// Seconds that are counted individually: more than the time a player counts as online after the last event.
const RING_S: usize = 256;
const SNAPSHOT_VERSION: u8 = 1;
/// Bytes of a game and of a player in a snapshot.
const GAME_BYTES: usize = 12;
const PLAYER_BYTES: usize = 13;

/// The effect of an event's name on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSignal {
    /// `$session_start`.
    Start,
    /// `$session_end`.
    End,
    /// Any other event.
    Activity,
}

impl SessionSignal {
    /// Returns the signal of an event with this name.
    pub fn from_event_name(name: &[u8]) -> SessionSignal {
        match name {
            b"$session_start" => SessionSignal::Start,
            b"$session_end" => SessionSignal::End,
            _ => SessionSignal::Activity,
        }
    }
}

/// The effect of one event on its player's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionEffect {
    /// True if a session started with this event.
    pub started: bool,
    /// Seconds of play since the previous event of the session.
    pub play_s: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlayerState {
    last_s: u32,
    is_open: bool,
    /// The open session has had an explicit `$session_start`.
    is_explicit: bool,
}

/// The players of one game who were active in the last 30 minutes.
#[derive(Debug, Default)]
pub struct GameSessions {
    seen: HashMap<u64, PlayerState, FxBuildHasher>,
    /// Players to check again once the minute is 30 minutes old, by minute.
    expiry: std::collections::BTreeMap<u32, Vec<u64>>,
    online: LastSeenRing,
    newest_s: u32,
}

impl GameSessions {
    /// Sets the time back if the clock was ahead: the time of receipt of a batch, in seconds since 1970, is long before
    /// the newest event. Players who were active in between count as active now.
    pub fn turn_back_if_ahead(&mut self, received_s: u32) {
        if received_s.saturating_add(CLOCK_BACK_S) >= self.newest_s {
            return;
        }
        let mut turned = GameSessions::default();
        turned.advance(received_s);
        for (player, seen) in self.seen.drain() {
            turned.restore_player(player, PlayerState { last_s: seen.last_s.min(received_s), ..seen });
        }
        *self = turned;
    }

    fn restore_player(&mut self, player: u64, seen: PlayerState) {
        self.seen.insert(player, seen);
        self.expiry.entry(seen.last_s / 60).or_default().push(player);
        self.online.add(seen.last_s);
    }

    /// Applies one event of a player. `at_s` is the event's time in seconds since 1970, not later than its receipt.
    pub fn observe(&mut self, player: u64, signal: SessionSignal, at_s: u32) -> SessionEffect {
        self.advance(at_s);
        let Some(seen) = self.seen.get_mut(&player) else {
            return self.observe_first(player, signal, at_s);
        };
        if at_s + IDLE_TIMEOUT_S < seen.last_s {
            return SessionEffect { started: signal == SessionSignal::Start, play_s: 0 };
        }
        let silent_s = at_s.saturating_sub(seen.last_s);
        let continues = seen.is_open
            && silent_s < IDLE_TIMEOUT_S
            && !(signal == SessionSignal::Start && seen.is_explicit);
        let effect = SessionEffect {
            started: !continues && signal != SessionSignal::End,
            play_s: if continues { silent_s } else { 0 },
        };
        if at_s > seen.last_s {
            self.online.move_player(seen.last_s, at_s);
            seen.last_s = at_s;
        }
        if signal == SessionSignal::Start || effect.started {
            seen.is_explicit = signal == SessionSignal::Start;
        }
        seen.is_open = signal != SessionSignal::End;
        effect
    }

    fn observe_first(&mut self, player: u64, signal: SessionSignal, at_s: u32) -> SessionEffect {
        if at_s + IDLE_TIMEOUT_S < self.newest_s {
            return SessionEffect { started: signal == SessionSignal::Start, play_s: 0 };
        }
        let open = signal != SessionSignal::End;
        self.seen.insert(
            player,
            PlayerState { last_s: at_s, is_open: open, is_explicit: signal == SessionSignal::Start },
        );
        self.expiry.entry(at_s / 60).or_default().push(player);
        self.online.add(at_s);
        SessionEffect { started: open, play_s: 0 }
    }

    /// Merges the session state of two ids that turned out to be one player.
    pub fn link(&mut self, other: u64, player: u64) {
        if other == player {
            return;
        }
        let Some(others) = self.seen.remove(&other) else { return };
        let Some(seen) = self.seen.get_mut(&player) else {
            self.seen.insert(player, others);
            self.expiry.entry(others.last_s / 60).or_default().push(player);
            return;
        };
        self.online.remove(others.last_s.min(seen.last_s));
        if others.last_s > seen.last_s {
            *seen = others;
        }
    }

    /// Returns the number of players active in the 180 seconds before `now_s`.
    pub(crate) fn online(&self, now_s: u32) -> u32 {
        self.online.sum(now_s, ONLINE_S)
    }

    /// Returns the number of players kept in memory: those active in the last 30 minutes.
    #[cfg(test)]
    pub(crate) fn tracked_players(&self) -> usize {
        self.seen.len()
    }

    /// Advances the time to that of an event. Each player is checked at most once per 30 minutes, whatever the load.
    fn advance(&mut self, at_s: u32) {
        if at_s <= self.newest_s {
            return;
        }
        self.newest_s = at_s;
        self.online.advance(at_s);
        while let Some((&minute, _)) = self.expiry.first_key_value() {
            if minute * 60 + 60 + IDLE_TIMEOUT_S > at_s {
                break;
            }
            let (_, players) = self.expiry.pop_first().expect("the entry was just found");
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

/// Number of players by the second of their last activity.
#[derive(Debug)]
struct LastSeenRing {
    counts: Box<[u32; RING_S]>,
    newest_s: u32,
}

impl Default for LastSeenRing {
    fn default() -> LastSeenRing {
        LastSeenRing { counts: Box::new([0; RING_S]), newest_s: 0 }
    }
}

impl LastSeenRing {
    fn slot(&mut self, at_s: u32) -> Option<&mut u32> {
        let is_in_range = at_s <= self.newest_s && at_s + (RING_S as u32) > self.newest_s;
        is_in_range.then(|| &mut self.counts[at_s as usize % RING_S])
    }

    fn add(&mut self, at_s: u32) {
        if let Some(count) = self.slot(at_s) {
            *count += 1;
        }
    }

    fn remove(&mut self, at_s: u32) {
        if let Some(count) = self.slot(at_s) {
            *count -= 1;
        }
    }

    fn move_player(&mut self, from_s: u32, to_s: u32) {
        self.remove(from_s);
        self.add(to_s);
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

/// The players of all games.
#[derive(Debug, Default)]
pub struct Sessions {
    games: HashMap<u32, GameSessions, FxBuildHasher>,
}

/// Equal states have the same players with the same sessions; what follows from them is not compared.
impl PartialEq for Sessions {
    fn eq(&self, other: &Sessions) -> bool {
        let is_equal = |players: &GameSessions, other: &GameSessions| {
            players.newest_s == other.newest_s && players.seen == other.seen
        };
        self.games.len() == other.games.len()
            && self
                .games
                .iter()
                .all(|(game, players)| other.games.get(game).is_some_and(|other| is_equal(players, other)))
    }
}

/// The bytes are not a snapshot written by this program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("session snapshot is damaged or has an unknown version")]
pub struct InvalidSnapshot;

impl Sessions {
    /// Returns the players of a game, creating an empty set for a new game.
    pub fn game(&mut self, game: u32) -> &mut GameSessions {
        self.games.entry(game).or_default()
    }

    /// Removes the players of a game.
    pub fn remove_game(&mut self, game: u32) {
        self.games.remove(&game);
    }

    /// Returns the number of players of a game active in the 180 seconds before `now_s`.
    pub fn online(&self, game: u32, now_s: u32) -> u32 {
        self.games.get(&game).map_or(0, |players| players.online(now_s))
    }

    /// Encodes the whole state, in no particular order: sorting millions of players would stop the applier for seconds.
    pub fn snapshot(&self) -> Vec<u8> {
        let players: usize = self.games.values().map(|players| players.seen.len()).sum();
        let mut bytes = Vec::with_capacity(1 + self.games.len() * GAME_BYTES + players * PLAYER_BYTES);
        bytes.push(SNAPSHOT_VERSION);
        for (game, players) in &self.games {
            bytes.extend_from_slice(&game.to_le_bytes());
            bytes.extend_from_slice(&players.newest_s.to_le_bytes());
            bytes.extend_from_slice(&(players.seen.len() as u32).to_le_bytes());
            for (player, seen) in &players.seen {
                let mut entry = [0; PLAYER_BYTES];
                entry[..8].copy_from_slice(&player.to_le_bytes());
                entry[8..12].copy_from_slice(&seen.last_s.to_le_bytes());
                entry[12] = seen.is_open as u8 | (seen.is_explicit as u8) << 1;
                bytes.extend_from_slice(&entry);
            }
        }
        bytes
    }

    /// Restores a state encoded by [`Sessions::snapshot`].
    pub fn restore(bytes: &[u8]) -> Result<Sessions, InvalidSnapshot> {
        let mut reader = SnapshotReader(bytes);
        if reader.read::<1>()? != [SNAPSHOT_VERSION] {
            return Err(InvalidSnapshot);
        }
        let mut sessions = Sessions::default();
        while !reader.0.is_empty() {
            let game = u32::from_le_bytes(reader.read()?);
            let players = reader.players()?;
            sessions.games.insert(game, players);
        }
        Ok(sessions)
    }
}

struct SnapshotReader<'a>(&'a [u8]);

impl SnapshotReader<'_> {
    fn read<const N: usize>(&mut self) -> Result<[u8; N], InvalidSnapshot> {
        let (head, rest) = self.0.split_first_chunk().ok_or(InvalidSnapshot)?;
        self.0 = rest;
        Ok(*head)
    }

    fn players(&mut self) -> Result<GameSessions, InvalidSnapshot> {
        let mut players = GameSessions::default();
        players.advance(u32::from_le_bytes(self.read()?));
        let count = u32::from_le_bytes(self.read()?);
        // Without this, players in the order of another hash table would fill this one unevenly while it grows.
        players.seen.reserve((count as usize).min(self.0.len() / PLAYER_BYTES));
        for _ in 0..count {
            let player = u64::from_le_bytes(self.read()?);
            let last_s = u32::from_le_bytes(self.read()?);
            let [flags] = self.read()?;
            let (is_open, is_explicit) = (flags & 1 != 0, flags & 2 != 0);
            players.restore_player(player, PlayerState { last_s, is_open, is_explicit });
        }
        Ok(players)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    /// Each line is `minute:second player signal`, or `minute:second player is=other`. The output lists the effect
    /// of each event, then the players online.
    fn check(script: &str, expected: Expect) {
        let mut players = GameSessions::default();
        let mut lines = Vec::new();
        let mut now_s = 0;
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let (minute, second) = words[0].split_once(':').expect("minute:second");
            let at_s = 600_000 + minute.parse::<u32>().unwrap() * 60 + second.parse::<u32>().unwrap();
            now_s = now_s.max(at_s);
            if let Some(player) = words.get(2).and_then(|word| word.strip_prefix("is=")) {
                let id = |name: &str| name.bytes().map(u64::from).sum();
                players.link(id(words[1]), id(player));
                continue;
            }
            let signal = SessionSignal::from_event_name(words.get(2).copied().unwrap_or("score").as_bytes());
            let effect = players.observe(words[1].bytes().map(u64::from).sum(), signal, at_s);
            let started = if effect.started { " started" } else { "" };
            lines.push(format!("{}{started} +{}s", words[1], effect.play_s));
        }
        lines.push(format!("online {}", players.online(now_s)));
        expected.assert_eq(&lines.join(", "));
    }

    #[test]
    fn session_starts_explicitly_and_lasts_while_events_arrive() {
        check(
            "00:00 ann $session_start
             01:00 ann $ping
             01:30 ann score
             01:40 ann $session_end",
            expect!["ann started +0s, ann +60s, ann +30s, ann +10s, online 1"],
        );
    }

    #[test]
    fn event_after_30_idle_minutes_starts_a_session() {
        check(
            "00:00 ann
             29:59 ann
             59:59 ann",
            expect!["ann started +0s, ann +1799s, ann started +0s, online 1"],
        );
    }

    #[test]
    fn session_start_joins_a_session_started_by_another_event() {
        check(
            "00:00 ann score
             00:01 ann $session_start
             00:09 ann $session_start",
            expect!["ann started +0s, ann +1s, ann started +0s, online 1"],
        );
    }

    #[test]
    fn event_after_session_end_starts_a_new_session() {
        check(
            "00:00 ann $session_start
             00:10 ann $session_end
             00:20 ann score",
            expect!["ann started +0s, ann +10s, ann started +0s, online 1"],
        );
    }

    #[test]
    fn player_is_online_for_three_minutes_after_the_last_event() {
        check("00:00 ann\n 02:59 bo", expect!["ann started +0s, bo started +0s, online 2"]);
        check("00:00 ann\n 03:00 bo", expect!["ann started +0s, bo started +0s, online 1"]);
    }

    #[test]
    fn linked_player_continues_the_anonymous_session() {
        check(
            "00:00 anon $session_start
             01:00 anon is=ann
             02:00 ann",
            expect!["anon started +0s, ann +120s, online 1"],
        );
    }

    #[test]
    fn linked_ids_are_one_player_online() {
        check(
            "00:00 anon
             01:00 ann
             01:30 anon is=ann
             02:00 ann",
            expect!["anon started +0s, ann started +0s, ann +60s, online 1"],
        );
        check(
            "00:00 ann
             01:00 anon
             01:30 anon is=ann
             02:00 ann",
            expect!["ann started +0s, anon started +0s, ann +60s, online 1"],
        );
    }

    #[test]
    fn event_an_hour_late_starts_no_session() {
        check("60:00 ann\n 00:00 ann\n 60:30 ann", expect!["ann started +0s, ann +0s, ann +30s, online 1"]);
    }

    #[test]
    fn clock_that_was_ahead_stops_neither_sessions_nor_online_counts() {
        const DAYS: u32 = 40 * 86_400;
        let mut players = GameSessions::default();
        let mut observe = |player, at_s, received_s| {
            players.turn_back_if_ahead(received_s);
            let effect = players.observe(player, SessionSignal::Activity, at_s);
            (effect.started, effect.play_s, players.online(received_s))
        };
        assert_eq!(observe(1, 600_000, 600_000), (true, 0, 1));
        assert_eq!(observe(2, 600_000 + DAYS, 600_000 + DAYS), (true, 0, 1));
        assert_eq!(observe(2, 600_060, 600_060), (false, 0, 1), "its session goes on");
        assert_eq!(observe(2, 600_070, 600_070), (false, 10, 1));
        assert_eq!(observe(1, 600_080, 600_080), (true, 0, 2));
        assert_eq!(observe(3, 599_000, 600_090), (true, 0, 2), "a late event is not a clock that went back");
        assert_eq!(observe(1, 600_100, 600_100), (false, 20, 2));
    }

    #[test]
    fn idle_players_are_evicted() {
        let mut players = GameSessions::default();
        (0..1000).for_each(|player| {
            players.observe(player, SessionSignal::Activity, 600_000);
        });
        players.observe(5, SessionSignal::Activity, 601_000);
        players.observe(7, SessionSignal::Activity, 602_400);
        assert_eq!(players.tracked_players(), 2);
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, u8, u32)>> {
        prop::collection::vec((0u64..6, 0u8..6, 0u32..900), 0..60)
    }

    fn play(sessions: &mut Sessions, steps: &[(u64, u8, u32)], at_s: &mut u32) -> Vec<SessionEffect> {
        let signal = |signal| {
            [SessionSignal::Start, SessionSignal::End]
                .get(signal as usize)
                .copied()
                .unwrap_or(SessionSignal::Activity)
        };
        let step = |(player, kind, after_s): &(u64, u8, u32)| {
            *at_s += after_s;
            if *kind == 5 && *player > 2 {
                sessions.game(1).link(*player, *player - 3);
                return SessionEffect::default();
            }
            sessions.game(1).observe(*player, signal(*kind), *at_s)
        };
        steps.iter().map(step).collect()
    }

    proptest! {
        #[test]
        fn restored_snapshot_behaves_like_the_original(before in steps(), after in steps()) {
            let (mut sessions, mut at_s) = (Sessions::default(), 600_000);
            play(&mut sessions, &before, &mut at_s);
            let mut restored = Sessions::restore(&sessions.snapshot()).unwrap();
            prop_assert_eq!(&restored, &sessions);
            let mut restored_at_s = at_s;
            let expected = play(&mut sessions, &after, &mut at_s);
            prop_assert_eq!(play(&mut restored, &after, &mut restored_at_s), expected);
            prop_assert_eq!(restored.online(1, at_s), sessions.online(1, at_s));
        }

        #[test]
        fn online_matches_a_recount_of_the_last_three_minutes(steps in steps()) {
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
        fn any_bytes_are_restored_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Sessions::restore(&bytes);
        }
    }
}
