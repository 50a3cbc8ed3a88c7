//! The topics that can be subscribed to.

use liveops::vars::VarsViewer;
use model::query::Query;
use pipeline::catalog::Game;
use pipeline::interest::Interest;
use pipeline::query::request;
use serde_json::{Value, json};

use crate::document_builder::DocumentBuilder;
use crate::source::TopicSource;
use crate::topics::{self, PageTopic, PersonalVars};

/// The topic of a subscription. Equal topics share a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Players online.
    Online,
    /// The most recent events with their outcomes.
    Events,
    /// Ingest accounting.
    Load,
    /// Running flows.
    Flows,
    /// The alert rules with their states.
    Alerts,
    /// The result of a query.
    Query(Box<Query>),
    /// The game variables, as evaluated for one viewer.
    Vars(Box<VarsViewer>),
    /// A page of a leaderboard or of a feed.
    Page(Box<PageTopic>),
}

impl Topic {
    pub(crate) fn source(&self) -> Box<dyn TopicSource> {
        let builder = self.document_builder();
        match self {
            Topic::Online => Box::new(topics::OnlineSource::new(builder)),
            Topic::Events => Box::new(topics::EventsSource::new(builder)),
            Topic::Load => Box::new(topics::LoadSource::new(builder)),
            Topic::Flows => Box::new(topics::FlowsSource::new(builder)),
            Topic::Alerts => Box::new(topics::AlertsSource::new(builder)),
            Topic::Query(query) => Box::new(topics::QuerySource::new(query, builder)),
            Topic::Vars(_) => Box::new(topics::VarsSource::default()),
            Topic::Page(page) => Box::new(topics::PageSource::new(page, builder)),
        }
    }

    /// Returns the name of the publication.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Topic::Online => "online",
            Topic::Events => "events",
            Topic::Load => "load",
            Topic::Flows => "flows",
            Topic::Alerts => "alerts",
            Topic::Query(_) => "query",
            Topic::Vars(_) => "vars",
            Topic::Page(page) => page.label(),
        }
    }

    /// Returns the parameters of the topic as JSON. A game's variables are one channel, without parameters.
    pub(crate) fn description(&self) -> Value {
        match self {
            Topic::Online | Topic::Events | Topic::Load | Topic::Flows | Topic::Alerts | Topic::Vars(_) => {
                json!({})
            }
            Topic::Query(query) => request::to_json(query),
            Topic::Page(page) => page.description(),
        }
    }

    /// Returns the data that the topic reads. Variables, alerts and pages change by commands, the others by events.
    pub(crate) fn interests(&self, game: &Game) -> Vec<Interest> {
        match self {
            Topic::Online | Topic::Events | Topic::Load => vec![Interest::Everything],
            Topic::Query(query) => topics::query_interests(query, game),
            Topic::Flows => Vec::new(),
            Topic::Alerts => vec![Interest::Alerts],
            Topic::Vars(_) => vec![Interest::Vars],
            Topic::Page(page) => vec![page.interest()],
        }
    }

    /// Splits the topic into the part that all subscribers share and the part that is computed for each of them. A query
    /// without a time zone gets the zone of the game, so that it is another topic after the game's zone has changed.
    pub(crate) fn into_shared(self, game: &Game) -> (Topic, Option<PersonalVars>) {
        match self {
            Topic::Query(mut query) => {
                query.tz.get_or_insert_with(|| game.tz.clone());
                (Topic::Query(query), None)
            }
            Topic::Vars(viewer) => {
                let builder = Topic::Vars(viewer.clone()).document_builder();
                (Topic::Vars(Box::default()), Some(PersonalVars::new(game.number, *viewer, builder)))
            }
            topic => (topic, None),
        }
    }

    fn document_builder(&self) -> DocumentBuilder {
        DocumentBuilder::new(self)
    }
}
