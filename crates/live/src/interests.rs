//! The index from changed data to the channels that read it.
//!
//! The applier looks up each metric and minute it added to, once. Games and metrics without subscribers are not in the
//! index, so the lookup is all they cost.

use std::collections::HashMap;
use std::sync::Arc;

use liveops::Touched;
use model::deltas::Deltas;
use model::query::is_event;
use pipeline::interest::Interest;

use crate::channel::Channel;

/// The channels that have subscribers, by game and interest.
#[derive(Default)]
pub(crate) struct Interests {
    games: HashMap<u32, GameInterests>,
}

type ChannelList = Vec<Arc<Channel>>;

#[derive(Default)]
struct GameInterests {
    metrics: HashMap<String, ChannelList>,
    every_event: ChannelList,
    everything: ChannelList,
    vars: ChannelList,
    alerts: ChannelList,
    boards: HashMap<String, ChannelList>,
    feeds: HashMap<String, ChannelList>,
}

impl Interests {
    pub(crate) fn add(&mut self, channel: &Arc<Channel>) {
        let game = self.games.entry(channel.game.number).or_default();
        for interest in channel.interests() {
            let channels = game.channels(interest);
            // A query may read a metric twice.
            if !channels.iter().any(|other| Arc::ptr_eq(other, channel)) {
                channels.push(Arc::clone(channel));
            }
        }
    }

    pub(crate) fn remove(&mut self, channel: &Arc<Channel>) {
        let Some(game) = self.games.get_mut(&channel.game.number) else { return };
        for interest in channel.interests() {
            game.channels(interest).retain(|other| !Arc::ptr_eq(other, channel));
        }
        game.remove_empty();
        if game.is_empty() {
            self.games.remove(&channel.game.number);
        }
    }

    /// Calls `changed` with each channel that reads applied data, and the minute of that data.
    pub(crate) fn for_each_applied(&self, deltas: &Deltas, mut changed: impl FnMut(&Arc<Channel>, u32)) {
        if self.games.is_empty() {
            return;
        }
        // Entries of one game mostly follow each other, so the last lookup is kept.
        let mut last: Option<(u32, Option<&GameInterests>)> = None;
        for touched in deltas.changed_metrics() {
            let game = match last {
                Some((number, game)) if number == touched.game => game,
                _ => self.games.get(&touched.game),
            };
            last = Some((touched.game, game));
            let Some(game) = game else { continue };
            let of_metric = game.metrics.get(touched.metric).into_iter().flatten();
            of_metric.chain(&game.everything).for_each(|channel| changed(channel, touched.minute));
            if !game.every_event.is_empty() && is_event(touched.metric) {
                game.every_event.iter().for_each(|channel| changed(channel, touched.minute));
            }
        }
    }

    /// Calls `changed` with each channel that reads data that a command changed. Posts are not included: their channels
    /// depend on the actor's followers.
    pub(crate) fn for_each_decided(&self, game: u32, touched: &Touched, changed: impl FnMut(&Arc<Channel>)) {
        let Some(game) = self.games.get(&game) else { return };
        let channels = match touched {
            Touched::Vars => Some(&game.vars),
            Touched::Board(table) => game.boards.get(table),
            Touched::Follows(player) => game.feeds.get(player),
            Touched::Erased(_) => Some(&game.everything),
            Touched::Alerts => Some(&game.alerts),
            Touched::Posted(_) | Touched::Cohorts => None,
        };
        channels.into_iter().flatten().for_each(changed);
    }

    /// Returns the players whose feeds have subscribers, with their channels.
    pub(crate) fn feeds(&self, game: u32) -> impl Iterator<Item = (&String, &ChannelList)> {
        self.games.get(&game).into_iter().flat_map(|game| &game.feeds)
    }
}

impl GameInterests {
    fn channels(&mut self, interest: &Interest) -> &mut ChannelList {
        match interest {
            Interest::Metric(name) => self.metrics.entry(name.clone()).or_default(),
            Interest::EveryEvent => &mut self.every_event,
            Interest::Everything => &mut self.everything,
            Interest::Vars => &mut self.vars,
            Interest::Alerts => &mut self.alerts,
            Interest::Board(table) => self.boards.entry(table.clone()).or_default(),
            Interest::Feed(player) => self.feeds.entry(player.clone()).or_default(),
        }
    }

    fn remove_empty(&mut self) {
        for by_name in [&mut self.metrics, &mut self.boards, &mut self.feeds] {
            by_name.retain(|_, channels| !channels.is_empty());
        }
    }

    fn is_empty(&self) -> bool {
        let by_name = [&self.metrics, &self.boards, &self.feeds];
        let lists = [&self.every_event, &self.everything, &self.vars, &self.alerts];
        by_name.iter().all(|by_name| by_name.is_empty()) && lists.iter().all(|list| list.is_empty())
    }
}
