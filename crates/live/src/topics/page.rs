//! Pages of live-ops that can be watched: of a board, of a feed.
//!
//! A page is small and is sent whole when it is another than before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use liveops::LiveOps;
use liveops::boards::{BoardQuery, BoardViewer, BoardWindow};
use liveops::feed::FeedMode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::docs::{Doc, Fields, Json};
use crate::topic::{At, List, Moment, Source, Update};
use crate::touches::Touches;
use pipeline::interest::Interest;

/// Which page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// The first page of a board.
    Board {
        /// The board.
        table: String,
        /// None: the longest that it has.
        window: Option<BoardWindow>,
        /// Rows.
        per_page: u32,
        /// Newest first instead of best first.
        newest: bool,
        /// Only runs with these values.
        filter: Vec<(String, String)>,
        /// `None`: somebody who may see all. Otherwise the code that a private board is listed by; empty: none.
        code: Option<String>,
    },
    /// The newest of what those did whom a player follows.
    Feed {
        /// Whose feed.
        player: String,
        /// Items.
        n: usize,
    },
}

impl Page {
    /// Which page, as it is asked for.
    pub(crate) fn what(&self) -> Value {
        match self {
            Page::Board { table, window, per_page, newest, filter, .. } => {
                let filter: BTreeMap<_, _> = filter.iter().cloned().collect();
                let window = window.map(BoardWindow::label);
                json!({ "table": table, "window": window, "per_page": per_page, "newest": newest, "filter": filter })
            }
            Page::Feed { player, .. } => json!({ "player": player }),
        }
    }

    /// What changes it.
    pub(crate) fn route(&self) -> Interest {
        match self {
            Page::Board { table, .. } => Interest::Board(table.clone()),
            Page::Feed { player, .. } => Interest::Feed(player.clone()),
        }
    }

    /// The page as it is now, as JSON.
    fn read(&self, liveops: &LiveOps, game: u32, now_ms: i64) -> Result<String, String> {
        match self {
            Page::Board { table, .. } => self.board(table, liveops, game, now_ms),
            Page::Feed { player, n } => feed(player, *n, liveops, game),
        }
    }

    /// The name of its topic.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Page::Board { .. } => "board",
            Page::Feed { .. } => "feed",
        }
    }

    fn board(&self, table: &str, liveops: &LiveOps, game: u32, now_ms: i64) -> Result<String, String> {
        let Page::Board { window, per_page, newest, filter, code, .. } = self else {
            unreachable!("the caller has a board");
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

fn feed(player: &str, n: usize, liveops: &LiveOps, game: u32) -> Result<String, String> {
    let game = liveops.game(game);
    let game = game.read();
    let page = game.feed.page(player, FeedMode::Latest, n, None).map_err(|error| error.to_string())?;
    let page = page.ok_or("there is no such page")?;
    serde_json::to_string(&page).map_err(|error| error.to_string())
}

/// What was last published of a page.
pub(crate) struct Shown {
    list: List,
    page: Page,
    moment: Moment,
    read: Result<String, String>,
}

impl Shown {
    pub fn new(page: &Page, list: List) -> Shown {
        Shown { list, page: page.clone(), moment: Moment::default(), read: Err(String::new()) }
    }
}

impl Source for Shown {
    fn advance(&mut self, at: &At<'_>, touched: &Touches) -> Update {
        if touched.is_empty() && self.moment.is_in_minute_of(at) {
            return Update::Same;
        }
        self.moment = at.moment();
        let read = self.page.read(&at.views.liveops, at.game.number, at.ms);
        if read == self.read {
            return Update::Same;
        }
        self.read = read;
        Update::Whole(self.whole())
    }

    /// Rolling windows and days move with the clock.
    fn due_ms(&self) -> Option<i64> {
        matches!(self.page, Page::Board { .. }).then(|| self.moment.next_minute_ms())
    }

    fn whole(&self) -> Bytes {
        let inner = match &self.read {
            Ok(json) => json[1..json.len() - 1].to_owned(),
            Err(why) => format!(r#""error":{}"#, Value::from(why.as_str())),
        };
        Bytes::from(format!(r#""topic":"{}",{inner}"#, self.page.label()))
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        match &self.read {
            Ok(json) => documents(json, &self.list),
            Err(why) => self.list.failed(why),
        }
    }

    fn is_ranked(&self) -> bool {
        true
    }
}

/// What a page lists.
#[derive(Deserialize)]
struct Listed<'a> {
    /// Of a board, or of a feed.
    #[serde(borrow, alias = "items")]
    rows: Vec<BTreeMap<&'a str, &'a RawValue>>,
}

/// A document for each row of a board, named by its player, or for each item of a feed. A player may have several rows.
fn documents(page: &str, list: &List) -> Vec<Arc<Doc>> {
    let listed: Listed<'_> = serde_json::from_str(page).expect("pages are written with their rows");
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let named = listed.rows.iter().map(|row| {
        let name = row.get("id").or_else(|| row.get("player")).map_or("\"\"", |value| value.get());
        let nth = seen.entry(name).or_default();
        *nth += 1;
        let fields: Fields =
            row.iter().map(|(name, value)| ((*name).to_owned().into(), Json::raw(value.get()))).collect();
        list.doc(format_args!("{nth}/{}", &name[1..name.len() - 1]), fields)
    });
    named.collect()
}
