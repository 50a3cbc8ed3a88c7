//! What can be watched.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use liveops::vars::VarsViewer;
use model::query::Query;
use serde_json::{Value, json};

use std::sync::Arc;

use super::docs::{Doc, Fields, Id};
use super::topics::{self, Page, Viewer};
use super::touches::Touches;
use pipeline::catalog::Game;
use pipeline::flows::Flows;
use pipeline::interest::Interest;
use pipeline::time::rfc3339;
use pipeline::views::Views;

/// A subscription. Equal ones share a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Players online.
    Online,
    /// The last events with their outcomes.
    Events,
    /// The accounting.
    Load,
    /// Flows that run.
    Flows,
    /// The answer to a question.
    Query(Box<Query>),
    /// The variables, as this one gets them.
    Vars(Box<VarsViewer>),
    /// A page of a board or of a feed.
    Page(Box<Page>),
}

/// What a computation found.
pub(super) enum Update {
    /// Nothing new.
    Same,
    /// These fields of an object have changed.
    Change(Bytes),
    /// These fields of an object, which stand for everything before.
    Whole(Bytes),
    /// Something structural: everyone needs the whole.
    Reset,
}

/// What a channel computes: the state of one topic, as messages and as documents.
pub(super) trait Source: Send {
    /// Computes again, from what was touched since the last time.
    fn advance(&mut self, at: &At<'_>, touched: &Touches) -> Update;

    /// When it changes by itself, in milliseconds since 1970; `None`: never.
    fn due_ms(&self) -> Option<i64> {
        None
    }

    /// How it is computed.
    fn mode(&self) -> Mode {
        Mode::Poll
    }

    /// The whole of what was last computed, as the fields of an object.
    fn whole(&self) -> Bytes;

    /// What was last computed, as documents. Those that are as they were are the same ones as before.
    fn documents(&mut self) -> Vec<Arc<Doc>>;

    /// Whether the order of the documents counts.
    fn is_ranked(&self) -> bool {
        false
    }
}

/// How a change is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only what was touched is read again.
    Incremental,
    /// Everything is read again and compared.
    Poll,
}

impl Mode {
    /// The word in answers.
    pub fn label(self) -> &'static str {
        match self {
            Mode::Incremental => "incremental",
            Mode::Poll => "poll",
        }
    }
}

impl Topic {
    /// What computes it.
    pub(super) fn source(&self) -> Box<dyn Source> {
        let list = self.list();
        match self {
            Topic::Online => Box::new(topics::Online::new(list)),
            Topic::Events => Box::new(topics::Events::new(list)),
            Topic::Load => Box::new(topics::Load::new(list)),
            Topic::Flows => Box::new(topics::Flows::new(list)),
            Topic::Query(query) => Box::new(topics::QuerySource::new(query, list)),
            Topic::Vars(_) => Box::new(topics::Seen::default()),
            Topic::Page(page) => Box::new(topics::Shown::new(page, list)),
        }
    }

    /// Its name as a publication.
    pub fn label(&self) -> &'static str {
        match self {
            Topic::Online => "online",
            Topic::Events => "events",
            Topic::Load => "load",
            Topic::Flows => "flows",
            Topic::Query(_) => "query",
            Topic::Vars(_) => "vars",
            Topic::Page(page) => page.label(),
        }
    }

    /// What of it is watched. Everybody's variables are one.
    pub(super) fn what(&self) -> Value {
        match self {
            Topic::Online | Topic::Events | Topic::Load | Topic::Flows | Topic::Vars(_) => json!({}),
            Topic::Query(query) => pipeline::query::request::to_json(query),
            Topic::Page(page) => page.what(),
        }
    }

    /// What it reads. Variables and pages change by commands, the rest by events.
    pub(super) fn routes(&self, game: &Game) -> Vec<Interest> {
        match self {
            Topic::Online | Topic::Events | Topic::Load => vec![Interest::Everything],
            Topic::Query(query) => topics::routes(query, game),
            Topic::Flows => Vec::new(),
            Topic::Vars(_) => vec![Interest::Vars],
            Topic::Page(page) => vec![page.route()],
        }
    }

    /// What the channel computes for all, and who it is then made out for. A query of the game's time zone is another
    /// one when the game has another zone.
    pub(super) fn shared(self, game: &Game) -> (Topic, Option<Viewer>) {
        match self {
            Topic::Query(mut query) => {
                query.tz.get_or_insert_with(|| game.tz.clone());
                (Topic::Query(query), None)
            }
            Topic::Vars(who) => {
                let list = Topic::Vars(who.clone()).list();
                (Topic::Vars(Box::default()), Some(Viewer::new(game.number, *who, list)))
            }
            topic => (topic, None),
        }
    }

    /// The list that its documents belong to.
    pub(super) fn list(&self) -> List {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        List(format!("{:x}", hasher.finish()))
    }
}

/// Makes the ids of documents differ from those of every other topic.
#[derive(Clone, Debug)]
pub(super) struct List(String);

impl List {
    pub fn id(&self, row: impl std::fmt::Display) -> Id {
        format!("{}/{row}", self.0).into()
    }

    pub fn doc(&self, row: impl std::fmt::Display, fields: impl Into<Fields>) -> Arc<Doc> {
        Arc::new(Doc { id: self.id(row), fields: fields.into() })
    }

    /// There is nothing to show, and why.
    pub fn failed(&self, why: &str) -> Vec<Arc<Doc>> {
        vec![self.object("error", &json!({ "error": why }))]
    }

    /// A document of an object's fields.
    pub fn object(&self, row: impl std::fmt::Display, object: &Value) -> Arc<Doc> {
        self.doc(row, object.as_object().map(Fields::of).unwrap_or_default())
    }
}

/// The moment of a computation, and what it reads.
pub(super) struct At<'a> {
    pub views: &'a Views,
    pub flows: &'a Flows,
    pub game: &'a Game,
    pub ms: i64,
    /// The end of the log that is included at least.
    pub position: u64,
}

impl<'a> At<'a> {
    pub fn new(views: &'a Views, flows: &'a Flows, game: &'a Game, ms: i64) -> At<'a> {
        At { views, flows, game, ms, position: views.counters.applied_until() }
    }

    /// The moment, to be kept with what was computed.
    pub fn moment(&self) -> Moment {
        Moment { ms: self.ms, position: self.position }
    }
}

/// When something was computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    pub ms: i64,
    pub position: u64,
}

impl Moment {
    pub fn is_in_minute_of(&self, at: &At<'_>) -> bool {
        self.ms / 60_000 == at.ms / 60_000
    }

    /// When the minute is over.
    pub fn next_minute_ms(&self) -> i64 {
        (self.ms / 60_000 + 1) * 60_000
    }

    /// When the second is over.
    pub fn next_second_ms(&self) -> i64 {
        (self.ms / 1000 + 1) * 1000
    }

    pub fn as_of(&self) -> Value {
        json!({ "time": rfc3339(self.ms), "position": format!("0/{}", self.position) })
    }
}

/// The text of an object without its braces.
pub(super) fn fields(object: &Value) -> Bytes {
    inner(object.to_string().as_bytes())
}

pub(super) fn inner(object: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&object[1..object.len() - 1])
}

pub(super) fn failed(moment: &Moment, message: &str) -> Bytes {
    fields(&json!({ "as_of": moment.as_of(), "error": message }))
}
