//! The requests of one SFTP session. Protocol version 3, `draft-ietf-secsh-filexfer-02`.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use russh_sftp::protocol::{
    Attrs, Data, File, FileAttributes, FileMode, Handle, Name, OpenFlags, Status, StatusCode,
};
use russh_sftp::server::{Handler, StatusReply};
use tokio::task::{JoinError, spawn_blocking};

use crate::inbox::{Inbox, ListedFile, Upload, UploadError, file_name};

/// Files and listings that a session may have open.
const HANDLES_MAX: usize = 16;
/// Files of one answer to a listing, so that it stays below the packet size of clients.
const LISTED_AT_ONCE: usize = 100;

/// One SFTP session.
pub(super) struct SftpSession {
    inbox: Arc<Inbox>,
    open: HashMap<String, OpenHandle>,
    opened: u64,
}

enum OpenHandle {
    Upload(Upload),
    /// What of the listing is still to be sent; `None` at its end.
    Listing(Option<Vec<ListedFile>>),
}

impl From<UploadError> for StatusReply {
    fn from(failure: UploadError) -> StatusReply {
        let code = match &failure {
            UploadError::Name => StatusCode::PermissionDenied,
            UploadError::Io(cause) if cause.kind() == io::ErrorKind::NotFound => StatusCode::NoSuchFile,
            _ => StatusCode::Failure,
        };
        code.with_message(failure.to_string())
    }
}

/// Runs file operations where blocking is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StatusReply> {
    let done = spawn_blocking(work).await;
    done.map_err(|failure: JoinError| StatusCode::Failure.with_message(failure.to_string()))
}

fn done(id: u32) -> Status {
    let (error_message, language_tag) = ("Ok".to_owned(), "en-US".to_owned());
    Status { id, status_code: StatusCode::Ok, error_message, language_tag }
}

fn is_folder(path: &str) -> bool {
    matches!(path, "" | "." | "/" | "/." | "./")
}

fn folder_attributes() -> FileAttributes {
    let mut attributes = FileAttributes { permissions: Some(0o700), ..FileAttributes::empty() };
    attributes.set_type(FileMode::DIR);
    attributes
}

fn file_attributes(len: u64, modified_s: Option<u32>) -> FileAttributes {
    let (size, permissions) = (Some(len), Some(0o200));
    let times = FileAttributes { mtime: modified_s, atime: modified_s, ..FileAttributes::empty() };
    let mut attributes = FileAttributes { size, permissions, ..times };
    attributes.set_type(FileMode::REG);
    attributes
}

impl SftpSession {
    pub(super) fn new(inbox: Arc<Inbox>) -> SftpSession {
        SftpSession { inbox, open: HashMap::new(), opened: 0 }
    }

    fn insert(&mut self, id: u32, opened: OpenHandle) -> Handle {
        self.opened += 1;
        let handle = self.opened.to_string();
        self.open.insert(handle.clone(), opened);
        Handle { id, handle }
    }

    fn check_room(&self) -> Result<(), StatusReply> {
        if self.open.len() < HANDLES_MAX {
            return Ok(());
        }
        Err(StatusCode::Failure.with_message(format!("at most {HANDLES_MAX} files may be open in a session")))
    }

    async fn attributes_of(&self, path: String) -> Result<FileAttributes, StatusReply> {
        if is_folder(&path) {
            return Ok(folder_attributes());
        }
        let inbox = Arc::clone(&self.inbox);
        let file = blocking(move || inbox.stat(&path)).await??;
        Ok(file_attributes(file.len, Some(file.modified_s)))
    }
}

impl Handler for SftpSession {
    type Error = StatusReply;

    fn unimplemented(&self) -> StatusReply {
        StatusCode::OpUnsupported.with_message("this folder only receives files")
    }

    async fn open(
        &mut self,
        id: u32,
        filename: String,
        flags: OpenFlags,
        _attributes: FileAttributes,
    ) -> Result<Handle, StatusReply> {
        if !flags.contains(OpenFlags::WRITE) || flags.contains(OpenFlags::READ) {
            return Err(StatusCode::PermissionDenied.with_message("files can be written here, not read"));
        }
        if flags.contains(OpenFlags::APPEND) {
            return Err(
                StatusCode::OpUnsupported.with_message("files cannot be appended to: send the whole file")
            );
        }
        self.check_room()?;
        let inbox = Arc::clone(&self.inbox);
        let upload = blocking(move || inbox.create(&filename)).await??;
        Ok(self.insert(id, OpenHandle::Upload(upload)))
    }

    async fn write(
        &mut self,
        id: u32,
        handle: String,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<Status, StatusReply> {
        let Some(OpenHandle::Upload(mut upload)) = self.open.remove(&handle) else {
            return Err(StatusCode::Failure.with_message("the handle is not that of an open file"));
        };
        let (upload, written) = blocking(move || {
            let written = upload.write(offset, &data);
            (upload, written)
        })
        .await?;
        self.open.insert(handle, OpenHandle::Upload(upload));
        written?;
        Ok(done(id))
    }

    async fn close(&mut self, id: u32, handle: String) -> Result<Status, StatusReply> {
        match self.open.remove(&handle) {
            Some(OpenHandle::Upload(upload)) => blocking(move || upload.finish()).await??,
            Some(OpenHandle::Listing(_)) => {}
            None => return Err(StatusCode::Failure.with_message("no such handle")),
        }
        Ok(done(id))
    }

    async fn read(
        &mut self,
        _id: u32,
        _handle: String,
        _offset: u64,
        _len: u32,
    ) -> Result<Data, StatusReply> {
        Err(StatusCode::PermissionDenied.with_message("files can be written here, not read"))
    }

    async fn opendir(&mut self, id: u32, path: String) -> Result<Handle, StatusReply> {
        if !is_folder(&path) {
            return Err(StatusCode::NoSuchFile.into());
        }
        self.check_room()?;
        let inbox = Arc::clone(&self.inbox);
        let files = blocking(move || inbox.list()).await??;
        Ok(self.insert(id, OpenHandle::Listing(Some(files))))
    }

    async fn readdir(&mut self, id: u32, handle: String) -> Result<Name, StatusReply> {
        let Some(OpenHandle::Listing(listing)) = self.open.get_mut(&handle) else {
            return Err(StatusCode::Failure.with_message("the handle is not that of a listing"));
        };
        let mut files = listing.take().filter(|files| !files.is_empty()).ok_or(StatusCode::Eof)?;
        let rest = files.split_off(files.len().min(LISTED_AT_ONCE));
        *listing = Some(rest);
        let to_file = |file: ListedFile| {
            let attributes = file_attributes(file.len, Some(file.modified_s));
            File::new(file.name, attributes)
        };
        Ok(Name { id, files: files.into_iter().map(to_file).collect() })
    }

    async fn realpath(&mut self, id: u32, path: String) -> Result<Name, StatusReply> {
        let path = if is_folder(&path) { "/".to_owned() } else { format!("/{}", file_name(&path)?) };
        Ok(Name { id, files: vec![File::dummy(path)] })
    }

    async fn stat(&mut self, id: u32, path: String) -> Result<Attrs, StatusReply> {
        Ok(Attrs { id, attrs: self.attributes_of(path).await? })
    }

    async fn lstat(&mut self, id: u32, path: String) -> Result<Attrs, StatusReply> {
        self.stat(id, path).await
    }

    async fn fstat(&mut self, id: u32, handle: String) -> Result<Attrs, StatusReply> {
        let Some(OpenHandle::Upload(upload)) = self.open.get(&handle) else {
            return Err(StatusCode::Failure.with_message("the handle is not that of an open file"));
        };
        Ok(Attrs { id, attrs: file_attributes(upload.len(), None) })
    }

    /// Accepted and ignored: clients set times and permissions after an upload, when the file may have been processed.
    async fn setstat(
        &mut self,
        id: u32,
        path: String,
        _attributes: FileAttributes,
    ) -> Result<Status, StatusReply> {
        if !is_folder(&path) {
            file_name(&path)?;
        }
        Ok(done(id))
    }

    /// Accepted and ignored, as with `setstat`.
    async fn fsetstat(
        &mut self,
        id: u32,
        _handle: String,
        _attributes: FileAttributes,
    ) -> Result<Status, StatusReply> {
        Ok(done(id))
    }

    async fn rename(&mut self, id: u32, from: String, to: String) -> Result<Status, StatusReply> {
        let inbox = Arc::clone(&self.inbox);
        blocking(move || inbox.rename(&from, &to)).await??;
        Ok(done(id))
    }

    async fn remove(&mut self, id: u32, path: String) -> Result<Status, StatusReply> {
        let inbox = Arc::clone(&self.inbox);
        blocking(move || inbox.remove(&path)).await??;
        Ok(done(id))
    }
}
