//! How a player is forgotten: decided at once, carried out behind the log, and proved by a receipt that names nobody.
//!
//! 1. *Asked*: everything that is read has forgotten the player; the ids are kept, to find them in the log.
//! 2. *Erased*: the log holds nothing of the player any more, and the ids are forgotten, too.
//! 3. *Purged*: the store's files hold nothing any more, either.
//!
//! Each step is a command, so after a crash the work goes on where it was.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Link, Players};
use crate::game::{Context, Game, Touched};
use crate::names::check_player;
use crate::subject::{Changes, Damaged};
use crate::{Answer, Refusal};

/// Within this time nothing is left on any disk.
pub const GONE_WITHIN_MS: i64 = 24 * 3600 * 1000;
/// Erasures of a game that are under way; beyond it new ones are refused.
const UNDER_WAY_MAX: usize = 10_000;
/// Receipts kept per game; beyond it the oldest are forgotten.
const RECEIPTS_MAX: usize = 100_000;

/// What was found of a player in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Events that no longer name the player.
    pub events: u64,
    /// Commands that were emptied.
    pub commands: u64,
}

/// How far an erasure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nobody can read anything of the player.
    Asked,
    /// The log holds nothing of the player.
    Erased,
    /// No file does.
    Purged,
}

/// An erasure, under way or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// How far it is.
    pub stage: Stage,
    /// The offset of the command that asked for it: what came later is another story.
    pub offset: u64,
    /// The player's ids, as long as they are needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// What was found in the log.
    #[serde(default)]
    pub found: Found,
    /// When it was done, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_ms: Option<i64>,
}

/// What proves that a player was given out or forgotten, without saying who.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// When it was asked for, milliseconds since 1970.
    pub at_ms: i64,
    /// `None`: an export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Erasure>,
}

impl Receipt {
    fn is_under_way(&self) -> bool {
        self.erasure.as_ref().is_some_and(|erasure| erasure.stage != Stage::Purged)
    }
}

/// Receipts by their random ids.
#[derive(Default)]
pub(super) struct Receipts {
    all: BTreeMap<String, Receipt>,
    under_way: usize,
    /// By time, oldest first.
    order: BTreeSet<(i64, String)>,
    changed: Vec<String>,
}

impl Receipts {
    fn add(&mut self, id: String, receipt: Receipt) {
        if self.order.len() >= RECEIPTS_MAX {
            let is_over = |(_, id): &&(i64, String)| !self.all[id].is_under_way();
            let oldest = self.order.iter().find(is_over).cloned().expect("few are under way");
            self.order.remove(&oldest);
            self.all.remove(&oldest.1);
            self.changed.push(oldest.1);
        }
        self.changed.push(id.clone());
        self.take(id, receipt);
    }

    fn take(&mut self, id: String, receipt: Receipt) {
        self.under_way += usize::from(receipt.is_under_way());
        self.order.insert((receipt.at_ms, id.clone()));
        self.all.insert(id, receipt);
    }

    fn erasure(&mut self, id: &str) -> Result<&mut Erasure, Refusal> {
        let erasure = self.all.get_mut(id).and_then(|receipt| receipt.erasure.as_mut());
        let erasure = erasure.ok_or_else(|| Refusal::not_found("there is no such erasure"))?;
        self.changed.push(id.to_owned());
        Ok(erasure)
    }

    pub(super) fn purged(&mut self, id: &str, now_ms: i64) -> Result<Answer, Refusal> {
        let erasure = self.erasure(id)?;
        if erasure.stage == Stage::Erased {
            (erasure.stage, erasure.done_ms) = (Stage::Purged, Some(now_ms));
            self.under_way -= 1;
        }
        Ok(Answer::nothing())
    }

    pub(super) fn exported(&mut self, id: String, now_ms: i64) -> Result<Answer, Refusal> {
        self.add(id, Receipt { at_ms: now_ms, erasure: None });
        Ok(Answer::nothing())
    }

    pub(super) fn restore(&mut self, id: &str, value: &[u8]) -> Result<(), Damaged> {
        let receipt = serde_json::from_slice(value)?;
        self.take(id.to_owned(), receipt);
        Ok(())
    }

    pub(super) fn changes(&mut self, changes: &mut Changes<'_>) {
        for id in std::mem::take(&mut self.changed) {
            let key = [b"e/", id.as_bytes()].concat();
            match self.all.get(&id) {
                Some(receipt) => {
                    changes.put(&key, serde_json::to_vec(receipt).expect("numbers and text are JSON"))
                }
                None => changes.remove(&key),
            }
        }
    }
}

impl Players {
    /// The receipt of this id.
    pub fn receipt(&self, id: &str) -> Option<&Receipt> {
        self.receipts.all.get(id)
    }

    /// Whether an erasure is under way.
    pub fn is_erasing(&self) -> bool {
        self.receipts.under_way > 0
    }

    /// The offset before which the log says nothing about a player of these ids to anybody who asks.
    pub fn forgotten_until(&self, ids: &[String]) -> u64 {
        let of = self.erasures().filter(|(_, erasure)| erasure.ids.iter().any(|id| ids.contains(id)));
        of.map(|(_, erasure)| erasure.offset).max().unwrap_or(0)
    }

    /// The erasures that are under way, by receipt.
    pub fn erasures(&self) -> impl Iterator<Item = (&str, &Erasure)> {
        let under_way = self.receipts.all.iter().filter(|(_, receipt)| receipt.is_under_way());
        under_way.filter_map(|(id, receipt)| Some((id.as_str(), receipt.erasure.as_ref()?)))
    }
}

/// What an erasure is answered with; the door writes times as text.
#[derive(Serialize)]
struct Asked<'a> {
    receipt: &'a str,
    invisible_ms: i64,
    gone_by_ms: i64,
}

impl Game {
    pub(super) fn erase(
        &mut self,
        context: &mut Context<'_>,
        receipt: String,
        player: &str,
        links: &[Link],
    ) -> Result<Answer, Refusal> {
        check_player("player", player)?;
        if self.players.receipts.under_way >= UNDER_WAY_MAX {
            return Err(Refusal::too_many(format!("{UNDER_WAY_MAX} erasures are under way; wait for some")));
        }
        let linked = links.iter().flat_map(|link| [&link.anonymous, &link.player]).cloned();
        let mut ids: Vec<String> = linked.chain([player.to_owned()]).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.iter().for_each(|id| self.erase_player(context, id));
        links.iter().for_each(|link| self.players.aliases.remove(link));
        context.touched.push(Touched::Erased(ids.clone()));
        let at_ms = context.at.ms;
        let asked = Asked { receipt: &receipt, invisible_ms: at_ms, gone_by_ms: at_ms + GONE_WITHIN_MS };
        let answer = Answer { status: 202, json: json!(asked).to_string() };
        let (stage, offset) = (Stage::Asked, context.at.offset);
        let erasure = Erasure { stage, offset, ids, found: Found::default(), done_ms: None };
        self.players.receipts.add(receipt, Receipt { at_ms, erasure: Some(erasure) });
        Ok(answer)
    }

    /// The ids are forgotten with the last that mentions them: the answer to the request that asked for it.
    pub(super) fn erased(&mut self, receipt: &str, found: Found) -> Result<Answer, Refusal> {
        let erasure = self.players.receipts.erasure(receipt)?;
        let ids = std::mem::take(&mut erasure.ids);
        if erasure.stage == Stage::Asked {
            (erasure.stage, erasure.found) = (Stage::Erased, found);
        }
        ids.iter().for_each(|id| self.answers.erase_player(id));
        Ok(Answer::nothing())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::ports::counters::StoreError;
    use model::ports::records::{RecordWrite, Records};
    use parking_lot::Mutex;

    use super::*;
    use crate::players::Traces;
    use crate::{Applied, By, Caller, Command, CommandRef, Idempotency, LiveOps, encode, players};

    const NOW: i64 = 1_800_000_000_000;

    #[derive(Default)]
    struct Memory(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

    impl Records for Memory {
        fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.0.lock().get(key).cloned())
        }

        fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
            let records = self.0.lock();
            let wanted = records.iter().filter(|(key, _)| key.starts_with(prefix));
            wanted.for_each(|(key, value)| visit(key, value));
            Ok(())
        }
    }

    /// A board, a score on it, a ban, a level's rating, a follower.
    fn everything(player: &str) -> Vec<Command> {
        let json =
            |json: String| serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        vec![
            json(r#"{"boards": {"define": {"table": "fast", "change": {"mode": "open"}}}}"#.to_owned()),
            json(format!(
                r#"{{"boards": {{"submit": {{"table": "fast", "score": {{"player": "{player}", "name": "Canary", "score": "7"}}}}}}}}"#
            )),
            json(format!(r#"{{"boards": {{"ban": {{"player": "{player}", "reason": "cheats"}}}}}}"#)),
            json(format!(r#"{{"feed": {{"follow": {{"player": "cy", "other": "{player}"}}}}}}"#)),
            json(format!(r#"{{"feed": {{"follow": {{"player": "{player}", "other": "cy"}}}}}}"#)),
        ]
    }

    struct Bench {
        records: Arc<Memory>,
        liveops: LiveOps,
        log: Vec<Vec<u8>>,
    }

    impl Bench {
        fn new() -> Bench {
            let records = Arc::new(Memory::default());
            let liveops = LiveOps::open(Arc::clone(&records) as Arc<dyn Records>).expect("it is empty");
            Bench { records, liveops, log: Vec::new() }
        }

        fn apply(&mut self, idempotency: Option<&str>, command: players::Command) -> Applied {
            self.apply_any(idempotency, Command::Players(command))
        }

        fn apply_any(&mut self, idempotency: Option<&str>, command: Command) -> Applied {
            let by = By { caller: Caller::Server, signed: None };
            let key = |key: &str| Idempotency { key: key.to_owned(), request: "same".to_owned() };
            let (idempotency, tz) = (idempotency.map(key), "UTC".to_owned());
            let entry = CommandRef { game: 1, received_ms: NOW, by, tz, idempotency, command, blob: &[] };
            self.log.push(encode(&entry));
            let offset = self.log.len() as u64;
            self.liveops.apply(offset, self.log.last().expect("it was pushed")).expect("a command")
        }

        fn session(&mut self, id: &str, player: &str) {
            let (session, player) = (id.to_owned(), player.to_owned());
            let command = players::Command::OpenSession { session, player, name: "Canary".to_owned() };
            assert!(self.apply(Some(&format!("public:{id}")), command).outcome.is_ok());
        }

        fn erase(&mut self, receipt: &str, player: &str) -> Applied {
            let links = self.liveops.game(1).read().players.links(player).expect("a store");
            let (receipt, player) = (receipt.to_owned(), player.to_owned());
            let command = players::Command::Erase { receipt, player: player.clone(), links };
            self.apply(Some(&format!("server:erase {player}")), command)
        }

        fn checkpoint(&mut self) {
            for RecordWrite { key, value } in self.liveops.changes() {
                let mut records = self.records.0.lock();
                match value {
                    Some(value) => drop(records.insert(key, value)),
                    None => drop(records.remove(&key)),
                }
            }
        }

        /// The records go on in another process.
        fn restart(&mut self) {
            self.checkpoint();
            let records = Arc::clone(&self.records) as Arc<dyn Records>;
            self.liveops = LiveOps::open(records).expect("what was written");
        }

        fn found(&self, text: &str) -> bool {
            let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|it| it == text.as_bytes());
            self.records.0.lock().iter().any(|(key, value)| holds(key) || holds(value))
        }

        fn stage(&self, receipt: &str) -> Option<Stage> {
            let game = self.liveops.game(1);
            let game = game.read();
            Some(game.players.receipt(receipt)?.erasure.as_ref()?.stage)
        }
    }

    #[test]
    fn the_ids_are_kept_until_the_log_is_free_of_them_and_no_longer() {
        let mut bench = Bench::new();
        bench.session("one", "canary-bo");
        bench.session("two", "cy");
        bench.checkpoint();
        assert!(bench.found("canary-bo"));
        let applied = bench.erase("r1", "canary-bo");
        assert_eq!(applied.touched.last(), Some(&Touched::Erased(vec!["canary-bo".to_owned()])));
        assert_eq!(
            applied.outcome.expect("it is accepted").json,
            r#"{"gone_by_ms":1800086400000,"invisible_ms":1800000000000,"receipt":"r1"}"#
        );
        bench.restart();
        let game = bench.liveops.game(1);
        assert!(game.read().players.session("one", NOW).is_none());
        assert!(game.read().players.session("two", NOW).is_some());
        let erasing = |bench: &Bench| {
            let game = bench.liveops.game(1);
            let game = game.read();
            game.players
                .erasures()
                .map(|(id, it)| (id.to_owned(), it.offset, it.ids.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(erasing(&bench), [("r1".to_owned(), 3, vec!["canary-bo".to_owned()])]);
        let found = Found { events: 5, commands: 2 };
        let erased = players::Command::Erased { receipt: "r1".to_owned(), found };
        assert!(bench.apply(None, erased).outcome.is_ok());
        bench.restart();
        assert!(!bench.found("canary-bo") && bench.found("cy"));
        assert_eq!((bench.liveops.erasing(), bench.stage("r1")), (vec![1], Some(Stage::Erased)));
        let purged = players::Command::Purged { receipt: "r1".to_owned() };
        assert!(bench.apply(None, purged).outcome.is_ok());
        bench.restart();
        assert_eq!((bench.liveops.erasing(), bench.stage("r1")), (vec![], Some(Stage::Purged)));
        let game = bench.liveops.game(1);
        let receipt = game.read().players.receipt("r1").cloned().expect("it stays");
        let erasure = receipt.erasure.expect("it is of an erasure");
        assert_eq!((erasure.found, erasure.done_ms, erasure.ids.len()), (found, Some(NOW), 0));
    }

    #[test]
    fn of_everything_that_a_player_did_no_record_is_left_and_watchers_are_told() {
        let mut bench = Bench::new();
        for command in everything("canary-bo").into_iter().chain(everything("di")) {
            let applied = bench.apply_any(None, command.clone());
            assert!(applied.outcome.is_ok(), "{command:?}: {applied:?}");
        }
        bench.restart();
        assert!(bench.found("canary-bo") && bench.liveops.game(1).read().boards.is_banned("canary-bo"));
        let applied = bench.erase("r1", "canary-bo");
        for touched in [Touched::Board("fast".to_owned()), Touched::Posted("canary-bo".to_owned())] {
            assert!(applied.touched.contains(&touched), "{:?}", applied.touched);
        }
        let erased = players::Command::Erased { receipt: "r1".to_owned(), found: Found::default() };
        assert!(bench.apply(None, erased).outcome.is_ok());
        bench.restart();
        assert!(!bench.found("canary-bo") && bench.found("di"));
        let mut traces = Traces::default();
        traces.add("canary-bo", 0);
        let about = bench.log.iter().filter(|it| traces.in_command(it).expect("a command").is_some()).count();
        assert_eq!(about, 5, "four deeds and the erasure");
    }

    #[test]
    fn answers_about_the_player_are_forgotten_and_others_are_not() {
        let mut bench = Bench::new();
        bench.session("one", "bo");
        bench.session("two", "cy");
        bench.erase("r1", "bo");
        let mut again = |session: &str, player: &str| {
            let (session, player) = (session.to_owned(), player.to_owned());
            let key = format!("public:{session}");
            let command =
                players::Command::OpenSession { session: "new".to_owned(), player, name: String::new() };
            bench.apply(Some(&key), command).outcome.expect("a session").json
        };
        assert!(again("one", "bo").contains("\"new\""));
        assert!(again("two", "cy").contains("\"two\""));
    }

    #[test]
    fn all_ids_that_turned_out_to_be_one_player_go_together() {
        let mut bench = Bench::new();
        for (anonymous, player) in
            [("anon-1", "bo"), ("anon-2", "bo"), ("anon-3", "anon-1"), ("anon-4", "cy")]
        {
            bench.liveops.linked(1, anonymous.as_bytes(), player.as_bytes());
        }
        bench.session("one", "anon-3");
        bench.session("two", "anon-4");
        bench.restart();
        bench.liveops.linked(1, b"anon-5", b"bo");
        bench.liveops.linked(2, b"anon-6", b"bo");
        let applied = bench.erase("r1", "anon-2");
        let ids = ["anon-1", "anon-2", "anon-3", "anon-5", "bo"].map(str::to_owned).to_vec();
        assert_eq!(applied.touched.last(), Some(&Touched::Erased(ids)));
        let game = bench.liveops.game(1);
        assert!(game.read().players.session("one", NOW).is_none());
        assert!(game.read().players.session("two", NOW).is_some());
        assert_eq!(game.read().players.links("bo").expect("a store"), []);
        assert_eq!(game.read().players.links("cy").expect("a store").len(), 1);
        let erased = players::Command::Erased { receipt: "r1".to_owned(), found: Found::default() };
        assert!(bench.apply(None, erased).outcome.is_ok());
        bench.restart();
        assert!(!bench.found("anon-1") && !bench.found("anon-5") && bench.found("anon-4"));
    }

    #[test]
    fn a_command_is_about_a_player_whom_it_names_or_whose_session_sent_it() {
        let mut bench = Bench::new();
        bench.session("one", "bo");
        bench.session("two", "cy");
        bench.erase("r1", "bo");
        let mut traces = players::Traces::default();
        traces.add("bo", 7);
        let about: Vec<_> = bench.log.iter().map(|it| traces.in_command(it).expect("a command")).collect();
        assert_eq!(about, [Some(7), None, Some(7)]);
        let signed = Some(crate::Signed { session: "one".to_owned(), nonce: "n".to_owned() });
        let by = By { caller: Caller::Public, signed };
        let purged = players::Command::Purged { receipt: "r1".to_owned() };
        let (command, tz, idempotency) = (Command::Players(purged), "UTC".to_owned(), None);
        let entry =
            encode(&CommandRef { game: 1, received_ms: NOW, by, tz, idempotency, command, blob: &[] });
        assert_eq!(traces.in_command(&entry).expect("a command"), Some(7));
        assert_eq!(players::game_of(&entry).expect("a command"), 1);
    }

    #[test]
    fn receipts_are_bounded_and_erasures_under_way_are_never_the_ones_that_go() {
        let mut receipts = Receipts::default();
        let erasure = Erasure {
            stage: Stage::Asked,
            offset: 0,
            ids: vec!["bo".to_owned()],
            found: Found::default(),
            done_ms: None,
        };
        receipts.add("first".to_owned(), Receipt { at_ms: 0, erasure: Some(erasure) });
        for n in 0..RECEIPTS_MAX as i64 {
            receipts.exported(format!("{n}"), n).expect("there is room");
        }
        assert_eq!((receipts.all.len(), receipts.under_way), (RECEIPTS_MAX, 1));
        assert!(receipts.all.contains_key("first") && !receipts.all.contains_key("0"));
    }
}
