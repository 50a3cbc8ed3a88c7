//! Accepts uploads over SFTP into a folder. A file appears under its name when it is complete and durable, never before.
//!
//! The folder is a drop box: clients may create, replace, rename, remove and list files in it. They cannot read what is
//! in them, and nothing outside of the folder can be named.

mod inbox;
mod sftp;

pub use inbox::{Inbox, UploadError};
pub use sftp::{CheckPassword, SftpServer, SftpSettings};
