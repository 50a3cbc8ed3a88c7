//! From what was touched to the channels that read it.
//!
//! Whoever applies the log looks here, once for each metric and minute that it added to. Games and metrics that nobody
//! watches are not found, and that is all they cost.

use std::collections::HashMap;
use std::sync::Arc;

use liveops::Touched;
use model::deltas::Deltas;
use model::query::is_event;

use pipeline::interest::Interest;

use super::channel::Channel;

/// The channels of every game that are watched, by what they read.
#[derive(Default)]
pub(super) struct Routes {
    games: HashMap<u32, OfGame>,
}

type Channels = Vec<Arc<Channel>>;

#[derive(Default)]
struct OfGame {
    metrics: HashMap<String, Channels>,
    every_event: Channels,
    everything: Channels,
    vars: Channels,
    boards: HashMap<String, Channels>,
    feeds: HashMap<String, Channels>,
}

impl Routes {
    pub fn add(&mut self, channel: &Arc<Channel>) {
        let game = self.games.entry(channel.game.number).or_default();
        for route in channel.routes() {
            let channels = game.channels(route);
            // A query may read a metric twice.
            if !channels.iter().any(|other| Arc::ptr_eq(other, channel)) {
                channels.push(Arc::clone(channel));
            }
        }
    }

    pub fn remove(&mut self, channel: &Arc<Channel>) {
        let Some(game) = self.games.get_mut(&channel.game.number) else { return };
        for route in channel.routes() {
            game.channels(route).retain(|other| !Arc::ptr_eq(other, channel));
        }
        game.forget_empty();
        if game.is_empty() {
            self.games.remove(&channel.game.number);
        }
    }

    /// Gives each channel that reads what was added, with the minute.
    pub fn applied(&self, deltas: &Deltas, mut touch: impl FnMut(&Arc<Channel>, u32)) {
        if self.games.is_empty() {
            return;
        }
        // What is touched of one game mostly stands together.
        let mut last: Option<(u32, Option<&OfGame>)> = None;
        for touched in deltas.changed_metrics() {
            let game = match last {
                Some((number, game)) if number == touched.game => game,
                _ => self.games.get(&touched.game),
            };
            last = Some((touched.game, game));
            let Some(game) = game else { continue };
            let of_metric = game.metrics.get(touched.metric).into_iter().flatten();
            of_metric.chain(&game.everything).for_each(|channel| touch(channel, touched.minute));
            if !game.every_event.is_empty() && is_event(touched.metric) {
                game.every_event.iter().for_each(|channel| touch(channel, touched.minute));
            }
        }
    }

    /// Gives each channel that reads what a command changed. Whom a post concerns is another question.
    pub fn decided(&self, game: u32, touched: &Touched, touch: impl FnMut(&Arc<Channel>)) {
        let Some(game) = self.games.get(&game) else { return };
        let channels = match touched {
            Touched::Vars => Some(&game.vars),
            Touched::Board(table) => game.boards.get(table),
            Touched::Follows(player) => game.feeds.get(player),
            Touched::Erased(_) => Some(&game.everything),
            Touched::Posted(_) => None,
        };
        channels.into_iter().flatten().for_each(touch);
    }

    /// Those whose feeds are watched, with their channels.
    pub fn feeds(&self, game: u32) -> impl Iterator<Item = (&String, &Channels)> {
        self.games.get(&game).into_iter().flat_map(|game| &game.feeds)
    }
}

impl OfGame {
    fn channels(&mut self, route: &Interest) -> &mut Channels {
        match route {
            Interest::Metric(name) => self.metrics.entry(name.clone()).or_default(),
            Interest::EveryEvent => &mut self.every_event,
            Interest::Everything => &mut self.everything,
            Interest::Vars => &mut self.vars,
            Interest::Board(table) => self.boards.entry(table.clone()).or_default(),
            Interest::Feed(player) => self.feeds.entry(player.clone()).or_default(),
        }
    }

    fn forget_empty(&mut self) {
        for by_name in [&mut self.metrics, &mut self.boards, &mut self.feeds] {
            by_name.retain(|_, channels| !channels.is_empty());
        }
    }

    fn is_empty(&self) -> bool {
        let by_name = [&self.metrics, &self.boards, &self.feeds];
        let lists = [&self.every_event, &self.everything, &self.vars];
        by_name.iter().all(|by_name| by_name.is_empty()) && lists.iter().all(|list| list.is_empty())
    }
}
