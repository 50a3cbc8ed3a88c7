//! Responses to the sender.

use super::json::varint;
use super::{Encoding, Signal};
use crate::json::push_string;

/// Encodes the response to an export of a signal: everything was accepted, or how many points, spans or log records were
/// rejected and why.
///
/// Senders do not retry what was rejected this way. A message without rejections is a warning.
pub fn export_response(signal: Signal, encoding: Encoding, rejected: u64, message: &str) -> Vec<u8> {
    let is_success = rejected == 0 && message.is_empty();
    match encoding {
        Encoding::Protobuf if is_success => Vec::new(),
        Encoding::Protobuf => {
            let mut partial = Vec::new();
            if rejected > 0 {
                partial.push(1 << 3);
                varint(rejected, &mut partial);
            }
            put_bytes(2, message.as_bytes(), &mut partial);
            let mut response = Vec::new();
            put_bytes(1, &partial, &mut response);
            response
        }
        Encoding::Json if is_success => b"{}".to_vec(),
        Encoding::Json => {
            let field = signal.rejected_field();
            let mut json = format!(r#"{{"partialSuccess":{{"{field}":"{rejected}","errorMessage":"#);
            push_string(&mut json, message);
            json.push_str("}}");
            json.into_bytes()
        }
    }
}

/// Encodes a `google.rpc.Status` for a request that was rejected as a whole.
pub fn error_status(encoding: Encoding, message: &str) -> Vec<u8> {
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
