//! Pages of live-ops: the first page of a leaderboard, the newest items of a feed.
//!
//! Pages are small, so a changed page is sent in full.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use liveops::LiveOps;
use liveops::boards::{BoardQuery, BoardViewer, BoardWindow};
use liveops::feed::FeedMode;
use pipeline::interest::Interest;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::dirty_minutes::DirtyMinutes;
use crate::document_builder::DocumentBuilder;
use crate::documents::{Document, DocumentFields, JsonText};
use crate::source::{ComputeContext, ComputeMoment, TopicSource, Update};

/// A page that can be subscribed to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PageTopic {
    /// The first page of a leaderboard.
    Board {
        /// The name of the board.
        table: String,
        /// The window; `None`: the longest window of the board.
        window: Option<BoardWindow>,
        /// The number of rows.
        per_page: u32,
        /// Newest first instead of best first.
        newest: bool,
        /// Only runs with these values.
        filter: Vec<(String, String)>,
        /// `None`: the viewer may see all boards. Otherwise the access code of a private board, or an empty string.
        code: Option<String>,
    },
    /// The newest items of a player's feed.
    Feed {
        /// The player.
        player: String,
        /// The number of items.
        n: usize,
    },
}

impl PageTopic {
    /// Returns the parameters of the page as JSON.
    pub(crate) fn description(&self) -> Value {
        match self {
            PageTopic::Board { table, window, per_page, newest, filter, .. } => {
                let filter: BTreeMap<_, _> = filter.iter().cloned().collect();
                let window = window.map(BoardWindow::label);
                json!({ "table": table, "window": window, "per_page": per_page, "newest": newest, "filter": filter })
            }
            PageTopic::Feed { player, .. } => json!({ "player": player }),
        }
    }

    /// Returns the data that the page reads.
    pub(crate) fn interest(&self) -> Interest {
        match self {
            PageTopic::Board { table, .. } => Interest::Board(table.clone()),
            PageTopic::Feed { player, .. } => Interest::Feed(player.clone()),
        }
    }

    /// Returns the name of the topic.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            PageTopic::Board { .. } => "board",
            PageTopic::Feed { .. } => "feed",
        }
    }

    /// Returns the current page as JSON.
    fn read(&self, liveops: &LiveOps, game: u32, now_ms: i64) -> Result<String, String> {
        match self {
            PageTopic::Board { table, .. } => self.read_board(table, liveops, game, now_ms),
            PageTopic::Feed { player, n } => read_feed(player, *n, liveops, game),
        }
    }

    fn read_board(&self, table: &str, liveops: &LiveOps, game: u32, now_ms: i64) -> Result<String, String> {
        let PageTopic::Board { window, per_page, newest, filter, code, .. } = self else {
            unreachable!("only called for boards");
        };
        let query = BoardQuery {
            window: *window,
            per_page: *per_page,
            newest: *newest,
            filter: filter.iter().cloned().collect(),
            ..BoardQuery::default()
        };
        let asks = match code {
            None => BoardViewer::All,
            Some(code) => BoardViewer::Public((!code.is_empty()).then_some(code)),
        };
        let game = liveops.game(game);
        if game.read().boards.needs_advance(table, now_ms) {
            game.write().boards.advance(table, now_ms);
        }
        let game = game.read();
        let page = game.boards.page(table, asks, &query, now_ms).map_err(|refusal| refusal.detail)?;
        serde_json::to_string(&page).map_err(|error| error.to_string())
    }
}

fn read_feed(player: &str, n: usize, liveops: &LiveOps, game: u32) -> Result<String, String> {
    let game = liveops.game(game);
    let game = game.read();
    let page = game.feed.page(player, FeedMode::Latest, n, None).map_err(|error| error.to_string())?;
    let page = page.ok_or("there is no such page")?;
    serde_json::to_string(&page).map_err(|error| error.to_string())
}

/// Computes the topics `board` and `feed`. Holds the page that was last published.
pub(crate) struct PageSource {
    builder: DocumentBuilder,
    page: PageTopic,
    moment: ComputeMoment,
    /// The page as JSON, or why there is none.
    content: Result<String, String>,
}

impl PageSource {
    pub(crate) fn new(page: &PageTopic, builder: DocumentBuilder) -> PageSource {
        let (page, moment, content) = (page.clone(), ComputeMoment::default(), Err(String::new()));
        PageSource { builder, page, moment, content }
    }
}

impl TopicSource for PageSource {
    fn update(&mut self, context: &ComputeContext<'_>, dirty: &DirtyMinutes) -> Update {
        if dirty.is_empty() && self.moment.is_in_minute_of(context) {
            return Update::Unchanged;
        }
        self.moment = context.moment();
        let content = self.page.read(&context.views.liveops, context.game.number, context.now_ms);
        if content == self.content {
            return Update::Unchanged;
        }
        self.content = content;
        Update::Replaced(self.full_state())
    }

    /// Rolling windows and days of a board move with the clock.
    fn due_ms(&self) -> Option<i64> {
        matches!(self.page, PageTopic::Board { .. }).then(|| self.moment.next_minute_ms())
    }

    fn full_state(&self) -> Bytes {
        let fields = match &self.content {
            Ok(json) => json[1..json.len() - 1].to_owned(),
            Err(why) => format!(r#""error":{}"#, Value::from(why.as_str())),
        };
        Bytes::from(format!(r#""topic":"{}",{fields}"#, self.page.label()))
    }

    fn documents(&mut self) -> Vec<Arc<Document>> {
        match &self.content {
            Ok(json) => row_documents(json, &self.builder),
            Err(why) => self.builder.error(why),
        }
    }

    fn is_ranked(&self) -> bool {
        true
    }
}

/// The list in a page.
#[derive(Deserialize)]
struct PageRows<'a> {
    /// The rows of a board, or the items of a feed.
    #[serde(borrow, alias = "items")]
    rows: Vec<BTreeMap<&'a str, &'a RawValue>>,
}

/// Returns a document for each row of a board, with an id made from its player, or for each item of a feed. A player may
/// have several rows.
fn row_documents(page: &str, builder: &DocumentBuilder) -> Vec<Arc<Document>> {
    let page: PageRows<'_> = serde_json::from_str(page).expect("a page has rows or items");
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let documents = page.rows.iter().map(|row| {
        let name = row.get("id").or_else(|| row.get("player")).map_or("\"\"", |value| value.get());
        let nth = counts.entry(name).or_default();
        *nth += 1;
        let fields: DocumentFields =
            row.iter().map(|(name, value)| ((*name).to_owned().into(), JsonText::raw(value.get()))).collect();
        builder.document(format_args!("{nth}/{}", &name[1..name.len() - 1]), fields)
    });
    documents.collect()
}
