use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use pipeline::catalog::Catalog;

use super::*;
use crate::{CollectorSettings, Decoder, Transport, UdpSettings};

fn collector() -> Arc<Collector> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (catalog, _) = Catalog::open(folder.path(), 0).expect("a new catalog");
    let listen = ([127, 0, 0, 1], 0).into();
    let settings = CollectorSettings {
        name: "one".into(),
        transport: Transport::Udp(UdpSettings { listen, receive_buffer_bytes: 1 << 16 }),
        decoder: Decoder::Statsd,
        game: None,
        tags: Vec::new(),
    };
    Arc::new(Collector::open(settings, 0, &catalog, 1).expect("a free port"))
}

/// The first wait of the tests.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// Runs attempts that end as `ends` says, one after the other, and then one that runs until it is stopped. Returns the
/// waits before them, as multiples of the first wait, rounded down to quarters; and the states during the last attempt
/// and after the stop.
async fn supervise_attempts(ends: &'static [&'static str]) -> (Vec<f64>, [CollectorState; 2]) {
    let (collector, count) = (collector(), Arc::new(AtomicUsize::new(0)));
    let (starts, mut start_receiver) = tokio::sync::mpsc::unbounded_channel();
    let (stop, stopping) = watch::channel(false);
    let attempt = {
        let collector = Arc::clone(&collector);
        move |stop: watch::Receiver<bool>| {
            let (collector, starts) = (Arc::clone(&collector), starts.clone());
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move {
                collector.set_running();
                let _ = starts.send(Instant::now());
                run(ends.get(number).copied(), stop).await
            }
        }
    };
    let supervisor = tokio::spawn(supervise(Arc::clone(&collector), FIRST_WAIT.into(), stopping, attempt));
    let mut last = start_receiver.recv().await.expect("a first start");
    let mut waits = Vec::new();
    for end in ends {
        let next = start_receiver.recv().await.expect("it is started again");
        let ran = if *end == "fail later" { 5 * FIRST_WAIT } else { Duration::ZERO };
        let wait = next.duration_since(last).saturating_sub(ran);
        waits.push((wait.as_secs_f64() / FIRST_WAIT.as_secs_f64() * 4.0).floor() / 4.0);
        last = next;
    }
    let state_before_stop = collector.status.lock().state;
    stop.send_replace(true);
    supervisor.await.expect("the supervisor does not panic");
    let state_after_stop = collector.status.lock().state;
    (waits, [state_before_stop, state_after_stop])
}

async fn run(end: Option<&str>, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    match end {
        // A panic without the panic hook: printing a backtrace would take longer than the waits of these tests.
        Some("panic") => std::panic::resume_unwind(Box::new("injected fault")),
        Some("fail later") => sleep(5 * FIRST_WAIT).await,
        Some(_) => {}
        None => {
            wait_for_stop(&mut stop).await;
            return Ok(());
        }
    }
    Err(anyhow!("injected fault"))
}

/// Checks the minimum of each wait: a busy machine waits longer, never shorter.
async fn check(ends: &'static [&'static str], waits_min: &[f64]) {
    let (waits, states) = supervise_attempts(ends).await;
    assert!(waits.iter().zip(waits_min).all(|(wait, min)| wait >= min), "{waits:?}, at least {waits_min:?}");
    let expected_states = [CollectorState::Running, CollectorState::Stopped];
    assert_eq!((waits.len(), states), (waits_min.len(), expected_states));
}

#[tokio::test]
async fn failed_or_panicked_collector_restarts_after_growing_waits() {
    check(&["fail", "panic", "fail"], &[1.0, 1.5, 2.25]).await;
}

#[tokio::test]
async fn failure_after_a_long_run_restarts_after_the_first_wait() {
    check(&["fail", "fail", "fail later", "fail"], &[1.0, 1.5, 1.0, 1.5]).await;
}

#[tokio::test]
async fn workers_stop_and_report_the_failure_when_one_of_them_fails() {
    let runtime = tokio::runtime::Handle::current();
    let mut workers = Workers::new();
    let stop = workers.stop.subscribe();
    workers.tasks.spawn_on(run(None, stop.clone()), &runtime);
    workers.tasks.spawn_on(run(Some("panic"), stop), &runtime);
    let (_stop, stopping) = watch::channel(false);
    let failure = workers.run(stopping).await.expect_err("one of them failed");
    assert_eq!(failure.to_string(), "internal error: injected fault");
}
