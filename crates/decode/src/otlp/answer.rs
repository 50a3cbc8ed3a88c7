//! What the sender is told.

use super::Encoding;
use super::json::varint;
use crate::json::push_string;

/// An `ExportMetricsServiceResponse`: everything was taken, or how many points were not and why.
///
/// Senders do not repeat what is refused this way. A message without refused points is a word of warning.
pub fn answer(encoding: Encoding, refused: u64, message: &str) -> Vec<u8> {
    let is_whole = refused == 0 && message.is_empty();
    match encoding {
        Encoding::Protobuf if is_whole => Vec::new(),
        Encoding::Protobuf => {
            let mut partial = Vec::new();
            if refused > 0 {
                partial.push(1 << 3);
                varint(refused, &mut partial);
            }
            put_bytes(2, message.as_bytes(), &mut partial);
            let mut response = Vec::new();
            put_bytes(1, &partial, &mut response);
            response
        }
        Encoding::Json if is_whole => b"{}".to_vec(),
        Encoding::Json => {
            let mut json =
                format!(r#"{{"partialSuccess":{{"rejectedDataPoints":"{refused}","errorMessage":"#);
            push_string(&mut json, message);
            json.push_str("}}");
            json.into_bytes()
        }
    }
}

/// A `google.rpc.Status`: why nothing of a request was taken.
pub fn problem(encoding: Encoding, message: &str) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => {
            let mut status = Vec::new();
            put_bytes(2, message.as_bytes(), &mut status);
            status
        }
        Encoding::Json => {
            let mut json = r#"{"message":"#.to_string();
            push_string(&mut json, message);
            json.push('}');
            json.into_bytes()
        }
    }
}

fn put_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
