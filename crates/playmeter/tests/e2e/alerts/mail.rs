//! Mails, sent to a small SMTP server.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::{mean_rule, newest_deliveries, put, send_values, wait_for};
use crate::world::World;

/// A mail as the server received it: the envelope and the data.
#[derive(Clone, Debug, Default)]
struct Mail {
    from: String,
    to: String,
    data: String,
}

/// Starts a server that rejects the first mail for now, and accepts the others. Returns its port.
fn start_server(mails: Arc<Mutex<Vec<Mail>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            serve(stream, number == 0, &mails);
        }
    });
    port
}

fn serve(mut stream: TcpStream, is_rejected: bool, mails: &Mutex<Vec<Mail>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let mut mail = Mail::default();
    write!(stream, "220 test\r\n").ok()?;
    while let Some(Ok(line)) = lines.next() {
        let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        let reply = match &*verb {
            "EHLO" | "HELO" | "RSET" | "NOOP" => "250 ok",
            "MAIL" if is_rejected => "451 try again later",
            "MAIL" => {
                mail.from = line;
                "250 ok"
            }
            "RCPT" => {
                mail.to = line;
                "250 ok"
            }
            "DATA" => {
                write!(stream, "354 go on\r\n").ok()?;
                for line in lines.by_ref().map_while(Result::ok).take_while(|line| line != ".") {
                    mail.data.push_str(&line);
                    mail.data.push('\n');
                }
                mails.lock().ok()?.push(mail.clone());
                "250 accepted"
            }
            "QUIT" => "221 bye",
            _ => "502 unknown",
        };
        write!(stream, "{reply}\r\n").ok()?;
    }
    Some(())
}

#[test]
fn mail_is_sent_again_until_the_server_accepts_it() {
    let mails: Arc<Mutex<Vec<Mail>>> = Arc::default();
    let port = start_server(Arc::clone(&mails));
    let settings = format!(
        "[alerts]\ninterval_s = 1\n[alerts.smtp]\nhost = \"127.0.0.1\"\nport = {port}\nencryption = \"none\"\n\
         from = \"Playmeter <alerts@example.com>\"\n"
    );
    let world = World::configured(&settings, &[]);
    let mut rule = mean_rule(json!([{ "kind": "email", "to": "ops@example.com" }]));
    rule["message"] = "Look at the server.".into();
    put(&world, "fails", &rule);
    send_values(&world, "fail", 100, 1);
    let mail =
        wait_for(&world, "a mail", || mails.lock().expect("no thread panics with it").first().cloned());
    assert!(mail.from.contains("<alerts@example.com>") && mail.to.contains("<ops@example.com>"), "{mail:?}");
    assert!(mail.data.contains("Subject: Firing: Failures\n"), "{}", mail.data);
    assert!(mail.data.contains("value 100, compared with > 50") && mail.data.contains("Look at the server."));
    assert!(mail.data.contains("Message-ID: <demo-fails-"), "{}", mail.data);
    let delivery = wait_for(&world, "it is recorded", || {
        let delivery = newest_deliveries(&world, "fails")[0].clone();
        (delivery["status"] == "delivered").then_some(delivery)
    });
    assert_eq!(delivery["attempts"], 2, "the first one was rejected for now");
}

#[test]
fn without_a_mail_server_the_delivery_fails_and_says_why() {
    let world = super::world();
    put(&world, "fails", &mean_rule(json!([{ "kind": "email", "to": "ops@example.com" }])));
    let output = world.command(&["alerts", "test", "fails"]);
    assert!(output.code == 1 && output.out.contains("alerts.smtp.host"), "{output:?}");
}
