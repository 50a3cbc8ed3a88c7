//! The erasure of a player: decided at once, carried out in the background, and confirmed by a receipt that does not
//! name the player.
//!
//! 1. *Requested*: nothing that can be read contains the player. The ids are kept to find the player in the log.
//! 2. *Erased*: the log no longer contains the player, and the ids are removed, too.
//! 3. *Purged*: the files of the store do not contain the player either.
//!
//! Each step is a command, so that the work continues after a crash.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{IdentityLink, Players};
use crate::game::{CommandContext, Game, Touched};
use crate::names::check_player;
use crate::subject::{RecordError, RecordWriter};
use crate::{CommandResponse, Refusal};

/// The time after which no disk contains the player.
pub const ERASURE_WITHIN_MS: i64 = 24 * 3600 * 1000;
/// Erasures of a game in progress; beyond it new ones are refused.
const IN_PROGRESS_MAX: usize = 10_000;
/// Receipts kept per game; beyond it the oldest are removed.
const RECEIPTS_MAX: usize = 100_000;

/// Counts of the log entries that an erasure changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErasedCounts {
    /// Events from which the player's ids were removed.
    pub events: u64,
    /// Commands that were emptied.
    pub commands: u64,
}

/// The progress of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasureStage {
    /// No response contains the player.
    #[serde(rename = "asked")]
    Requested,
    /// The log does not contain the player.
    Erased,
    /// No file contains the player.
    Purged,
}

/// An erasure in progress or complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// The progress.
    pub stage: ErasureStage,
    /// The offset of the command that requested it: later entries are not erased.
    pub offset: u64,
    /// The player's ids, while they are needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Counts of the changed log entries.
    #[serde(default)]
    pub found: ErasedCounts,
    /// The time of completion, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_ms: Option<i64>,
}

/// The proof of an export or an erasure, without the player's ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The time of the request, in milliseconds since 1970.
    pub at_ms: i64,
    /// The erasure; `None` for an export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Erasure>,
}

impl Receipt {
    fn is_in_progress(&self) -> bool {
        self.erasure.as_ref().is_some_and(|erasure| erasure.stage != ErasureStage::Purged)
    }
}

/// Receipts by their random ids.
#[derive(Default)]
pub(super) struct Receipts {
    all: BTreeMap<String, Receipt>,
    in_progress: usize,
    /// By time, oldest first.
    order: BTreeSet<(i64, String)>,
    changed: Vec<String>,
}

impl Receipts {
    fn add(&mut self, id: String, receipt: Receipt) {
        if self.order.len() >= RECEIPTS_MAX {
            let is_over = |(_, id): &&(i64, String)| !self.all[id].is_in_progress();
            let oldest = self
                .order
                .iter()
                .find(is_over)
                .cloned()
                .expect("receipts in progress are fewer than the limit");
            self.order.remove(&oldest);
            self.all.remove(&oldest.1);
            self.changed.push(oldest.1);
        }
        self.changed.push(id.clone());
        self.insert(id, receipt);
    }

    fn insert(&mut self, id: String, receipt: Receipt) {
        self.in_progress += usize::from(receipt.is_in_progress());
        self.order.insert((receipt.at_ms, id.clone()));
        self.all.insert(id, receipt);
    }

    fn erasure(&mut self, id: &str) -> Result<&mut Erasure, Refusal> {
        let erasure = self.all.get_mut(id).and_then(|receipt| receipt.erasure.as_mut());
        let erasure = erasure.ok_or_else(|| Refusal::not_found("there is no such erasure"))?;
        self.changed.push(id.to_owned());
        Ok(erasure)
    }

    /// Moves the end of an erasure to `offset` and begins it again.
    fn extend(&mut self, id: &str, offset: u64, ids: Vec<String>) {
        let Ok(erasure) = self.erasure(id) else { return };
        let was_done = erasure.stage == ErasureStage::Purged;
        (erasure.stage, erasure.offset, erasure.done_ms) = (ErasureStage::Requested, offset, None);
        erasure.ids.extend(ids);
        erasure.ids.sort_unstable();
        erasure.ids.dedup();
        self.in_progress += usize::from(was_done);
    }

    pub(super) fn purged(&mut self, id: &str, now_ms: i64) -> Result<CommandResponse, Refusal> {
        let erasure = self.erasure(id)?;
        if erasure.stage == ErasureStage::Erased {
            (erasure.stage, erasure.done_ms) = (ErasureStage::Purged, Some(now_ms));
            self.in_progress -= 1;
        }
        Ok(CommandResponse::no_content())
    }

    pub(super) fn exported(&mut self, id: String, now_ms: i64) -> Result<CommandResponse, Refusal> {
        self.add(id, Receipt { at_ms: now_ms, erasure: None });
        Ok(CommandResponse::no_content())
    }

    pub(super) fn restore(&mut self, id: &str, value: &[u8]) -> Result<(), RecordError> {
        let receipt = serde_json::from_slice(value)?;
        self.insert(id.to_owned(), receipt);
        Ok(())
    }

    pub(super) fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        for id in std::mem::take(&mut self.changed) {
            let key = [b"e/", id.as_bytes()].concat();
            match self.all.get(&id) {
                Some(receipt) => {
                    writer.put(&key, serde_json::to_vec(receipt).expect("numbers and text are JSON"))
                }
                None => writer.remove(&key),
            }
        }
    }
}

impl Players {
    /// Returns the receipt of this id.
    pub fn receipt(&self, id: &str) -> Option<&Receipt> {
        self.receipts.all.get(id)
    }

    /// Returns true if an erasure is in progress.
    pub(crate) fn is_erasing(&self) -> bool {
        self.receipts.in_progress > 0
    }

    /// Returns the offset before which an export must skip the log for a player with these ids.
    pub fn erased_until(&self, ids: &[String]) -> u64 {
        let of = self.erasures().filter(|(_, erasure)| erasure.ids.iter().any(|id| ids.contains(id)));
        of.map(|(_, erasure)| erasure.offset).max().unwrap_or(0)
    }

    /// Returns the erasures in progress, by receipt.
    pub fn erasures(&self) -> impl Iterator<Item = (&str, &Erasure)> {
        let in_progress = self.receipts.all.iter().filter(|(_, receipt)| receipt.is_in_progress());
        in_progress.filter_map(|(id, receipt)| Some((id.as_str(), receipt.erasure.as_ref()?)))
    }
}

/// The response to an erasure request. The server converts times to text.
#[derive(Serialize)]
struct EraseResponse<'a> {
    receipt: &'a str,
    invisible_ms: i64,
    gone_by_ms: i64,
}

/// The part of a stored response that names the erasure.
#[derive(Deserialize)]
struct FirstResponse {
    receipt: String,
}

impl Game {
    pub(super) fn erase(
        &mut self,
        context: &mut CommandContext<'_>,
        receipt: String,
        player: &str,
        links: &[IdentityLink],
    ) -> Result<CommandResponse, Refusal> {
        check_player("player", player)?;
        if self.players.receipts.in_progress >= IN_PROGRESS_MAX {
            return Err(Refusal::too_many(format!(
                "{IN_PROGRESS_MAX} erasures are already in progress; try again when some are complete"
            )));
        }
        let ids = self.erase_ids(context, player, links);
        let at_ms = context.at.ms;
        let response =
            EraseResponse { receipt: &receipt, invisible_ms: at_ms, gone_by_ms: at_ms + ERASURE_WITHIN_MS };
        let answer = CommandResponse { status: 202, json: json!(response).to_string() };
        let (stage, offset) = (ErasureStage::Requested, context.at.offset);
        let erasure = Erasure { stage, offset, ids, found: ErasedCounts::default(), done_ms: None };
        self.players.receipts.add(receipt, Receipt { at_ms, erasure: Some(erasure) });
        Ok(answer)
    }

    /// Erases all ids of a player from the state. Returns the ids.
    fn erase_ids(
        &mut self,
        context: &mut CommandContext<'_>,
        player: &str,
        links: &[IdentityLink],
    ) -> Vec<String> {
        let linked = links.iter().flat_map(|link| [&link.anonymous, &link.player]).cloned();
        let mut ids: Vec<String> = linked.chain([player.to_owned()]).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.iter().for_each(|id| self.erase_player(context, id));
        links.iter().for_each(|link| self.players.aliases.remove(link));
        context.touched.push(Touched::Erased(ids.clone()));
        ids
    }

    /// Erases up to a repeated request, too: its log entry names the player as the first one did. `first` is the
    /// response to the first request.
    pub(crate) fn extend_erasure(
        &mut self,
        context: &mut CommandContext<'_>,
        first: &CommandResponse,
        player: &str,
        links: &[IdentityLink],
    ) {
        let receipt: Option<FirstResponse> = serde_json::from_str(&first.json).ok();
        let Some(receipt) = receipt.filter(|it| self.players.receipts.erasure(&it.receipt).is_ok()) else {
            return;
        };
        let ids = self.erase_ids(context, player, links);
        self.players.receipts.extend(&receipt.receipt, context.at.offset, ids);
    }

    /// Removes the ids, and the last place that has them: the stored response to the request. Does nothing but count if
    /// the request was repeated after `until`.
    pub(super) fn erased(
        &mut self,
        receipt: &str,
        found: ErasedCounts,
        until: u64,
    ) -> Result<CommandResponse, Refusal> {
        let erasure = self.players.receipts.erasure(receipt)?;
        if erasure.stage == ErasureStage::Requested {
            erasure.found.events += found.events;
            erasure.found.commands += found.commands;
        }
        if until > 0 && until < erasure.offset {
            return Ok(CommandResponse::no_content());
        }
        let ids = std::mem::take(&mut erasure.ids);
        if erasure.stage == ErasureStage::Requested {
            erasure.stage = ErasureStage::Erased;
        }
        ids.iter().for_each(|id| self.responses.erase_player(id));
        Ok(CommandResponse::no_content())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::ports::counters::StoreError;
    use model::ports::records::{RecordWrite, Records};
    use parking_lot::Mutex;

    use super::*;
    use crate::players::PlayerIdIndex;
    use crate::{
        AppliedCommand, Caller, Command, CommandRef, Idempotency, LiveOps, Principal, encode, players,
    };

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

    /// A board, a score on it, a ban and follows in both directions.
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

        fn apply(&mut self, idempotency: Option<&str>, command: players::PlayerCommand) -> AppliedCommand {
            self.apply_any(idempotency, Command::Players(command))
        }

        fn apply_any(&mut self, idempotency: Option<&str>, command: Command) -> AppliedCommand {
            let by = Principal { caller: Caller::Server, signed: None };
            let key = |key: &str| Idempotency { key: key.to_owned(), request: "same".to_owned() };
            let (idempotency, tz) = (idempotency.map(key), "UTC".to_owned());
            let entry = CommandRef { game: 1, received_ms: NOW, by, tz, idempotency, command, blob: &[] };
            self.log.push(encode(&entry));
            let offset = self.log.len() as u64;
            self.liveops.apply(offset, self.log.last().expect("it was pushed")).expect("a command")
        }

        fn session(&mut self, id: &str, player: &str) {
            let (session, player) = (id.to_owned(), player.to_owned());
            let command = players::PlayerCommand::OpenSession { session, player, name: "Canary".to_owned() };
            assert!(self.apply(Some(&format!("public:{id}")), command).outcome.is_ok());
        }

        fn erase(&mut self, receipt: &str, player: &str) -> AppliedCommand {
            let links = self.liveops.game(1).read().players.links(player).expect("a store");
            let (receipt, player) = (receipt.to_owned(), player.to_owned());
            let command = players::PlayerCommand::Erase { receipt, player: player.clone(), links };
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

        /// Opens the records in a new instance.
        fn restart(&mut self) {
            self.checkpoint();
            let records = Arc::clone(&self.records) as Arc<dyn Records>;
            self.liveops = LiveOps::open(records).expect("the records are valid");
        }

        fn found(&self, text: &str) -> bool {
            let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|it| it == text.as_bytes());
            self.records.0.lock().iter().any(|(key, value)| holds(key) || holds(value))
        }

        fn stage(&self, receipt: &str) -> Option<ErasureStage> {
            let game = self.liveops.game(1);
            let game = game.read();
            Some(game.players.receipt(receipt)?.erasure.as_ref()?.stage)
        }
    }

    #[test]
    fn ids_are_kept_until_the_log_no_longer_contains_them() {
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
        let found = ErasedCounts { events: 5, commands: 2 };
        let erased = players::PlayerCommand::Erased { receipt: "r1".to_owned(), found, until: 0 };
        assert!(bench.apply(None, erased).outcome.is_ok());
        bench.restart();
        assert!(!bench.found("canary-bo") && bench.found("cy"));
        assert_eq!(
            (bench.liveops.games_with_erasures(), bench.stage("r1")),
            (vec![1], Some(ErasureStage::Erased))
        );
        let purged = players::PlayerCommand::Purged { receipt: "r1".to_owned() };
        assert!(bench.apply(None, purged).outcome.is_ok());
        bench.restart();
        assert_eq!(
            (bench.liveops.games_with_erasures(), bench.stage("r1")),
            (vec![], Some(ErasureStage::Purged))
        );
        let game = bench.liveops.game(1);
        let receipt = game.read().players.receipt("r1").cloned().expect("the receipt is kept");
        let erasure = receipt.erasure.expect("it has an erasure");
        assert_eq!((erasure.found, erasure.done_ms, erasure.ids.len()), (found, Some(NOW), 0));
    }

    #[test]
    fn erasure_leaves_no_record_and_reports_changed_topics() {
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
        let erased = players::PlayerCommand::Erased {
            receipt: "r1".to_owned(),
            found: ErasedCounts::default(),
            until: 0,
        };
        assert!(bench.apply(None, erased).outcome.is_ok());
        bench.restart();
        assert!(!bench.found("canary-bo") && bench.found("di"));
        let mut ids = PlayerIdIndex::default();
        ids.add("canary-bo", 0);
        let about =
            bench.log.iter().filter(|it| ids.find_in_command(it).expect("a command").is_some()).count();
        assert_eq!(about, 5, "four activities and the erasure");
    }

    #[test]
    fn erasure_removes_stored_responses_of_the_player_only() {
        let mut bench = Bench::new();
        bench.session("one", "bo");
        bench.session("two", "cy");
        bench.erase("r1", "bo");
        let mut again = |session: &str, player: &str| {
            let (session, player) = (session.to_owned(), player.to_owned());
            let key = format!("public:{session}");
            let command = players::PlayerCommand::OpenSession {
                session: "new".to_owned(),
                player,
                name: String::new(),
            };
            bench.apply(Some(&key), command).outcome.expect("a session").json
        };
        assert!(again("one", "bo").contains("\"new\""));
        assert!(again("two", "cy").contains("\"two\""));
    }

    #[test]
    fn erasure_covers_all_linked_ids() {
        let mut bench = Bench::new();
        for (anonymous, player) in
            [("anon-1", "bo"), ("anon-2", "bo"), ("anon-3", "anon-1"), ("anon-4", "cy")]
        {
            bench.liveops.apply_link(1, anonymous.as_bytes(), player.as_bytes());
        }
        bench.session("one", "anon-3");
        bench.session("two", "anon-4");
        bench.restart();
        bench.liveops.apply_link(1, b"anon-5", b"bo");
        bench.liveops.apply_link(2, b"anon-6", b"bo");
        let applied = bench.erase("r1", "anon-2");
        let ids = ["anon-1", "anon-2", "anon-3", "anon-5", "bo"].map(str::to_owned).to_vec();
        assert_eq!(applied.touched.last(), Some(&Touched::Erased(ids)));
        let game = bench.liveops.game(1);
        assert!(game.read().players.session("one", NOW).is_none());
        assert!(game.read().players.session("two", NOW).is_some());
        assert_eq!(game.read().players.links("bo").expect("a store"), []);
        assert_eq!(game.read().players.links("cy").expect("a store").len(), 1);
        let erased = players::PlayerCommand::Erased {
            receipt: "r1".to_owned(),
            found: ErasedCounts::default(),
            until: 0,
        };
        assert!(bench.apply(None, erased).outcome.is_ok());
        bench.restart();
        assert!(!bench.found("anon-1") && !bench.found("anon-5") && bench.found("anon-4"));
    }

    #[test]
    fn player_is_found_in_commands_by_id_and_by_session() {
        let mut bench = Bench::new();
        bench.session("one", "bo");
        bench.session("two", "cy");
        bench.erase("r1", "bo");
        let mut ids = players::PlayerIdIndex::default();
        ids.add("bo", 7);
        let about: Vec<_> = bench.log.iter().map(|it| ids.find_in_command(it).expect("a command")).collect();
        assert_eq!(about, [Some(7), None, Some(7)]);
        let signed = Some(crate::RequestSignature { session: "one".to_owned(), nonce: "n".to_owned() });
        let by = Principal { caller: Caller::Public, signed };
        let purged = players::PlayerCommand::Purged { receipt: "r1".to_owned() };
        let (command, tz, idempotency) = (Command::Players(purged), "UTC".to_owned(), None);
        let entry =
            encode(&CommandRef { game: 1, received_ms: NOW, by, tz, idempotency, command, blob: &[] });
        assert_eq!(ids.find_in_command(&entry).expect("a command"), Some(7));
        assert_eq!(players::game_of_command(&entry).expect("a command"), 1);
    }

    #[test]
    fn repeated_request_is_erased_too() {
        let mut bench = Bench::new();
        let erase = |bench: &mut Bench, receipt: &str| {
            let (receipt, player) = (receipt.to_owned(), "canary-bo".to_owned());
            let command = players::PlayerCommand::Erase { receipt, player, links: Vec::new() };
            bench.apply(Some("server:a"), command)
        };
        let first = erase(&mut bench, "r1").outcome.expect("it is accepted");
        let erased = |found, until| players::PlayerCommand::Erased { receipt: "r1".to_owned(), found, until };
        let found = ErasedCounts { events: 5, commands: 1 };
        bench.apply(None, erased(found, 1)).outcome.expect("it is in progress");
        bench
            .apply(None, players::PlayerCommand::Purged { receipt: "r1".to_owned() })
            .outcome
            .expect("a receipt");
        assert_eq!(bench.stage("r1"), Some(ErasureStage::Purged));

        // The client did not get the answer. The entry of its second request names the player.
        let repeated = erase(&mut bench, "r2");
        assert_eq!(repeated.outcome.expect("the first answer"), first);
        assert_eq!(repeated.touched.last(), Some(&Touched::Erased(vec!["canary-bo".to_owned()])));
        let offset = bench.log.len() as u64;
        let receipt = |bench: &Bench| {
            let game = bench.liveops.game(1);
            let game = game.read();
            game.players.receipt("r1").and_then(|receipt| receipt.erasure.clone()).expect("an erasure")
        };
        let erasure = receipt(&bench);
        assert_eq!((erasure.stage, erasure.offset), (ErasureStage::Requested, offset));
        assert_eq!((&erasure.ids, erasure.done_ms), (&vec!["canary-bo".to_owned()], None));

        // A pass that began before the repetition does not complete it.
        bench.apply(None, erased(ErasedCounts::default(), 1)).outcome.expect("it is in progress");
        bench
            .apply(None, players::PlayerCommand::Purged { receipt: "r1".to_owned() })
            .outcome
            .expect("a receipt");
        assert_eq!(receipt(&bench).stage, ErasureStage::Requested);
        let found = ErasedCounts { events: 0, commands: 1 };
        bench.apply(None, erased(found, offset)).outcome.expect("it is in progress");
        bench
            .apply(None, players::PlayerCommand::Purged { receipt: "r1".to_owned() })
            .outcome
            .expect("a receipt");
        let erasure = receipt(&bench);
        assert_eq!((erasure.stage, erasure.ids), (ErasureStage::Purged, Vec::new()));
        assert_eq!(erasure.found, ErasedCounts { events: 5, commands: 2 });
        bench.restart();
        assert!(!bench.found("canary-bo"));
        assert!(!bench.liveops.game(1).read().players.is_erasing());
    }

    #[test]
    fn receipts_are_bounded_without_evicting_erasures_in_progress() {
        let mut receipts = Receipts::default();
        let erasure = Erasure {
            stage: ErasureStage::Requested,
            offset: 0,
            ids: vec!["bo".to_owned()],
            found: ErasedCounts::default(),
            done_ms: None,
        };
        receipts.add("first".to_owned(), Receipt { at_ms: 0, erasure: Some(erasure) });
        for n in 0..RECEIPTS_MAX as i64 {
            receipts.exported(format!("{n}"), n).expect("there is room");
        }
        assert_eq!((receipts.all.len(), receipts.in_progress), (RECEIPTS_MAX, 1));
        assert!(receipts.all.contains_key("first") && !receipts.all.contains_key("0"));
    }
}
