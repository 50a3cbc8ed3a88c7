use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{CollectorSettings, Decoder, Transport, UdpSettings};
use pipeline::catalog::Catalog;

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
const FIRST: Duration = Duration::from_millis(20);

/// Runs attempts that end as `ends` says, one after the other, and then one that runs until it is stopped. Answers with
/// the waits before them, as multiples of the first wait, rounded down; and with the states at the end.
async fn told(ends: &'static [&'static str]) -> (Vec<f64>, [State; 2]) {
    let (collector, count) = (collector(), Arc::new(AtomicUsize::new(0)));
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (stop, stopping) = watch::channel(false);
    let attempt = {
        let collector = Arc::clone(&collector);
        move |end: watch::Receiver<bool>| {
            let (collector, begun) = (Arc::clone(&collector), begun.clone());
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move {
                collector.is_running();
                let _ = begun.send(Instant::now());
                run(ends.get(number).copied(), end).await
            }
        }
    };
    let supervised = tokio::spawn(supervise(Arc::clone(&collector), FIRST.into(), stopping, attempt));
    let mut last = begins.recv().await.expect("a first start");
    let mut waits = Vec::new();
    for end in ends {
        let next = begins.recv().await.expect("it is started again");
        let ran = if *end == "fail later" { 5 * FIRST } else { Duration::ZERO };
        let wait = next.duration_since(last).saturating_sub(ran);
        waits.push((wait.as_secs_f64() / FIRST.as_secs_f64() * 4.0).floor() / 4.0);
        last = next;
    }
    let while_it_runs = collector.status.lock().state;
    stop.send_replace(true);
    supervised.await.expect("a supervisor does not panic");
    let in_the_end = collector.status.lock().state;
    (waits, [while_it_runs, in_the_end])
}

async fn run(end: Option<&str>, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    match end {
        Some("panic") => panic!("on purpose"),
        Some("fail later") => sleep(5 * FIRST).await,
        Some(_) => {}
        None => {
            wait_for_stop(&mut stop).await;
            return Ok(());
        }
    }
    Err(anyhow!("on purpose"))
}

/// A busy machine waits longer, never shorter.
async fn check(ends: &'static [&'static str], waits_min: &[f64]) {
    let (waits, states) = told(ends).await;
    assert!(waits.iter().zip(waits_min).all(|(wait, min)| wait >= min), "{waits:?}, at least {waits_min:?}");
    assert_eq!((waits.len(), states), (waits_min.len(), [State::Running, State::Stopped]));
}

#[tokio::test]
async fn what_fails_or_panics_is_started_again_later_each_time() {
    check(&["fail", "panic", "fail"], &[1.0, 1.5, 2.25]).await;
}

#[tokio::test]
async fn what_ran_longer_than_the_last_wait_is_started_again_soon() {
    check(&["fail", "fail", "fail later", "fail"], &[1.0, 1.5, 1.0, 1.5]).await;
}

#[tokio::test]
async fn a_crew_ends_when_one_of_it_fails_and_says_why() {
    let runtime = tokio::runtime::Handle::current();
    let mut crew = Crew::new();
    let end = crew.end.subscribe();
    crew.workers.spawn_on(run(None, end.clone()), &runtime);
    crew.workers.spawn_on(run(Some("panic"), end), &runtime);
    let (_stop, stopping) = watch::channel(false);
    let failure = crew.work(stopping).await.expect_err("one has failed");
    assert_eq!(failure.to_string(), "it failed inside: on purpose");
}
