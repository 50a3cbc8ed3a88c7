//! `GET /metrics`: figures in Prometheus' text format.
//!
//! Open to this machine; from elsewhere, and behind a proxy, it wants a secret key with the scope `admin`. Labels come
//! from closed sets and from the games' ids, never from what clients send.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use hyper::header::{CONTENT_TYPE, HeaderMap};

use crate::AppState;
use crate::api::commands::Local;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use collect::Collector;
use pipeline::catalog::Scope;
use pipeline::time::{now_ms, now_s};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/metrics", routing::get(get))
}

/// Answers with all figures.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "operations", security((), ("secret_key" = [])),
    responses((status = 200, description = "Figures in Prometheus' text format.", body = String, content_type = "text/plain")),
)]
pub async fn get(
    State(shared): State<Arc<AppState>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let from_here = peer.ip().to_canonical().is_loopback() && !shared.settings.behind_proxy;
    if !from_here {
        let access = auth::by_key(&shared.catalog, &headers, None, now_s())?;
        auth::allow(access.ok_or_else(|| Problem::key("send `Authorization: Bearer KEY`"))?, Scope::Admin)?;
    }
    let text = Text::default().events(&shared).log(&shared).views(&shared).flows(&shared).collectors(&shared);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], text.0).into_response())
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn one(mut self, name: &str, kind: &str, help: &str, value: u64) -> Text {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
        self
    }

    fn events(mut self, shared: &AppState) -> Text {
        self.family("playmeter_events_total", "counter", "Events by outcome, since the start.");
        let counts = shared.views.accounting.since_start();
        for (count, value) in &counts {
            let Some(game) = shared.catalog.game_by_number(count.game) else { continue };
            let (endpoint, outcome) = (count.endpoint.label(), count.outcome().label());
            let reason = count.reject.map_or("", |reject| reject.label());
            let labels = format!(
                "game=\"{}\",endpoint=\"{endpoint}\",outcome=\"{outcome}\",reason=\"{reason}\"",
                game.id
            );
            let _ = writeln!(self.0, "playmeter_events_total{{{labels}}} {value}");
        }
        self.family(
            "playmeter_requests_refused_total",
            "counter",
            "Whole ingest requests refused, by status.",
        );
        for (status, count) in shared.requests.by_status() {
            let _ = writeln!(self.0, "playmeter_requests_refused_total{{status=\"{status}\"}} {count}");
        }
        self.quotas(shared);
        self
    }

    fn flows(mut self, shared: &AppState) -> Text {
        let figures = shared.flows.metrics();
        let totals = figures.totals;
        self.family("playmeter_flow_packets_total", "counter", "Packets and reports of flows, by outcome.");
        let outcomes =
            [("counted", totals.counted), ("straggler", totals.stragglers), ("refused", totals.rejected)];
        for (outcome, count) in outcomes {
            let _ = writeln!(self.0, "playmeter_flow_packets_total{{outcome=\"{outcome}\"}} {count}");
        }
        self.one("playmeter_flows", "gauge", "Flows in memory.", figures.flows)
            .one("playmeter_flows_opened_total", "counter", "Flows that were opened.", totals.opened)
            .one("playmeter_flows_ended_total", "counter", "Flows that have ended.", totals.ended)
            .one(
                "playmeter_flows_untold_total",
                "counter",
                "Events of flows that were given up.",
                figures.unreported,
            )
            .one(
                "playmeter_rtcp_malformed_total",
                "counter",
                "Datagrams that were no RTCP.",
                figures.malformed,
            )
            .one("playmeter_rtcp_unknown_total", "counter", "RTCP packets of other types.", figures.unknown)
    }

    fn quotas(&mut self, shared: &AppState) {
        self.family("playmeter_quota_used_ratio", "gauge", "Used share of the quotas of the day.");
        for (game, quota, ratio) in shared.ingest.used_today(now_ms()) {
            let Some(game) = shared.catalog.game_by_number(game) else { continue };
            let labels = format!("game=\"{}\",quota=\"{quota}\"", game.id);
            let _ = writeln!(self.0, "playmeter_quota_used_ratio{{{labels}}} {ratio}");
        }
    }

    fn collectors(mut self, shared: &AppState) -> Text {
        type Figure = (&'static str, &'static str, &'static str, fn(&Collector) -> u64);
        const FIGURES: [Figure; 6] = [
            ("running", "gauge", "1 while it takes what comes.", |one| u64::from(one.is_running())),
            ("received_total", "counter", "Samples or events, those that were lost among them.", |one| {
                one.counters.received()
            }),
            ("accepted_total", "counter", "Of these, what was written.", |one| one.counters.accepted.get()),
            ("bytes_total", "counter", "Bytes that were read.", |one| one.counters.bytes.get()),
            ("kernel_drops_total", "counter", "Packets that the kernel had no room for.", |one| {
                one.counters.kernel_drops.get()
            }),
            ("connections", "gauge", "Open connections.", |one| one.counters.connections.get()),
        ];
        for (name, kind, help, figure) in FIGURES {
            self.family(&format!("playmeter_collector_{name}"), kind, help);
            for collector in shared.collectors.all() {
                let (label, value) = (&collector.settings.name, figure(collector));
                let _ = writeln!(self.0, "playmeter_collector_{name}{{collector=\"{label}\"}} {value}");
            }
        }
        self
    }

    fn log(self, shared: &AppState) -> Text {
        let (log, stats) = (&shared.log, shared.log.stats());
        self.one("playmeter_log_first_offset", "gauge", "The first offset still kept.", log.first())
            .one(
                "playmeter_log_durable_offset",
                "counter",
                "Everything before it is durable.",
                log.durable_until(),
            )
            .one("playmeter_log_disk_bytes", "gauge", "Size of all segments.", stats.disk_bytes)
            .one("playmeter_log_queued_bytes", "gauge", "Waiting or being written.", stats.queued_bytes)
            .one("playmeter_log_full", "gauge", "1 while the disk has no room.", stats.full.into())
            .one("playmeter_log_damaged", "gauge", "Damaged places found.", log.damage().len() as u64)
    }

    fn views(self, shared: &AppState) -> Text {
        let counters = &shared.views.counters;
        self.one(
            "playmeter_applied_offset",
            "counter",
            "The views contain all before it.",
            counters.applied_until(),
        )
        .one(
            "playmeter_checkpoint_offset",
            "counter",
            "Views on disk contain all before it.",
            counters.durable_until(),
        )
        .one(
            "playmeter_subscriptions",
            "gauge",
            "Different subscriptions being watched.",
            shared.live.channel_count() as u64,
        )
    }
}
