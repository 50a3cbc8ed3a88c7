//! Estimate of voice call quality from loss, delay and jitter.
//!
//! This is the E-model of ITU-T G.107 with its default values, reduced to what can be measured from outside: R =
//! 93.2 - Id - Ie,eff.
//!
//! - 93.2 is G.107's R when everything else has its default.
//! - Id, the delay's impairment, is the two-line approximation 0.024 d + 0.11 (d - 177.3) H(d - 177.3) of R. G. Cole and
//!   J. H. Rosenbluth, "Voice over IP performance monitoring", ACM SIGCOMM CCR 31(2), 2001; d in milliseconds.
//! - Ie,eff = Ie + (95 - Ie) Ppl / (Ppl + Bpl) is G.107's for random loss, with Ie = 0 and Bpl = 25.1: G.711 with packet
//!   loss concealment, ITU-T G.113, appendix I; Ppl in percent.
//! - MOS = 1 + 0.035 R + 7e-6 R (R - 60) (100 - R) is G.107, annex B.
//!
//! The one-way delay is half the round trip, plus twice the jitter for the jitter buffer, plus 10 ms for the codec.
//! Codecs other than G.711 sound worse than this estimate: use it to compare flows, not to certify them.

const R_DEFAULT: f64 = 93.2;
const CODEC_MS: f64 = 10.0;
const CONVERSATION_MS: f64 = 177.3;
/// Bpl of G.711 with packet loss concealment.
const ROBUSTNESS: f64 = 25.1;

/// The quality of a flow, or of one of its directions, over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Packets expected.
    pub expected: u64,
    /// Packets lost, of those expected.
    pub lost: u64,
    /// Interarrival jitter, milliseconds; for a flow, that of the worse direction.
    pub jitter_ms: f64,
    /// The last round-trip time, milliseconds.
    pub rtt_ms: Option<f64>,
    /// Estimated mean opinion score, 1 (bad) to 4.5; for a flow, that of the worse direction.
    pub mos: f64,
}

impl Quality {
    /// Returns the lost share, 0 to 1.
    pub fn loss(&self) -> f64 {
        if self.expected == 0 { 0.0 } else { self.lost as f64 / self.expected as f64 }
    }
}

/// Returns the estimated mean opinion score, 1 to 4.5. `loss` is a share, 0 to 1.
pub(crate) fn mos(loss: f64, jitter_ms: f64, rtt_ms: f64) -> f64 {
    let delay_ms = rtt_ms / 2.0 + 2.0 * jitter_ms + CODEC_MS;
    let delay = 0.024 * delay_ms + 0.11 * (delay_ms - CONVERSATION_MS).max(0.0);
    let percent = 100.0 * loss.clamp(0.0, 1.0);
    let equipment = 95.0 * percent / (percent + ROBUSTNESS);
    of_r(R_DEFAULT - delay - equipment)
}

fn of_r(r: f64) -> f64 {
    if r <= 0.0 {
        return 1.0;
    }
    let r = r.min(100.0);
    // For small R the polynomial falls below its lowest valid value.
    (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(loss: f64, jitter_ms: f64, rtt_ms: f64, expected: &str) {
        assert_eq!(format!("{:.2}", mos(loss, jitter_ms, rtt_ms)), expected);
    }

    /// G.107, annex B: R of 93.2, 90, 80, 70, 60, 50.
    #[test]
    fn mos_matches_g_107() {
        let scores = [93.2, 90.0, 80.0, 70.0, 60.0, 50.0].map(|r| format!("{:.2}", of_r(r)));
        assert_eq!(scores, ["4.41", "4.34", "4.02", "3.60", "3.10", "2.58"]);
        assert_eq!((of_r(-3.0), of_r(0.1), of_r(500.0)), (1.0, 1.0, 4.5));
    }

    #[test]
    fn loss_delay_and_jitter_lower_the_score() {
        check(0.0, 0.0, 0.0, "4.40");
        check(0.01, 0.0, 0.0, "4.32");
        check(0.05, 0.0, 0.0, "3.91");
        check(0.0, 0.0, 300.0, "4.32");
        check(0.0, 0.0, 600.0, "3.65");
        check(0.0, 40.0, 200.0, "4.27");
        check(1.0, 0.0, 0.0, "1.17");
    }
}
