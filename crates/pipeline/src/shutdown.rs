//! Waiting for the server to stop.

use tokio::sync::watch;

/// Returns when the server stops.
pub async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which also is a stop.
    drop(stop.wait_for(|stop| *stop).await);
}
