//! Pages of live-ops that can be watched: of a board, of a feed.
//!
//! A page is small and is sent whole when it is another than before.

use bytes::Bytes;
use liveops::boards::{Asks, Query, Window};
use liveops::feed::Mode;
use liveops::{LiveOps, Touched};

/// Which page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// The first page of a board.
    Board {
        /// The board.
        table: String,
        /// None: the longest that it has.
        window: Option<Window>,
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
    /// Whether what a command changed can change it.
    pub(super) fn follows(&self, liveops: &LiveOps, game: u32, touched: &Touched) -> bool {
        match (self, touched) {
            (Page::Board { table, .. }, Touched::Board(other)) => table == other,
            (Page::Feed { player, .. }, Touched::Follows(other)) => player == other,
            (Page::Feed { player, .. }, Touched::Posted(actor)) => {
                let game = liveops.game(game);
                let game = game.read();
                game.feed.is_following(player, actor)
            }
            _ => false,
        }
    }

    /// The page as it is now, as the fields of a JSON object.
    pub(super) fn fields(&self, liveops: &LiveOps, game: u32, now_ms: i64) -> Bytes {
        let read = match self {
            Page::Board { table, .. } => self.board(table, liveops, game, now_ms),
            Page::Feed { player, n } => feed(player, *n, liveops, game),
        };
        let topic = match self {
            Page::Board { .. } => "board",
            Page::Feed { .. } => "feed",
        };
        let inner = match &read {
            Ok(json) => json[1..json.len() - 1].to_owned(),
            Err(why) => format!(r#""error":{}"#, serde_json::Value::from(why.as_str())),
        };
        Bytes::from(format!(r#""topic":"{topic}",{inner}"#))
    }

    fn board(&self, table: &str, liveops: &LiveOps, game: u32, now_ms: i64) -> Result<String, String> {
        let Page::Board { window, per_page, newest, filter, code, .. } = self else {
            unreachable!("the caller has a board");
        };
        let query = Query {
            window: *window,
            per_page: *per_page,
            newest: *newest,
            filter: filter.iter().cloned().collect(),
            ..Query::default()
        };
        let asks = match code {
            None => Asks::All,
            Some(code) => Asks::Public((!code.is_empty()).then_some(code)),
        };
        let game = liveops.game(game);
        if game.read().boards.is_elsewhere(table, now_ms) {
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
    let page = game.feed.page(player, Mode::Latest, n, None).map_err(|error| error.to_string())?;
    let page = page.ok_or("there is no such page")?;
    serde_json::to_string(&page).map_err(|error| error.to_string())
}
