//! stub
pub async fn get() -> &'static str {
    ""
}
pub async fn post() -> &'static str {
    ""
}
