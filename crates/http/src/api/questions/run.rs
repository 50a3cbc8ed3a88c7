//! Runs questions over raw events: up to date, within the bounds of queries, until the client leaves.

use std::future::Future;
use std::sync::Arc;

use archive::Snapshot;
use archive::questions::answer::AsOf;
use archive::questions::players::PlayerLinks;
use archive::questions::{Cohorts, Context, Progress};
use hyper::http::request::Parts;
use model::query::QueryStopped;
use pipeline::catalog::Access;
use pipeline::cohorts::CohortFailure;
use pipeline::time::now_ms;

use crate::AppState;
use crate::api::query::{run_bounded, stopped_problem};
use crate::api::questions::question_problem;
use crate::client_stream::ClientPresence;
use crate::problem::Problem;

/// What a question is asked of.
pub(in crate::api) struct Events<'a> {
    /// The events, and the bounds of the question.
    pub(in crate::api) context: Context<'a>,
    /// The same events, with the names of their properties.
    pub(in crate::api) snapshot: &'a Snapshot,
    /// The moment up to which an answer is complete.
    pub(in crate::api) as_of: AsOf,
    /// The seed of the hashes of the game's players.
    pub(in crate::api) seed: u64,
}

/// Runs `ask` over everything that was acknowledged before, on a thread for queries, with the players of these cohorts.
pub(in crate::api) async fn over_events<T: Send + 'static>(
    shared: &Arc<AppState>,
    access: &Access,
    cohorts: Vec<String>,
    ask: impl FnOnce(&Events<'_>) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (offset, now_ms) = (shared.log.durable_until(), now_ms());
    // Identity links are among the views.
    shared.views.caught_up(offset).await?;
    let game = Arc::clone(&access.game);
    // Before the snapshot: an erasure that ends in between has changed what the snapshot reads.
    let hidden = shared.archiver.players_in_erasure(game.number);
    let snapshot = shared.archiver.snapshot(game.number, offset).await?;
    let views = Arc::clone(&shared.views);
    run_bounded(shared, game.number, move |control| {
        let links = views.identities.game(game.number);
        let mut context = Context {
            source: &snapshot,
            control,
            progress: &Progress::default(),
            links: &links.map_or_else(PlayerLinks::default, |links| PlayerLinks::new(&links)).hiding(hidden),
            cohorts: &Cohorts::default(),
            now_ms,
            tz: &game.tz,
        };
        let mut players = Cohorts::default();
        for name in cohorts {
            // A cohort that does not exist is an error of the question, which knows the field.
            let found = views.cohort_players(game.number, &name, &context, offset).map_err(cohort_problem)?;
            players.extend(found.map(|found| (name, found)));
        }
        context.cohorts = &players;
        let as_of = AsOf { offset, time_ms: now_ms, events_since_ms: snapshot.events_since() };
        ask(&Events { context, snapshot: &snapshot, as_of, seed: views.seeds.of(game.number) })
    })
    .await
}

fn cohort_problem(failure: CohortFailure) -> Problem {
    match failure {
        CohortFailure::Evaluation(failure) => question_problem(failure),
        CohortFailure::TooLarge { .. } => Problem::limit_reached(failure.to_string()).field("cohort"),
    }
}

/// Waits for an answer. The question is cancelled when the client closes the connection.
pub(in crate::api) async fn until_client_leaves<T>(
    head: &Parts,
    answer: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    match head.extensions.get::<ClientPresence>() {
        None => answer.await,
        Some(presence) => tokio::select! {
            answer = answer => answer,
            () = presence.wait_until_left() => Err(stopped_problem(QueryStopped::Cancelled)),
        },
    }
}
