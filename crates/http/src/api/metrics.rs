//! `GET /metrics`: metrics in the Prometheus text format.
//!
//! Open to clients on the same machine that address it as such (`localhost`, a loopback address); all others, and all
//! clients behind a proxy, need a secret key with the scope `admin`. Labels come from closed sets and from the ids of games, never from client input.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use collect::Collector;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use pipeline::catalog::{Game, Scope};
use pipeline::ingest::EventNamesUsage;
use pipeline::time::{now_ms, now_s};

use crate::auth::{self, Credentials};
use crate::host;
use crate::problem::Problem;
use crate::request_context::RequestContext;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/metrics", routing::get(get))
}

/// Returns the metrics of the server.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "operations", security((), ("secret_key" = [])),
    responses((status = 200, description = "Metrics in the Prometheus text format.", body = String, content_type = "text/plain")),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    let from_here = !shared.settings.behind_proxy && context.client_address().is_some_and(is_loopback);
    // A browser on this machine also connects from a loopback address. A page of another site that has pointed its name
    // at this machine sends that name.
    if !from_here || !host::is_local(&headers) {
        let access = Credentials::new(headers, None, context).authorize_key(&shared.catalog, now_s())?;
        auth::allow(
            access.ok_or_else(|| Problem::unauthorized("send a key as `Authorization: Bearer KEY`"))?,
            Scope::Admin,
        )?;
    }
    let text = Text::default()
        .events(&shared)
        .log(&shared)
        .views(&shared)
        .flows(&shared)
        .collectors(&shared)
        .backups(&shared)
        .tls(&shared);
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
        self.family("playmeter_events_total", "counter", "Events by outcome.");
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
            "Ingest requests that were rejected as a whole, by status.",
        );
        for (status, count) in shared.rejected_requests.by_status() {
            let _ = writeln!(self.0, "playmeter_requests_refused_total{{status=\"{status}\"}} {count}");
        }
        self.quotas(shared);
        self.event_names(shared);
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
            .one("playmeter_flows_opened_total", "counter", "Flows opened.", totals.opened)
            .one("playmeter_flows_ended_total", "counter", "Flows ended.", totals.ended)
            .one(
                "playmeter_flows_untold_total",
                "counter",
                "Flow events that could not be stored.",
                figures.unreported,
            )
            .one(
                "playmeter_rtcp_malformed_total",
                "counter",
                "Datagrams that are not valid RTCP.",
                figures.malformed,
            )
            .one("playmeter_rtcp_unknown_total", "counter", "RTCP packets of other types.", figures.unknown)
    }

    fn quotas(&mut self, shared: &AppState) {
        self.family("playmeter_quota_used_ratio", "gauge", "Used share of the daily quotas.");
        for (game, quota, ratio) in shared.ingest.used_today(now_ms()) {
            let Some(game) = shared.catalog.game_by_number(game) else { continue };
            let labels = format!("game=\"{}\",quota=\"{quota}\"", game.id);
            let _ = writeln!(self.0, "playmeter_quota_used_ratio{{{labels}}} {ratio}");
        }
    }

    fn event_names(&mut self, shared: &AppState) {
        type Figure = (&'static str, &'static str, &'static str, fn(&EventNamesUsage) -> u64);
        const FIGURES: [Figure; 3] = [
            ("playmeter_event_names", "gauge", "Event names with rows of their own.", |usage| {
                usage.names as u64
            }),
            ("playmeter_event_names_max", "gauge", "The limit of event names.", |usage| {
                usage.names_max as u64
            }),
            ("playmeter_events_other_total", "counter", "Events that count in (other).", |usage| {
                usage.without_place
            }),
        ];
        let usage = |game: &Game| shared.ingest.event_names(game.number, now_ms());
        let games: Vec<_> =
            shared.catalog.games().iter().map(|game| (game.id.clone(), usage(game))).collect();
        for (name, kind, help, figure) in FIGURES {
            self.family(name, kind, help);
            for (game, usage) in &games {
                let _ = writeln!(self.0, "{name}{{game=\"{game}\"}} {}", figure(usage));
            }
        }
    }

    fn collectors(mut self, shared: &AppState) -> Text {
        type Figure = (&'static str, &'static str, &'static str, fn(&Collector) -> u64);
        const FIGURES: [Figure; 8] = [
            ("running", "gauge", "1 while the collector receives.", |one| u64::from(one.is_running())),
            ("failed", "gauge", "1 while the collector has failed and waits to be started again.", |one| {
                u64::from(one.is_failed())
            }),
            ("failures_total", "counter", "Failures since the server started.", Collector::failures),
            ("received_total", "counter", "Samples or events received, including lost ones.", |one| {
                one.counters.received()
            }),
            ("accepted_total", "counter", "Samples or events written.", |one| one.counters.accepted.get()),
            ("bytes_total", "counter", "Bytes read.", |one| one.counters.bytes.get()),
            ("kernel_drops_total", "counter", "Packets dropped by the kernel.", |one| {
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

    fn backups(mut self, shared: &AppState) -> Text {
        let report = shared.backups.report();
        if let Some(success_ms) = report.last_success_ms {
            let (name, help) = (
                "playmeter_backup_last_success_timestamp_seconds",
                "When the newest complete backup was taken, in seconds since 1970.",
            );
            self = self.one(name, "gauge", help, success_ms.max(0) as u64 / 1_000);
        }
        if let Some(last) = &report.last {
            self = self
                .one("playmeter_backup_bytes", "gauge", "Size of the files in the newest backup.", last.bytes)
                .one(
                    "playmeter_backup_written_bytes",
                    "gauge",
                    "Bytes that the newest backup added to its target.",
                    last.new_bytes,
                );
        }
        self.one("playmeter_backups_completed_total", "counter", "Complete backups.", report.completed)
            .one("playmeter_backups_failed_total", "counter", "Failed backups.", report.failures)
            .one(
                "playmeter_backup_failed",
                "gauge",
                "1 if the last backup failed.",
                report.failure.is_some().into(),
            )
            .one(
                "playmeter_backup_running",
                "gauge",
                "1 while a backup runs.",
                shared.backups.is_running().into(),
            )
    }

    fn tls(mut self, shared: &AppState) -> Text {
        let Some(tls) = &shared.tls else { return self };
        let (certificate, counts) = (&tls.certificate, &tls.certificate.handshakes);
        self.family("playmeter_tls_handshakes_total", "counter", "TLS handshakes by outcome.");
        for (outcome, count) in [
            ("completed", &counts.completed),
            ("failed", &counts.failed),
            ("timed_out", &counts.timed_out),
            ("rejected", &counts.rejected),
        ] {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(self.0, "playmeter_tls_handshakes_total{{outcome=\"{outcome}\"}} {count}");
        }
        let expires_s = certificate.expires_s().unwrap_or_default().max(0) as u64;
        self.one(
            "playmeter_tls_certificate_expires_seconds",
            "gauge",
            "When the certificate expires, in seconds since 1970; 0 without a certificate.",
            expires_s,
        )
        .one(
            "playmeter_tls_certificate_failures_total",
            "counter",
            "How often the certificate could not be read again or renewed.",
            certificate.failures(),
        )
        .one(
            "playmeter_tls_certificate_ok",
            "gauge",
            "1 while there is a valid certificate that could be read again or renewed so far.",
            certificate.problem(now_s() as i64).is_none().into(),
        )
    }

    fn log(self, shared: &AppState) -> Text {
        let (log, stats) = (&shared.log, shared.log.stats());
        self.one("playmeter_log_first_offset", "gauge", "First offset in the log.", log.first())
            .one(
                "playmeter_log_durable_offset",
                "gauge",
                "All entries before this offset are durable.",
                log.durable_until(),
            )
            .one("playmeter_log_disk_bytes", "gauge", "Size of all log segments.", stats.disk_bytes)
            .one(
                "playmeter_log_queued_bytes",
                "gauge",
                "Bytes waiting for or being written to the log.",
                stats.queued_bytes,
            )
            .one(
                "playmeter_log_full",
                "gauge",
                "1 while the disk is full.",
                (stats.full || shared.views.space.is_full()).into(),
            )
            .one(
                "playmeter_log_lost_events_total",
                "counter",
                "Events acknowledged with ack=memory that could not be stored afterwards.",
                stats.lost_memory_events,
            )
            .one(
                "playmeter_log_damaged",
                "gauge",
                "Damaged ranges found in the log.",
                log.damage().len() as u64,
            )
    }

    fn views(self, shared: &AppState) -> Text {
        let counters = &shared.views.counters;
        self.one(
            "playmeter_applied_offset",
            "gauge",
            "The views contain all entries before this offset.",
            counters.applied_until(),
        )
        .one(
            "playmeter_checkpoint_offset",
            "gauge",
            "The views on disk contain all entries before this offset.",
            counters.durable_until(),
        )
        .one("playmeter_rollups_memory_bytes", "gauge", "Memory of rollups.", counters.memory().bytes)
        .one("playmeter_rollups_memory_bytes_max", "gauge", "Its budget.", counters.memory().bytes_max)
        .one(
            "playmeter_rollups_memory_waits_total",
            "counter",
            "How often applying the log waited because rollups exceeded their budget.",
            shared.views.memory_waits.load(Ordering::Relaxed),
        )
        .one(
            "playmeter_apply_lag_seconds",
            "gauge",
            "Time since the views were up to date with the log.",
            shared.views.lag().as_secs(),
        )
        .one(
            "playmeter_log_quarantined_entries",
            "gauge",
            "Log entries that are skipped because applying them panicked twice.",
            shared.views.quarantine.skipped().len() as u64,
        )
        .one(
            "playmeter_subscriptions",
            "gauge",
            "Channels with subscribers.",
            shared.live.channel_count() as u64,
        )
    }
}
